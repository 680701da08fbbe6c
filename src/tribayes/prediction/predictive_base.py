"""What every prediction has: a source of answers, intervals, the error of sampling, and how parts are put together."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tribayes._errors import refusal, wrong_type
from tribayes.inference.likelihood import Likelihood
from tribayes.prediction.question import (
    Question,
    check_alike,
    check_one_network,
    check_same_examples,
    one_after_the_other,
)
from tribayes.prediction.samples import AutoSamples, Drawn, Moments
from tribayes.prediction.source import Kept, Source, join, neighbours, tails
from tribayes.prediction.summary import origin

DEFAULT_LEVELS = (0.95, 0.99)


@dataclass(frozen=True)
class MonteCarloError:
    """How far results may be off because only S networks were drawn: one standard error, each (N, C).

    Example:
        >>> pred = tb.predict(tb.to_bayesian(nn.Linear(2, 3)), torch.randn(5, 2), progress=False)
        >>> pred.monte_carlo_error().mean.shape
        torch.Size([5, 3])
    """

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
    """The posterior predictive by sampling. Made by `tribayes.predict`; all tensors live on the CPU.

    One of your own has to say `summary`, and, where its constructor takes more than a source and an origin, `of`.

    Example:
        >>> model, x = tb.to_bayesian(nn.Linear(2, 3)), torch.randn(5, 2)
        >>> halves = [tb.predict(model, x, samples=part, progress=False) for part in (range(50), range(50, 100))]
        >>> whole = tb.Predictive.merge(halves)  # as one process would have answered
        >>> torch.equal(whole.samples, tb.predict(model, x, samples=100, progress=False).samples)
        True
    """

    _columns: ClassVar[str] = "outputs"  # what the C are
    question: Question | None = None  # what was asked, where that is known: `merge` puts together what belongs together

    def __init__(self, source: Source, origin: Drawn | Moments) -> None:
        self._source, self.origin = source, origin
        self._intervals: dict[float, tuple[Tensor, Tensor]] = {}

    @classmethod
    def of(cls, likelihood: Likelihood, source: Source, origin: Drawn | Moments) -> Self:
        """The prediction that these answers are, for a likelihood whose responses they are."""
        del likelihood
        return cls(source, origin)

    @classmethod
    def check_response(cls, likelihood: Likelihood, said: Tensor) -> None:
        """Refuse a likelihood whose response (N, …) is not what it declares; a prediction of your own takes any."""
        del likelihood, said

    @classmethod
    def settled(cls, likelihood: Likelihood, samples: Tensor, auto: AutoSamples) -> bool:
        """Whether these responses (S, N, …) of networks are enough for `AutoSamples`."""
        del likelihood, samples
        remedy = "name how many networks to draw, e.g. samples=200"
        raise refusal("samples", auto, f"be a number for a {cls.__name__}, which knows no decisions", remedy)

    def _shown(self, values: Tensor) -> Tensor:
        """Values (…, N, …) as they are kept, in the shape that a reader meets."""
        return values

    @property
    def samples(self) -> Tensor:
        """(S, N, C): what each sampled network said."""
        return self._shown(self._source.samples)

    @property
    def keeps_samples(self) -> bool:
        """Whether every sample is held, or only what was asked for (`keep_samples=False`)."""
        return isinstance(self._source, Kept)

    @property
    def mean(self) -> Tensor:
        """(N, C): the average over the sampled networks."""
        return self._shown(self._source.mean)

    @property
    def sample_indices(self) -> tuple[int, ...]:
        """The numbers of the networks that were drawn; none where moments answered."""
        return self.origin.indices if isinstance(self.origin, Drawn) else ()

    @property
    def sample_count(self) -> int:
        """S, the number of networks drawn; 0 for `Moments`, which draws none: its `samples` are points."""
        return len(self.sample_indices)

    def __len__(self) -> int:
        return len(self._source.mean)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._extent()}, {origin(self.sample_count)})"

    def _extent(self) -> str:
        """How many examples, and what of each, in words."""
        count, *shape = self.mean.shape
        return f"{count} examples, {' × '.join(map(str, shape))} {self._columns}"

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """(lower, upper), each (N, C): the α/2 and 1 − α/2 quantiles of the sampled outputs, 1 − α = level."""
        lower, upper = self._bounds(level)
        return self._shown(lower), self._shown(upper)

    def _check_several(self, wanted: str) -> None:
        """Refuse what one network alone cannot say: all its answers agree, and would pass for certain."""
        if self.sample_count == 1:
            remedy = "a single network has no doubts: draw more, such as samples=200"
            raise refusal("samples", 1, f"be at least 2 to {wanted}", remedy)

    def _bounds(self, level: float) -> tuple[Tensor, Tensor]:
        """The same as it is kept, computed once."""
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
        self._check_several("have an error of sampling")
        self._bounds(level)  # refuses, by its own name, a level that was not prepared
        around = [self._source.quantiles(neighbours(tail, self.sample_count)) for tail in tails(level)]
        lower, upper = (self._shown((above - below) / 2) for below, _, above in around)
        return MonteCarloError(self._shown(self._source.std) / self.sample_count**0.5, lower, upper)

    @abstractmethod
    def summary(self, targets: Tensor, levels: Sequence[float] = DEFAULT_LEVELS) -> Any:
        """How good the prediction is, given the truth."""

    @staticmethod
    def merge(parts: Sequence[Predictive], along: str = "samples") -> Predictive:
        """Put together what several processes predicted.

        Args:
            parts: predictions by one network with the same seed. Its weights and the examples are compared by
                checksums: parts that do not belong together are refused.
            along: "samples" where each process drew other networks for the same examples (`samples=range(0, 100)`,
                `samples=range(100, 200)`); "examples" where each took other examples, in this order.
        """
        parts = list(parts) if isinstance(parts, Sequence) else []
        if along not in ("samples", "examples"):
            raise refusal("along", along, 'be "samples" or "examples"', "correct the word")
        if not parts or not all(isinstance(part, Predictive) for part in parts):
            raise wrong_type("parts", parts, "be predictions, at least one", "pass what tribayes.predict returned")
        kinds = list(dict.fromkeys(part._kind for part in parts))
        check_alike(kinds, "be of one kind, with one seed and one noise", "predict every part with the same arguments")
        check_one_network([part.question for part in parts])
        return parts[0]._joined_samples(parts) if along == "samples" else parts[0]._joined_examples(parts)

    def _joined_samples(self, parts: Sequence[Predictive]) -> Self:
        if isinstance(self.origin, Moments):
            raise refusal("parts", "by moments", "have drawn samples", 'use along="examples"')
        indices = [index for part in parts for index in part.sample_indices]
        if len(set(indices)) != len(indices):
            remedy = "give each process its own range of sample numbers"
            raise refusal("parts", sorted(indices)[:8], "have drawn different samples", remedy)
        shapes = [tuple(part._source.mean.shape) for part in parts]
        check_alike(shapes, "be about the same examples", 'use along="examples" for different ones')
        check_same_examples([part.question for part in parts])
        order = torch.tensor(indices, device="cpu").argsort()
        samples = torch.cat([part._source.samples for part in parts])[order]
        return self._with(Kept(samples), Drawn(self.origin.seed, tuple(sorted(indices))))

    def _joined_examples(self, parts: Sequence[Predictive]) -> Self:
        if len({part.sample_indices for part in parts}) > 1:
            counts = [part.sample_count for part in parts]
            raise refusal("parts", counts, "have drawn the same samples", 'use along="samples" for different ones')
        shapes = [tuple(part._source.mean.shape[1:]) for part in parts]
        widths = [shape[0] if len(shape) == 1 else shape for shape in shapes]
        check_alike(widths, "have as many outputs each", "predict every part with the same model")
        whole = self._with(join([part._source for part in parts]), self.origin)
        whole.question = one_after_the_other([part.question for part in parts])
        return whole

    @property
    def _kind(self) -> tuple[object, ...]:
        """What parts of one prediction have in common."""
        return type(self).__name__, self.origin.seed if isinstance(self.origin, Drawn) else self.origin

    def _with(self, source: Source, origin: Drawn | Moments) -> Self:
        """The same kind of prediction from another source."""
        other = copy.copy(self)
        other._source, other.origin, other._intervals = source, origin, {}
        return other
