"""What is compared: the arms, what of each is chosen on held-out rows, and the training that all share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.defaults.plan import TASKS

SETS = ("concrete", "energy", "yacht")
SPLITS = 10
DRAWS = 200  # sampled networks, to predict
MEMBERS = 4  # of an ensemble

_TASK = TASKS["concrete"]  # the three are trained alike
STEPS, BATCH, LR, WEIGHT_DECAY = _TASK.length, _TASK.batch, _TASK.lr, _TASK.weight_decay


@dataclass(frozen=True)
class Arm:
    """A way to train a network and to ask it, and the values that its one option may have."""

    name: str
    title: str
    option: str
    values: tuple[float, ...]


SHARES = (0.01, 0.03, 0.06, 0.1, 0.2, 0.3)

PLAIN = Arm("plain", "plain", "weight decay", (0.0, 0.01, 0.1, 0.2, 0.5, 1.0))
DROPOUT = Arm("dropout", "MC dropout", "probability", (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02))
MEAN_FIELD = Arm("mean_field", "mean field", "c", SHARES)
IVON = Arm("ivon", "IVON", "ess / N", (1.0, 2.0, 5.0, 10.0, 20.0, 50.0))  # 1 / kl_weight, as it were
LAPLACE = Arm("laplace", "last-layer Laplace", "weight decay", PLAIN.values)  # δ is chosen by the evidence
SWAG = Arm("swag", "SWAG", "rate in the last quarter", (0.003, 0.01, 0.03, 0.06, 0.1, 0.2))
DIAGONAL = Arm("diagonal", "ours, diagonal", "c", SHARES)
TRIDIAGONAL = Arm("tridiagonal", "ours, tridiagonal", "c", SHARES)

ARMS = (PLAIN, DROPOUT, MEAN_FIELD, IVON, LAPLACE, SWAG, DIAGONAL, TRIDIAGONAL)
TOGETHER = (PLAIN, DROPOUT, MEAN_FIELD, DIAGONAL, TRIDIAGONAL)  # the splits are trained as one stack
ENSEMBLES = (PLAIN, TRIDIAGONAL)  # arms of which also several networks answer as one


@dataclass(frozen=True)
class Job:
    """An arm with a value of its option, on all splits of a set; `member` counts the networks of an ensemble."""

    data_set: str
    arm: Arm
    value: float
    member: int = 0

    @property
    def name(self) -> str:
        """
        >>> Job("yacht", IVON, 0.1).name
        'yacht-ivon-0.1-0'
        """
        return f"{self.data_set}-{self.arm.name}-{self.value:g}-{self.member}"

    def seed(self, split: int) -> int:
        """Of the first weights: a split's are the same for every arm."""
        return 1_000 * self.member + split


def jobs(sets: Sequence[str] = SETS, arms: Sequence[Arm] = ARMS) -> Iterator[Job]:
    """All that is trained before anything is chosen."""
    yield from (Job(data_set, arm, value) for data_set in sets for arm in arms for value in arm.values)
