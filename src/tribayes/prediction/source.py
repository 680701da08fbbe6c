"""What sampled networks said: all of it, or exactly the reductions that were asked for. Tensors live on the CPU.

Both kinds have, of S samples for N examples with C values each: `mean` (N, C), `std` (N, C), divided by S − 1, and
`mean_entropy` (N,) of probabilities. A quantile is the linear interpolation between order statistics, as torch's and
NumPy's: for S = 200 and a 95 % interval, between the 5th and 6th smallest, and the 195th and 196th.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tribayes._errors import is_number, refusal, wrong_type

_ENTRIES_AT_ONCE = 2**24  # sorted at once: bounds the working memory


class Kept:
    """All samples (S, N, C) held: everything can be asked, at any level, later. They are summed up where they are.

    `on_host` are the same, where they have been brought there already.
    """

    def __init__(self, samples: Tensor, on_host: Tensor | None = None) -> None:
        self.mean, self.std, self.mean_entropy = _moments(samples)
        self.samples = samples.cpu() if on_host is None else on_host

    def quantiles(self, probabilities: Sequence[float]) -> Tensor:
        """(len(probabilities), N, C)."""
        return quantiles(self.samples, probabilities)


@dataclass
class Reduced:
    """Samples reduced a chunk of examples at a time, exactly: for N × C × S too large to hold."""

    mean: Tensor
    std: Tensor
    mean_entropy: Tensor
    table: dict[float, Tensor]  # probability → quantile (N, C)

    @classmethod
    def of(cls, samples: Tensor, levels: Sequence[float]) -> Reduced:
        """Reduce the samples of one chunk."""
        wanted = sorted({p for level in levels for tail in tails(level) for p in neighbours(tail, len(samples))})
        table = dict(zip(wanted, quantiles(samples, wanted).cpu(), strict=True)) if wanted else {}
        return cls(*_moments(samples), table)

    @property
    def samples(self) -> Tensor:
        remedy = "predict again with keep_samples=True"
        raise refusal("keep_samples", False, "be True for what needs every sample", remedy)

    def quantiles(self, probabilities: Sequence[float]) -> Tensor:
        """(len(probabilities), N, C), of the levels that were prepared."""
        missing = [p for p in probabilities if p not in self.table]
        if missing:
            level = round(1 - 2 * min(missing[0], 1 - missing[0]), 12)
            requirement = "be among the levels computed while predicting with keep_samples=False"
            remedy = "predict again with levels=(...) naming it, or with keep_samples=True"
            raise refusal("level", level, requirement, remedy)
        return torch.stack([self.table[p] for p in probabilities])


Source = Kept | Reduced


def together(answers: Sequence[Tensor], axis: int) -> Tensor:
    """Answers about some examples each, along their axis; an error where they have other shapes beyond it."""
    shapes = {tuple(answer.shape[axis + 1 :]) for answer in answers}
    if len(shapes) > 1:
        remedy = "pad the inputs to one length, or ask about each length by itself"
        raise refusal("inputs", sorted(shapes), "lead to answers of one shape per example", remedy)
    return torch.cat(list(answers), dim=axis)


def join(parts: Sequence[Source]) -> Source:
    """The same for more examples."""
    kept = [part for part in parts if isinstance(part, Kept)]
    reduced = [part for part in parts if isinstance(part, Reduced)]
    if kept and reduced:
        raise refusal("parts", "mixed", "all have kept their samples, or none", "predict them alike")
    if kept:
        return kept[0] if len(kept) == 1 else Kept(together([part.samples for part in kept], 1))
    if len({frozenset(part.table) for part in reduced}) > 1:
        raise refusal("parts", "different levels", "have prepared the same levels", "predict them alike")
    mean, std, entropies = (together([getattr(p, f) for p in reduced], 0) for f in ("mean", "std", "mean_entropy"))
    return Reduced(mean, std, entropies, {p: torch.cat([part.table[p] for part in reduced]) for p in reduced[0].table})


def neighbours(probability: float, count: int) -> tuple[float, float, float]:
    """A probability, and those one standard error of an empirical distribution function below and above it."""
    error = math.sqrt(probability * (1 - probability) / count)
    return max(0.0, probability - error), probability, min(1.0, probability + error)


def _moments(samples: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, standard deviation and mean entropy over the first axis, on the CPU."""
    std = samples.std(0) if len(samples) > 1 else torch.zeros_like(samples[0])
    return average(samples).cpu(), std.cpu(), entropy(samples).mean(0).cpu()


