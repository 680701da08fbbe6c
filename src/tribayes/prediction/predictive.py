"""What S sampled networks say about N examples: of classes, of labels, or of values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from tribayes._arrays import tensor_of
from tribayes._errors import check_all, check_plain, check_positive, refusal, wrong_type
from tribayes.inference.likelihood import Likelihood
from tribayes.inference.noise import Averages, Noise, NormalNoise
from tribayes.prediction.metrics import answers_as_indices, class_indices
from tribayes.prediction.mixture import mixture_log_density, mixture_quantile
from tribayes.prediction.predictive_base import DEFAULT_LEVELS, Predictive
from tribayes.prediction.samples import AutoSamples, Drawn, Moments
from tribayes.prediction.source import Source, certain, check_levels, entropy, tails
from tribayes.prediction.summary import ClassificationSummary, Coverage, RegressionSummary

_MOST_NOISE = 1e18  # its square is still a float32
_SLACK = 1e-3  # by which probabilities may miss a sum of 1; what are none miss it by far
_SCORES = ["aleatoric", "confidence", "entropy", "epistemic", "std"]


class ClassPredictive(Predictive):
    """Class probabilities (N, C) as the average of S sampled networks, and how far these differ.

    Of pixels or tokens the probabilities are (N, C, …), or (N, …, C) by the likelihood's `class_axis`, as the logits
    are; what there is one of for each position (label, confidence, entropies, certain) is (N, …).

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> pred = tribayes.predict(model, torch.randn(5, 4), progress=False)
        >>> pred.label.shape, pred.certain(0.95).dtype
        (torch.Size([5]), torch.bool)
    """

    _columns = "classes"
    _responses = "probabilities of the classes, (N, …, C)"

    def __init__(
        self, source: Source, origin: Drawn | Moments, class_axis: int = 1, ignore_index: int | None = None
    ) -> None:
        super().__init__(source, origin)
        self.class_axis, self.ignore_index = class_axis, ignore_index

    @classmethod
    def of(cls, likelihood: Likelihood, source: Source, origin: Drawn | Moments) -> Self:
        return cls(source, origin, getattr(likelihood, "class_axis", 1), getattr(likelihood, "ignore_index", None))

    @classmethod
    def check_response(cls, likelihood: Likelihood, said: Tensor) -> None:
        if said.ndim < 2 or bool((said < 0).any()) or bool(((said.sum(-1) - 1).abs() > _SLACK).any()):
            requirement = f"respond with {cls._responses}, that sum to 1 over the last axis"
            remedy = "mend its response(outputs): of logits return outputs.softmax(-1), not logarithms"
            raise refusal("likelihood", type(likelihood).__name__, requirement, remedy)

    @classmethod
    def settled(cls, likelihood: Likelihood, samples: Tensor, auto: AutoSamples) -> bool:
        del likelihood
        return auto.enough(samples, classes=True)

    @property
    def class_last(self) -> Tensor:
        """(N, …, C): the mean probabilities with the classes last, whatever `class_axis` is."""
        return self._source.mean

    @property
    def class_last_samples(self) -> Tensor:
        """(S, N, …, C): the same of every sampled network."""
        return self._source.samples

    @property
    def one_label_each(self) -> bool:
        """Whether the probabilities are (N, C): one label per example, and not one per pixel, token or question."""
        return self._source.mean.ndim == 2

    def _shown(self, values: Tensor) -> Tensor:
        if self.class_axis == -1 or self.one_label_each:
            return values
        return values.movedim(-1, values.ndim - self._source.mean.ndim + 1)

    def _extent(self) -> str:
        count, *space, classes = self._source.mean.shape
        positions = f" of {' × '.join(map(str, space))}" if space else ""
        return f"{count} examples{positions}, {classes} {self._columns}"

    @property
    def label(self) -> Tensor:
        """(N,): the most probable class; the smallest index among equals."""
        return self.class_last.argmax(-1)

    @property
    def confidence(self) -> Tensor:
        """(N,): the probability of the label."""
        return self.class_last.amax(-1)

    @property
    def std(self) -> Tensor:
        """(N, C): standard deviation of a class's probability over the sampled networks."""
        return self._shown(self._source.std)

    @property
    def entropy(self) -> Tensor:
        """(N,), nats: total uncertainty, the entropy of the mean probabilities."""
        return entropy(self.class_last)

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
        self._check_several("tell certain from uncertain")
        return certain(*self._bounds(level), self.label)

    def uncertainty(self, score: str = "entropy") -> Tensor:
        """(N,): an uncertainty by name, larger where less is known.

        "entropy", "aleatoric", "epistemic", "confidence" (one minus it), "std" (of the label's probability).
        """
        if score not in _SCORES:
            raise refusal("score", score, f"be one of {_SCORES}", "correct the word")
        if score == "confidence":
            return 1 - self.confidence
        if score == "std":
            return self._source.std.gather(-1, self.label.unsqueeze(-1)).squeeze(-1)
        value: Tensor = getattr(self, score)
        return value

    def correct(self, targets: Tensor) -> Tensor:
        """(N,) bool: whether the label is the true class; False where the truth is ignored."""
        return self.label == self.checked_targets(targets)

    def summary(self, targets: Tensor, levels: Sequence[float] = DEFAULT_LEVELS) -> ClassificationSummary:
        """Error, NLL, Brier score, ECE, and certain/uncertain × correct/wrong at each level. Prints as a table.

        Of pixels or tokens every one counts, but for those that are ignored.
        """
        targets = self.checked_targets(targets)
        check_levels(levels)
        judged = self.judged(targets)
        flags = {level: self.certain(level)[judged] for level in levels}
        mean, score = self.class_last[judged], self.uncertainty("entropy")[judged]
        example = None if self.one_label_each else judged.nonzero()[:, 0]
        return ClassificationSummary.of(mean, targets[judged], flags, score, self.sample_count, example)

    def judged(self, targets: Tensor) -> Tensor:
        """(N, …) bool: which targets count: all but those that are ignored."""
        return torch.ones_like(targets, dtype=torch.bool) if self.ignore_index is None else targets != self.ignore_index

    def checked_targets(self, targets: Tensor) -> Tensor:
        """The true classes (N, …) on the CPU; an error unless there is one in [0, C), or ignored, for each label.

        Of two classes they may be (N, 1) and real, 0 and 1, as a `Bernoulli` is trained with.
        """
        if self.one_label_each and self.ignore_index is None:
            targets = answers_as_indices(targets) if self.class_last.shape[1] == 2 else targets
            return class_indices(self.class_last, targets)
        targets = tensor_of("targets", targets)
        if not isinstance(targets, Tensor) or targets.is_floating_point() or targets.dtype.is_complex:
            raise wrong_type("targets", targets, "be a tensor of class indices", "convert it with torch.tensor(y)")
        check_plain("targets", targets)
        expected = tuple(self.class_last.shape[:-1])
        if tuple(targets.shape) != expected:
            requirement = f"have the shape {expected} for probabilities {tuple(self.mean.shape)}"
            requirement += f" with the classes on axis {self.class_axis}"
            raise refusal("targets", targets, requirement, "check the order of the data")
        targets = targets.cpu().long()
        judged = self.judged(targets)
        if not bool(judged.any()):
            remedy = "there is nothing to judge by"
            raise refusal("targets", targets, f"hold other labels than {self.ignore_index}, which is ignored", remedy)
        class_indices(self.class_last[judged], targets[judged])
        return targets

    @property
    def _kind(self) -> tuple[object, ...]:
        return super()._kind if self.one_label_each else (*super()._kind, self.class_axis)


