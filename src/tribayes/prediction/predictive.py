"""What S sampled networks say about N examples: the part common to classification and regression."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from tribayes._errors import refusal, wrong_type
from tribayes.prediction.quantiles import tails
from tribayes.prediction.samples import Drawn, Moments
from tribayes.prediction.source import Kept, Source, join, neighbours

DEFAULT_LEVELS = (0.95, 0.99)


@dataclass(frozen=True)
class MonteCarloError:
    """How far results may be off because only S networks were drawn: one standard error, each (N, C)."""

    mean: Tensor
    lower: Tensor
    upper: Tensor

    def as_dict(self) -> dict[str, float]:
        """The largest of each."""
        return {name: float(errors.max()) for name, errors in vars(self).items()}

    def __str__(self) -> str:
        words = "largest standard error from sampling: mean {mean:.3g}, interval bounds {lower:.3g} and {upper:.3g}"
        return words.format(**self.as_dict())


class Predictive(ABC):
    """The posterior predictive by sampling. Made by `tribayes.predict`; all tensors live on the CPU."""

    def __init__(self, source: Source, origin: Drawn | Moments) -> None:
        self._source, self.origin = source, origin
        self._intervals: dict[float, tuple[Tensor, Tensor]] = {}

    @property
    def samples(self) -> Tensor:
        """(S, N, C): what each sampled network said."""
        return self._source.samples

    @property
    def keeps_samples(self) -> bool:
        """Whether every sample is held, or only what was asked for (`keep_samples=False`)."""
        return isinstance(self._source, Kept)

    @property
    def mean(self) -> Tensor:
        """(N, C): the average over the sampled networks."""
        return self._source.mean

    @property
    def sample_indices(self) -> tuple[int, ...]:
        """The numbers of the networks that were drawn; none where moments answered."""
        return self.origin.indices if isinstance(self.origin, Drawn) else ()

    @property
    def sample_count(self) -> int:
        """S, the number of networks drawn; 0 for `Moments`, which draws none: its `samples` are points."""
        return len(self.sample_indices)

    def __len__(self) -> int:
        return len(self.mean)

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """(lower, upper), each (N, C): the α/2 and 1 − α/2 quantiles of the sampled outputs, 1 − α = level."""
        probabilities = tails(level)
        if level not in self._intervals:
            lower, upper = self._source.quantiles(probabilities)
            self._intervals[level] = lower, upper
        return self._intervals[level]

    def monte_carlo_error(self, level: float = 0.95) -> MonteCarloError:
        """One standard error of the mean, and of both bounds of the interval, from drawing only S networks.

        The mean's is the standard deviation over √S. A quantile's is half the distance between the empirical quantiles
        one standard error of the distribution function, √(p(1 − p)/S), below and above it: no density is assumed.
        """
        if isinstance(self.origin, Moments):
            requirement = "be drawn networks for an error of sampling"
            raise refusal("samples", self.origin, requirement, "this one is exact there")
        self.interval(level)  # refuses, by its own name, a level that was not prepared
        around = [self._source.quantiles(neighbours(tail, self.sample_count)) for tail in tails(level)]
        lower, upper = ((above - below) / 2 for below, _, above in around)
        return MonteCarloError(self._source.std / self.sample_count**0.5, lower, upper)

    @abstractmethod
    def summary(self, targets: Tensor, levels: Sequence[float] = DEFAULT_LEVELS) -> Any:
        """How good the prediction is, given the truth."""

    @staticmethod
    def merge(parts: Sequence[Predictive], along: str = "samples") -> Predictive:
        """Put together what several processes predicted.

        Args:
            parts: predictions with the same seed.
            along: "samples" where each process drew other networks for the same examples (`samples=range(0, 100)`,
                `samples=range(100, 200)`); "examples" where each took other examples, in this order.
        """
        parts = list(parts)
        if along not in ("samples", "examples"):
            raise refusal("along", along, 'be "samples" or "examples"', "correct the word")
        if not parts or not all(isinstance(part, Predictive) for part in parts):
            raise wrong_type("parts", parts, "be predictions, at least one", "pass what tribayes.predict returned")
        kinds = list(dict.fromkeys(part._kind for part in parts))
        if len(kinds) > 1:
            remedy = "predict every part with the same arguments"
            raise refusal("parts", kinds, "be of one kind, with one seed and one noise", remedy)
        return parts[0]._joined_samples(parts) if along == "samples" else parts[0]._joined_examples(parts)

    def _joined_samples(self, parts: Sequence[Predictive]) -> Self:
        if isinstance(self.origin, Moments):
            raise refusal("parts", "by moments", "have drawn samples", 'use along="examples"')
        indices = [index for part in parts for index in part.sample_indices]
        if len(set(indices)) != len(indices):
            remedy = "give each process its own range of sample numbers"
            raise refusal("parts", sorted(indices)[:8], "have drawn different samples", remedy)
        shapes = [tuple(part.mean.shape) for part in parts]
        if len(set(shapes)) > 1:
            raise refusal("parts", shapes, "be about the same examples", 'use along="examples" for different ones')
        order = torch.tensor(indices).argsort()
        samples = torch.cat([part.samples for part in parts])[order]
        return self._with(Kept(samples), Drawn(self.origin.seed, tuple(sorted(indices))))

    def _joined_examples(self, parts: Sequence[Predictive]) -> Self:
        if len({part.sample_indices for part in parts}) > 1:
            counts = [part.sample_count for part in parts]
            raise refusal("parts", counts, "have drawn the same samples", 'use along="samples" for different ones')
        widths = [part.mean.shape[1] for part in parts]
        if len(set(widths)) > 1:
            raise refusal("parts", widths, "have as many outputs each", "predict every part with the same model")
        return self._with(join([part._source for part in parts]), self.origin)

    @property
    def _kind(self) -> tuple[object, ...]:
        """What parts of one prediction have in common."""
        return type(self).__name__, self.origin.seed if isinstance(self.origin, Drawn) else self.origin

    def _with(self, source: Source, origin: Drawn | Moments) -> Self:
        """The same kind of prediction from another source."""
        other = copy.copy(self)
        other._source, other.origin, other._intervals = source, origin, {}
        return other
