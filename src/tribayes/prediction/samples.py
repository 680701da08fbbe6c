"""Who answers: so many sampled networks, as many as it takes, or none but the moments of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

from torch import Tensor

from tribayes._errors import check_whole, is_number, refusal, wrong_type
from tribayes.prediction.source import average, certain, quantiles, tails

_MOST = 1_000_000  # samples


@dataclass(frozen=True)
class Drawn:
    """An answer of sampled networks: the seed of all draws, and the numbers of those that were made."""

    seed: int
    indices: tuple[int, ...]


@dataclass(frozen=True)
class Moments:
    """An answer without drawing: mean and variance of every unit are carried through the network once.

    An approximation (its error is in docs/estimators.md, its assumptions are in prediction/moments.py) for networks of
    linear layers, convolutions, ReLU, pooling, BatchNorm and sums. `points` quasi-random points stand for the Gaussian
    outputs; they are the `samples` of the prediction.

    Example:
        >>> model = tribayes.to_bayesian(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
        >>> pred = tribayes.predict(model, torch.randn(5, 4), tribayes.Moments(), progress=False)
        >>> pred.mean.shape, pred.sample_count
        (torch.Size([5, 3]), 0)
    """

    points: int = 512

    def __post_init__(self) -> None:
        if isinstance(self.points, bool) or not isinstance(self.points, Integral) or self.points < 2 or self.points % 2:
            raise refusal("points", self.points, "be an even whole number, at least 2", "512 is the default")


@dataclass(frozen=True)
class AutoSamples:
    """As many sampled networks as it takes: start with `first`, double until stable, stop at `cap`.

    Stable means that, between half of the samples and all of them, at most the share `tolerance` of examples changed
    its decision: the label, or whether it is certain at `level`. Regression has no such decision; there the bounds of
    the intervals must have moved by less than `tolerance` of the intervals' mean width, on average. It is decided on
    the first chunk of examples.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> pred = tribayes.predict(model, torch.randn(5, 4), AutoSamples(tolerance=0.5, cap=100), progress=False)
        >>> pred.sample_count in (50, 100)
        True
    """

    tolerance: float = 0.005
    cap: int = 1600
    level: float = 0.95
    first: int = 50

    def __post_init__(self) -> None:
        tails(self.level)
        if not is_number(self.tolerance):
            raise wrong_type("tolerance", self.tolerance, "be a number", "it is a share of examples")
        if not 0 < self.tolerance < 1:
            raise refusal("tolerance", self.tolerance, "lie strictly between 0 and 1", "it is a share of examples")
        check_whole("first", self.first, "it counts sampled networks", least=2)
        check_whole("cap", self.cap, "it counts sampled networks")
        if self.first > self.cap:
            raise refusal("cap", self.cap, f"be at least `first` (={self.first})", "raise it")

    def enough(self, samples: Tensor, classes: bool) -> bool:
        """Whether to stop after these samples, (S, N, C)."""
        if len(samples) >= self.cap:
            return True
        half = samples[: len(samples) // 2]
        before, after = quantiles(half, tails(self.level)), quantiles(samples, tails(self.level))
        if not classes:
            width = (after[1] - after[0]).mean()
            return not width > 0 or float((after - before).abs().mean() / width) <= self.tolerance
        label, new_label = average(half).argmax(-1), average(samples).argmax(-1)
        sure, new_sure = certain(before[0], before[1], label), certain(after[0], after[1], new_label)
        changed = (label != new_label) | (sure != new_sure)
        return float(changed.double().mean()) <= self.tolerance


def numbers_of(samples: object, kinds: str = "a number or a range", remedy: str = "pass e.g. samples=200") -> range:
    """The numbers of the samples that were asked for: so many, or these; an error for anything but `kinds`."""
    indices = range(int(samples)) if isinstance(samples, Integral) and not isinstance(samples, bool) else samples
    if not isinstance(indices, range):
        raise wrong_type("samples", samples, f"be {kinds}", remedy)
    if indices.stop - indices.start > _MOST:
        requirement = f"name at most {_MOST:,} samples"
        raise refusal("samples", samples, requirement, "the error of sampling is far below the rest by then")
    if len(indices) < 1 or indices[0] < 0 or indices.step != 1:
        requirement = "name at least one sample, counting from 0 up without gaps"
        raise refusal("samples", samples, requirement, "pass e.g. samples=200, or range(0, 100)")
    return indices
