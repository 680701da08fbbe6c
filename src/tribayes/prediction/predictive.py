"""What S sampled networks say about N examples: of classes, or of values."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tribayes._errors import check_all, refusal, wrong_type
from tribayes.prediction.metrics import class_indices
from tribayes.prediction.samples import Drawn, Moments
from tribayes.prediction.source import Kept, Source, certain, entropy, join, neighbours, tails
from tribayes.prediction.summary import ClassificationSummary, Coverage, RegressionSummary, origin

DEFAULT_LEVELS = (0.95, 0.99)

_SCORES = ["aleatoric", "confidence", "entropy", "epistemic", "std"]
_BISECTIONS = 60  # halves a bracket down to float64 rounding


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

    _columns: ClassVar[str]  # what the C are

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

    def __repr__(self) -> str:
        count, width = self.mean.shape
        return f"{type(self).__name__}({count} examples, {width} {self._columns}, {origin(self.sample_count)})"

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
        _check_alike(kinds, "be of one kind, with one seed and one noise", "predict every part with the same arguments")
        return parts[0]._joined_samples(parts) if along == "samples" else parts[0]._joined_examples(parts)

    def _joined_samples(self, parts: Sequence[Predictive]) -> Self:
        if isinstance(self.origin, Moments):
            raise refusal("parts", "by moments", "have drawn samples", 'use along="examples"')
        indices = [index for part in parts for index in part.sample_indices]
        if len(set(indices)) != len(indices):
            remedy = "give each process its own range of sample numbers"
            raise refusal("parts", sorted(indices)[:8], "have drawn different samples", remedy)
        shapes = [tuple(part.mean.shape) for part in parts]
        _check_alike(shapes, "be about the same examples", 'use along="examples" for different ones')
        order = torch.tensor(indices).argsort()
        samples = torch.cat([part.samples for part in parts])[order]
        return self._with(Kept(samples), Drawn(self.origin.seed, tuple(sorted(indices))))

    def _joined_examples(self, parts: Sequence[Predictive]) -> Self:
        if len({part.sample_indices for part in parts}) > 1:
            counts = [part.sample_count for part in parts]
            raise refusal("parts", counts, "have drawn the same samples", 'use along="samples" for different ones')
        widths = [part.mean.shape[1] for part in parts]
        _check_alike(widths, "have as many outputs each", "predict every part with the same model")
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


def _check_alike(values: Sequence[object], requirement: str, remedy: str) -> None:
    if len(set(values)) > 1:
        raise refusal("parts", values, requirement, remedy)


class ClassPredictive(Predictive):
    """Class probabilities (N, C) as the average of S sampled networks, and how far these differ.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> pred = tribayes.predict(model, torch.randn(5, 4), progress=False)
        >>> pred.label.shape, pred.certain(0.95).dtype
        (torch.Size([5]), torch.bool)
    """

    _columns = "classes"

    @property
    def label(self) -> Tensor:
        """(N,): the most probable class; the smallest index among equals."""
        return self.mean.argmax(-1)

    @property
    def confidence(self) -> Tensor:
        """(N,): the probability of the label."""
        return self.mean.amax(-1)

    @property
    def std(self) -> Tensor:
        """(N, C): standard deviation of a class's probability over the sampled networks."""
        return self._source.std

    @property
    def entropy(self) -> Tensor:
        """(N,), nats: total uncertainty, the entropy of the mean probabilities."""
        return entropy(self.mean)

    @property
    def aleatoric(self) -> Tensor:
        """(N,), nats: what no data would settle, the mean entropy of the sampled networks."""
        return self._source.mean_entropy

    @property
    def epistemic(self) -> Tensor:
        """(N,), nats: what the weights do not know, entropy − aleatoric: the mutual information with the label."""
        return (self.entropy - self.aleatoric).clamp(min=0)

    def certain(self, level: float = 0.95) -> Tensor:
        """(N,) bool, the paper's "quite certain": the label's credible interval overlaps no other class's.

        Intervals that only touch do overlap.
        """
        return certain(*self.interval(level), self.label)

    def uncertainty(self, score: str = "entropy") -> Tensor:
        """(N,): an uncertainty by name, larger where less is known.

        "entropy", "aleatoric", "epistemic", "confidence" (one minus it), "std" (of the label's probability).
        """
        if score not in _SCORES:
            raise refusal("score", score, f"be one of {_SCORES}", "correct the word")
        if score == "confidence":
            return 1 - self.confidence
        value: Tensor = getattr(self, score)
        return value.gather(-1, self.label.unsqueeze(-1)).squeeze(-1) if score == "std" else value

    def correct(self, targets: Tensor) -> Tensor:
        """(N,) bool: whether the label is the true class."""
        return self.label == self.checked_targets(targets)

    def summary(self, targets: Tensor, levels: Sequence[float] = DEFAULT_LEVELS) -> ClassificationSummary:
        """Error, NLL, Brier score, ECE, and certain/uncertain × correct/wrong at each level. Prints as a table."""
        targets = self.checked_targets(targets)
        flags = {level: self.certain(level) for level in levels}
        return ClassificationSummary.of(self.mean, targets, flags, self.uncertainty("entropy"), self.sample_count)

    def checked_targets(self, targets: Tensor) -> Tensor:
        """The true classes on the CPU; an error unless there is one in [0, C) for each example."""
        return class_indices(self.mean, targets)