def check_one_label_each(pred: ClassPredictive, purpose: str) -> None:
    """Refuse a prediction of pixels, tokens or several questions where an example has to have one label.

    The positions of one example are not drawn independently of each other, so they cannot stand for examples.
    """
    if not pred.one_label_each:
        requirement = f"have one label per example, (N, C), for {purpose}"
        raise refusal("pred", pred, requirement, "see pred.label, pred.certain and pred.summary for every position")


class LabelPredictive(ClassPredictive):
    """Any number of answers yes or no, (N, L): probabilities of yes, and for each its own interval and decision.

    `label` is 1 where yes is the more probable; it is `certain` where the interval of its probability lies on one side
    of one half.

    Example:
        >>> model, x = tribayes.to_bayesian(nn.Linear(4, 3)), torch.randn(5, 4)
        >>> pred = tribayes.predict(model, x, likelihood=tribayes.MultiLabel(), progress=False)
        >>> pred.mean.shape, pred.label.shape, pred.certain(0.95).shape
        (torch.Size([5, 3]), torch.Size([5, 3]), torch.Size([5, 3]))
    """

    _columns = "labels"
    _responses = "probabilities of no and yes, (N, …, L, 2)"

    def _shown(self, values: Tensor) -> Tensor:
        return values[..., 1]

    def _extent(self) -> str:
        return Predictive._extent(self)

    def checked_targets(self, targets: Tensor) -> Tensor:
        """The true answers (N, L) on the CPU; an error unless each is 0 or 1, or False or True."""
        targets = tensor_of("targets", targets)
        if not isinstance(targets, Tensor):
            raise wrong_type("targets", targets, "be a tensor", "convert it with torch.tensor(y)")
        check_plain("targets", targets)
        if targets.shape != self.mean.shape:
            requirement = f"have the shape {tuple(self.mean.shape)}, one answer per label"
            raise refusal("targets", targets, requirement, "check the data")
        targets = targets.cpu()
        check_all("targets", targets, (targets == 0) | (targets == 1), "be 0 or 1", "1 is yes")
        return targets.long()


