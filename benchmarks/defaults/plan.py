"""What is compared, on which tasks, in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)  # c in kl_weight = min(1, c N / K)
USUAL = 0.1  # the one of tribayes.ELBO
PRIORS = ("paper", "relative")


@dataclass(frozen=True)
class Arm:
    """One way to train: a prior, a family and c; or a plain network."""

    prior: str
    family: str = "tridiagonal"
    share: float = USUAL

    @property
    def title(self) -> str:
        return "plain" if self == PLAIN else f"{self.prior}, {self.family}, c = {self.share:g}"


PLAIN = Arm("none", "plain", 0.0)
DIAGONAL = Arm("relative", "diagonal")

# what says most comes first, for a task may run out of time
_ORDER = (0.1, 0.03, 0.3, 0.01, 1.0)
_RELATIVE, _PAPER = ([Arm(prior, share=share) for share in _ORDER] for prior in ("relative", "paper"))
_BAYESIAN = (*_RELATIVE, _PAPER[0], DIAGONAL, *_PAPER[1:])


@dataclass(frozen=True)
class Task:
    """A network, its data and how it is trained: the same for all arms."""

    name: str
    title: str
    rows: int  # N, to train on
    held_out: int
    weights: int  # K
    seeds: int  # or splits
    lr: float
    weight_decay: float  # of the means, under both priors, and of a plain network
    length: int  # steps of a regression, epochs of a classification
    batch: int
    networks: int  # sampled, to predict
    threads: int = 1
    regression: bool = False

    @property
    def arms(self) -> tuple[Arm, ...]:
        return _BAYESIAN if self.regression else (*_BAYESIAN[:3], PLAIN, *_BAYESIAN[3:])

    @property
    def miss(self) -> str:
        """The figure that says how often, or how far, predictions are wrong."""
        return "rmse" if self.regression else "error"

    @property
    def trust(self) -> str:
        """The figure that says whether they know it: 95 % intervals that cover, or a calibration error."""
        return "coverage" if self.regression else "ece"


def _uci(name: str, rows: int, held_out: int, weights: int) -> Task:
    return Task(name, f"UCI {name}", rows, held_out, weights, 10, 0.01, 0.01, 2_000, 64, 200, regression=True)


TASKS = {
    task.name: task
    for task in (
        _uci("concrete", 742, 185, 501),
        _uci("energy", 553, 138, 501),
        _uci("yacht", 222, 55, 401),
        Task("digits-mlp", "digits, 64-64-10", 1_000, 437, 4_810, 3, 0.05, 5e-4, 60, 128, 200),
        Task("digits-cnn", "digits, small LeNet", 1_000, 437, 13_706, 3, 0.05, 5e-4, 60, 128, 200),
        Task("fashion-mlp", "Fashion-MNIST, 784-256-10", 50_000, 10_000, 203_530, 2, 0.05, 5e-4, 20, 128, 30),
        Task(
            "fashion-lenet", "Fashion-MNIST, LeNet-100", 50_000, 10_000, 106_680, 2, 0.02, 5e-4, 8, 128, 30, threads=2
        ),
    )
}


@dataclass(frozen=True)
class Job:
    """Networks that are trained together: one seed, or all splits of a regression."""

    task: Task
    arm: Arm
    seeds: tuple[int, ...]


def queue(tasks: Sequence[Task], seeds: int | None = None) -> Iterator[Job]:
    """Every job once: the first seed of all tasks, then the second, so that each task has something early."""
    for seed in range(max(task.seeds for task in tasks)):
        for task in tasks:
            if seed >= min(task.seeds, seeds or task.seeds) or (task.regression and seed):
                continue
            numbers = tuple(range(task.seeds)) if task.regression else (seed,)
            yield from (Job(task, arm, numbers) for arm in task.arms)


def kl_weight(share: float, rows: int, weights: int) -> float:
    """The rule: c times the rows for each weight, and never more than the evidence lower bound has.

    >>> kl_weight(0.1, rows=50_000, weights=200_000), kl_weight(0.1, rows=10_000, weights=500)
    (0.025, 1.0)
    """
    return min(1.0, share * rows / weights)
