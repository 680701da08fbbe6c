"""Classification: labels, credible intervals, and whether to trust them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Self

from torch import Tensor

from tribayes._errors import refusal
from tribayes.prediction.metrics import class_indices
from tribayes.prediction.predictive import DEFAULT_LEVELS, Predictive
from tribayes.prediction.quantiles import certain
from tribayes.prediction.samples import Drawn, Moments
from tribayes.prediction.source import Source, entropy
from tribayes.prediction.summary import ClassificationSummary, origin


class ClassPredictive(Predictive):
    """Class probabilities (N, C) as the average of S sampled networks, and how far these differ.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> pred = tribayes.predict(model, torch.randn(5, 4), progress=False)
        >>> pred.label.shape, pred.certain(0.95).dtype
        (torch.Size([5]), torch.bool)
    """

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

    _SCORES: ClassVar[dict[str, Callable[[ClassPredictive], Tensor]]] = {
        "entropy": lambda pred: pred.entropy,
        "aleatoric": lambda pred: pred.aleatoric,
        "epistemic": lambda pred: pred.epistemic,
        "confidence": lambda pred: 1 - pred.confidence,
        "std": lambda pred: pred.std.gather(-1, pred.label.unsqueeze(-1)).squeeze(-1),
    }

    def uncertainty(self, score: str = "entropy") -> Tensor:
        """(N,): an uncertainty by name, larger where less is known.

        "entropy", "aleatoric", "epistemic", "confidence" (one minus it), "std" (of the label's probability).
        """
        if score not in self._SCORES:
            raise refusal("score", score, f"be one of {sorted(self._SCORES)}", "correct the word")
        return self._SCORES[score](self)

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

    def _with(self, source: Source, origin: Drawn | Moments) -> Self:
        return type(self)(source, origin)

    def __repr__(self) -> str:
        count, classes = self.mean.shape
        return f"ClassPredictive({count} examples, {classes} classes, {origin(self.sample_count)})"