class RegressionPredictive(Predictive):
    """Predicted values (N, D): `interval` is for the function, `observation_interval` for a new observation.

    Example:
        >>> model, x = tribayes.to_bayesian(nn.Linear(4, 1)), torch.randn(5, 4)
        >>> pred = tribayes.predict(model, x, likelihood=tribayes.Gaussian(noise=0.1), progress=False)
        >>> lower, upper = pred.observation_interval(0.95)
    """

    _columns = "outputs"

    def __init__(self, source: Source, origin: Drawn | Moments, noise: float) -> None:
        super().__init__(source, origin)
        self.noise = noise

    @property
    def epistemic(self) -> Tensor:
        """(N, D): variance of the function over the sampled networks."""
        return self._source.std.square()

    @property
    def aleatoric(self) -> Tensor:
        """(N, D): variance of the observation noise, the same everywhere."""
        return torch.full_like(self.mean, self.noise**2)

    @property
    def std(self) -> Tensor:
        """(N, D): standard deviation of a new observation, √(epistemic + aleatoric)."""
        return (self.epistemic + self.aleatoric).sqrt()

    def observation_interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """(lower, upper), each (N, D): an interval for a new observation.

        Exact quantiles of the mixture (1/S) Σ N(f_s, noise²), found by bisection of its distribution function.
        """
        lower, upper = (self._mixture_quantile(tail) for tail in tails(level))
        return lower, upper

    def log_density(self, targets: Tensor) -> Tensor:
        """(N,): log predictive density of the targets, ln (1/S) Σ_s N(y; f_s, noise²), summed over outputs."""
        targets = self.checked_targets(targets)
        standard = (targets - self.samples) / self.noise  # (S, N, D)
        log_normal = -0.5 * standard.square() - math.log(self.noise) - 0.5 * math.log(2 * math.pi)
        return log_normal.sum(-1).logsumexp(0) - math.log(len(self.samples))

    def with_noise(self, noise: float) -> Self:
        """The same prediction, with another standard deviation of the observation noise."""
        other = self._with(self._source, self.origin)
        other.noise = noise
        return other

    def summary(self, targets: Tensor, levels: Sequence[float] = DEFAULT_LEVELS) -> RegressionSummary:
        """RMSE, log predictive density, and how many observations the intervals cover. Prints as a table."""
        targets = self.checked_targets(targets)
        coverage = {}
        for level in levels:
            lower, upper = self.observation_interval(level)
            covered = ((lower <= targets) & (targets <= upper)).double().mean()
            coverage[level] = Coverage(float(covered), float((upper - lower).mean()))
        rmse, density = (self.mean - targets).square().mean().sqrt(), self.log_density(targets).mean()
        return RegressionSummary(len(targets), self.sample_count, float(rmse), float(density), coverage)

    def checked_targets(self, targets: Tensor) -> Tensor:
        """The observed values as (N, D) on the CPU; (N,) is taken for one output."""
        if not isinstance(targets, Tensor):
            raise wrong_type("targets", targets, "be a tensor", "convert it with torch.tensor(y)")
        shaped = targets.cpu().to(self.mean.dtype)
        shaped = shaped.unsqueeze(-1) if shaped.ndim == 1 else shaped
        if shaped.shape != self.mean.shape:
            requirement = f"have the shape {tuple(self.mean.shape)}, one row per example"
            raise refusal("targets", targets, requirement, "check the data")
        check_all("targets", shaped, shaped.isfinite(), "be finite", "clean the data")
        return shaped

    def _mixture_quantile(self, probability: float) -> Tensor:
        centres = self.samples.double()
        reach = self.noise * 10  # the bracket's margin: a normal is within ten deviations but for 1e-23
        low, high = centres.amin(0) - reach, centres.amax(0) + reach
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            below = torch.special.ndtr((middle - centres) / self.noise).mean(0) < probability
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return ((low + high) / 2).to(self.mean.dtype)

    @property
    def _kind(self) -> tuple[object, ...]:
        return (*super()._kind, self.noise)