def average(samples: Tensor) -> Tensor:
    """Mean over the first axis, summed in float64: torch adds columns in an order that depends on their place.

    In float32 that would decide between equal classes, differently for each size of chunk.
    """
    return samples.mean(0, dtype=torch.float64).to(samples.dtype)


def entropy(probabilities: Tensor) -> Tensor:
    """−Σ p ln p over the last axis, in nats, with 0 ln 0 = 0."""
    return torch.special.entr(probabilities).sum(-1)


def quantiles(samples: Tensor, probabilities: Sequence[float]) -> Tensor:
    """Quantiles over the first axis: (S, N, C) → (len(probabilities), N, C).

    torch.quantile refuses more than 16 million entries; this sorts a block at a time, also of one large example.

    >>> quantiles(torch.arange(5.0).reshape(5, 1, 1), (0.25, 0.9)).flatten()
    tensor([1.0000, 3.6000])
    """
    last = len(samples) - 1
    places = [(probability * last, math.floor(probability * last)) for probability in probabilities]
    blocks = []
    for block in samples.flatten(1).split(max(1, _ENTRIES_AT_ONCE // len(samples)), dim=1):
        ordered = block.movedim(0, -1).sort(dim=-1).values  # (n, S): sorting is fastest along the last axis
        between = [ordered[..., i].lerp(ordered[..., min(i + 1, last)], place - i) for place, i in places]
        blocks.append(torch.stack(between))
    return torch.cat(blocks, dim=1).unflatten(1, samples.shape[1:])


def tails(level: float) -> tuple[float, float]:
    """α/2 and 1 − α/2 for the credibility level 1 − α, a number strictly between 0 and 1.

    >>> tails(0.5)
    (0.25, 0.75)
    >>> tails(95)
    Traceback (most recent call last):
    ValueError: `level` (=95) must lie strictly between 0 and 1; pass e.g. 0.95 for a 95 % interval.
    """
    if not is_number(level):
        raise wrong_type("level", level, "be a number", "pass e.g. 0.95")
    if not 0 < level < 1:
        raise refusal("level", level, "lie strictly between 0 and 1", "pass e.g. 0.95 for a 95 % interval")
    alpha = 1 - float(level)
    return alpha / 2, 1 - alpha / 2


def check_levels(levels: object) -> None:
    """Refuse what is no sequence of credibility levels."""
    if not isinstance(levels, Sequence) or isinstance(levels, str):
        raise wrong_type("levels", levels, "be a sequence of levels", "pass e.g. levels=(0.95,)")
    for level in levels:
        tails(level)


def certain(lower: Tensor, upper: Tensor, label: Tensor) -> Tensor:
    """(N,) bool: whether the interval of the class `label` (N,) overlaps no other class's, of (N, C) each.

    Intervals are closed: two that only touch do overlap, so the prediction is uncertain. An interval lying wholly
    above the predicted class's does not overlap it either; the paper's sentence is taken as it stands.

    >>> lower, upper = torch.tensor([[0.6, 0.1], [0.4, 0.3]]), torch.tensor([[0.9, 0.4], [0.7, 0.6]])
    >>> certain(lower, upper, label=torch.tensor([0, 0]))
    tensor([ True, False])
    """
    chosen = label.unsqueeze(-1)
    own_lower, own_upper = lower.gather(-1, chosen), upper.gather(-1, chosen)
    apart = (upper < own_lower) | (lower > own_upper)
    return apart.scatter(-1, chosen, True).all(-1)
