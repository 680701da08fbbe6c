"""What is compared: laws that differ in their correlation alone, on which images, with which kl_weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.correlation.families import InsideKernels, MeanInput, RandomOrder, WithoutMean
from tribayes.posterior import Family

SEEDS = 5
SHARES = (0.1, 0.03, 0.3)  # c in kl_weight = min(1, c N / K); the first is the default's
DRAWS = 20  # sampled networks, to predict
TRAINING, HELD_OUT, FOREIGN = 10_000, 2_000, 2_000  # images

EPOCHS, BATCH, LR, WEIGHT_DECAY = 16, 128, 0.05, 5e-4


@dataclass(frozen=True)
class Arm:
    """A law."""

    name: str
    title: str
    family: str | type[Family]


DIAGONAL = Arm("diagonal", "diagonal", "diagonal")
TRIDIAGONAL = Arm("tridiagonal", "tridiagonal (the paper's)", "tridiagonal")
RANDOM = Arm("random", "tridiagonal, random order", RandomOrder)
INSIDE = Arm("inside", "T(ρ_h) ⊗ T(ρ_w) inside kernels", InsideKernels)
WITHOUT_MEAN = Arm("without_mean", "s along m of each kernel", WithoutMean)
MEAN_INPUT = Arm("mean_input", "s along m · mean input", MeanInput)
OTHERS = (TRIDIAGONAL, RANDOM, INSIDE, WITHOUT_MEAN, MEAN_INPUT)  # than the diagonal one
ARMS = (DIAGONAL, *OTHERS)


@dataclass(frozen=True)
class Task:
    """Images to learn, and foreign ones."""

    name: str
    title: str
    foreign: tuple[str, ...]


TASKS = (
    Task("mnist", "MNIST", ("kmnist", "fashion-mnist")),
    Task("fashion-mnist", "Fashion-MNIST", ("kmnist", "mnist")),
)


@dataclass(frozen=True)
class Job:
    """One network."""

    task: Task
    arm: Arm
    share: float
    seed: int

    @property
    def name(self) -> str:
        """
        >>> Job(TASKS[0], RANDOM, 0.1, 3).name
        'mnist-random-0.1-3'
        """
        return f"{self.task.name}-{self.arm.name}-{self.share:g}-{self.seed}"


def jobs(tasks: Sequence[Task] = TASKS, arms: Sequence[Arm] = ARMS, seeds: int = SEEDS) -> Iterator[Job]:
    """All of them, the default's c first, and seeds before arms, so that what is there is paired."""
    for share in SHARES:
        for seed in range(seeds):
            yield from (Job(task, arm, share, seed) for task in tasks for arm in arms)