class RegressionPredictive(Predictive):
    """Predicted values (N, D): `interval` is for the function, `observation_interval` for a new observation.

    What a new observation may be is a mixture over the sampled networks, each with the `noise_law` of the likelihood.

    Example:
        >>> model, x = tribayes.to_bayesian(nn.Linear(4, 1)), torch.randn(5, 4)
        >>> pred = tribayes.predict(model, x, likelihood=tribayes.Gaussian(noise=0.1), progress=False)
        >>> lower, upper = pred.observation_interval(0.95)
    """

    _columns = "outputs"

    def __init__(self, source: Source, origin: Drawn | Moments, noise: float | Noise) -> None:
        super().__init__(source, origin)
        self.noise_law = noise if isinstance(noise, Noise) else NormalNoise(noise)

    @classmethod
    def of(cls, likelihood: Likelihood, source: Source, origin: Drawn | Moments) -> Self:
        return cls(source, origin, likelihood.noise_law())

    @classmethod
    def check_response(cls, likelihood: Likelihood, said: Tensor) -> None:
        noise = likelihood.noise_law()
        if said.ndim != 2 or said.shape[1] % noise.numbers:
            wanted = "(N, D)" if noise.numbers == 1 else f"(N, {noise.numbers} D)"
            found = f"respond with values, {wanted} for its {type(noise).__name__}, but gave {tuple(said.shape)}"
            raise refusal("likelihood", type(likelihood).__name__, found, "mend its response(outputs)")
        numbers = [value for value in vars(noise).values() if isinstance(value, float)]
        if not all(map(math.isfinite, numbers)) or (noise.can_widen and not _has_size(noise, said)):
            remedy = "its numbers have diverged in training: lower the learning rate"
            raise refusal("likelihood", noise, "have a noise above 0 whose square is finite", remedy)

    @classmethod
    def settled(cls, likelihood: Likelihood, samples: Tensor, auto: AutoSamples) -> bool:
        return auto.enough(_places(samples, likelihood.noise_law()), classes=False)

    def _shown(self, values: Tensor) -> Tensor:
        return _places(values, self.noise_law)

    @property
    def noise(self) -> float:
        """The standard deviation of the observation noise, where it is one number: of a Gaussian likelihood."""
        if not isinstance(self.noise_law, NormalNoise):
            remedy = "see pred.noise_law, or pred.aleatoric for its variance"
            raise refusal("noise", self.noise_law, "be one standard deviation", remedy)
        return self.noise_law.scale

    @property
    def epistemic(self) -> Tensor:
        """(N, D): variance of the function over the sampled networks."""
        return self._shown(self._source.std).square()

    @property
    def aleatoric(self) -> Tensor:
        """(N, D): variance of the observation noise, on average over the sampled networks."""
        count = self.sample_count if isinstance(self.origin, Drawn) else self.origin.points
        mean, std = self._source.mean, self._source.std
        known = self.noise_law.mean_variance(Averages(mean, mean.square() + std.square() * (count - 1) / count))
        return self.noise_law.law(self._source.samples).stddev.square().mean(0) if known is None else known

    @property
    def std(self) -> Tensor:
        """(N, D): standard deviation of a new observation, √(epistemic + aleatoric)."""
        return (self.epistemic + self.aleatoric).sqrt()

    def observation_interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """(lower, upper), each (N, D): an interval for a new observation.

        Exact quantiles of the mixture (1/S) Σ p(y | f_s), found by bisection of its distribution function. Those of
        counts are whole numbers, so the interval, with both of its ends, holds at least its level.
        """
        quantiles = (mixture_quantile(self.noise_law, self._source.samples, tail) for tail in tails(level))
        lower, upper = (quantile.to(self.mean.dtype) for quantile in quantiles)
        return lower, upper

    def log_density(self, targets: Tensor) -> Tensor:
        """(N,): log predictive density of the targets, ln (1/S) Σ_s p(y | f_s); of counts their log probability.

        It is that of all values of an example together: given f_s their noises are independent.
        """
        return mixture_log_density(self.noise_law, self._source.samples, self.checked_targets(targets))

    def with_noise(self, noise: float | Noise) -> Self:
        """The same prediction with another noise: a `Noise`, or the standard deviation of a normal one."""
        if not isinstance(noise, Noise):
            check_positive("noise", noise, "pass a standard deviation")
            if noise > _MOST_NOISE:
                remedy = "its square would overflow; rescale the targets"
                raise refusal("noise", noise, f"be at most {_MOST_NOISE:g}", remedy)
        other = self._with(self._source, self.origin)
        other.noise_law = noise if isinstance(noise, Noise) else NormalNoise(noise)
        return other

    def summary(self, targets: Tensor, levels: Sequence[float] = DEFAULT_LEVELS) -> RegressionSummary:
        """RMSE, log predictive density, and how many observations the intervals cover. Prints as a table."""
        targets = self.checked_targets(targets)
        check_levels(levels)
        coverage = {}
        for level in levels:
            lower, upper = self.observation_interval(level)
            covered = ((lower <= targets) & (targets <= upper)).double().mean()
            coverage[level] = Coverage(float(covered), float((upper - lower).mean()))
        rmse, density = (self.mean - targets).square().mean().sqrt(), self.log_density(targets).mean()
        whole = self.noise_law.whole
        return RegressionSummary(len(targets), self.sample_count, float(rmse), float(density), coverage, whole)

    def checked_targets(self, targets: Tensor) -> Tensor:
        """The observed values as (N, D) on the CPU; (N,) is taken for one output, and (N, …) like the network's own."""
        targets = tensor_of("targets", targets)
        if not isinstance(targets, Tensor):
            raise wrong_type("targets", targets, "be a tensor", "convert it with torch.tensor(y)")
        check_plain("targets", targets)
        shaped = targets.cpu().to(self.mean.dtype)
        shaped = shaped.unsqueeze(-1) if shaped.ndim == 1 else shaped.flatten(1) if shaped.ndim > 2 else shaped
        if shaped.shape != self.mean.shape:
            requirement = f"have the shape {tuple(self.mean.shape)}, one row per example"
            raise refusal("targets", targets, requirement, "check the data")
        check_all("targets", shaped, shaped.isfinite(), "be finite", "clean the data")
        if self.noise_law.whole:
            counted = (shaped >= 0) & (shaped == shaped.round())
            check_all("targets", shaped, counted, "be whole numbers, not negative", "pass counts")
        return shaped

    @property
    def _kind(self) -> tuple[object, ...]:
        noise = self.noise_law
        return (*super()._kind, noise.scale if isinstance(noise, NormalNoise) else noise)


def _has_size(noise: Noise, said: Tensor) -> bool:
    """Whether the variance of a noise about what was said is a number above 0, in the dtype of what was said."""
    variance = noise.law(said.double()).stddev.square().to(said.dtype)
    return bool(((variance > 0) & variance.isfinite()).all())


def _places(said: Tensor, noise: Noise) -> Tensor:
    """The part of what was said that is the function: the first of its numbers."""
    return said if noise.numbers == 1 else said[..., : said.shape[-1] // noise.numbers]
