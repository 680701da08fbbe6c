"""Which rows do what, by the seed: most are trained on, some set the widths of the answers, some judge them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes.posterior.streams import Stream
from tribayes.prediction.calibration import FEWEST

FEWEST_ROWS = 60
SHARE = 0.2  # held out to calibrate by, and again to judge by
MOST_CALIBRATING = 5_000  # fix a 95 % quantile to 0.3 %, and are asked again and again: of a long table others train

_STREAM = 6  # of the tree of seeds; trainer and evaluation use 0 to 5


class Parts(NamedTuple):
    """The numbers of the rows of each part, increasing."""

    train: Tensor
    calibration: Tensor
    test: Tensor

    def words(self, things: str = "rows") -> str:
        """Who did what, in a sentence."""
        train, calibration, test = (f"{len(part):,}" for part in self)
        return (
            f"{train} {things} were trained on, {calibration} others set the widths of intervals and sets "
            f"(calibration), and {test}, which neither has seen, judge the result."
        )


def check_enough(rows: int, what: str) -> None:
    """Refuse what is too little to be divided."""
    if rows < FEWEST_ROWS:
        requirement = f"have at least {FEWEST_ROWS} {what} with a target, to train on, calibrate by and judge by"
        raise refusal("DATA", f"{rows} {what}", requirement, "gather more")


def parts_of(targets: Tensor, seed: int, what: str) -> Parts:
    """Rows (N,) divided: classes (int64) in about the same shares in each part, values at random.

    >>> [len(part) for part in parts_of(torch.arange(200) % 2, seed=0, what="rows")]
    [120, 40, 40]
    >>> [len(part) for part in parts_of(torch.arange(100_000) % 2, seed=0, what="rows")]
    [75000, 5000, 20000]
    """
    rows = len(targets)
    check_enough(rows, what)
    source = Stream((seed, _STREAM)).generator(torch.device("cpu"))
    order = torch.randperm(rows, generator=source)
    place = torch.arange(rows, dtype=torch.float64)
    if not targets.is_floating_point():  # each class's rows are spread evenly over [0, 1): any stretch has all classes
        for label in targets.unique():
            own = targets[order] == label
            count = int(own.sum())
            place[own] = (torch.arange(count, dtype=torch.float64) + float(torch.rand((), generator=source))) / count
    order = order[place.argsort(stable=True)]
    test = round(SHARE * rows)
    calibration = min(max(FEWEST, test), MOST_CALIBRATING)
    cut = order.split([calibration, test, rows - calibration - test])
    return Parts(*(part.sort().values for part in (cut[2], cut[0], cut[1])))
