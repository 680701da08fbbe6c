"""Classification: labels, credible intervals, whether to trust them, and which examples to look at."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from tribayes._errors import refusal
from tribayes.prediction.metrics import class_indices
from tribayes.prediction.predictive import DEFAULT_LEVELS, Predictive
from tribayes.prediction.quantiles import certain
from tribayes.prediction.source import entropy
from tribayes.prediction.summary import ClassificationSummary, origin

_SCORES = ["aleatoric", "confidence", "entropy", "epistemic", "std"]


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

    def __repr__(self) -> str:
        count, classes = self.mean.shape
        return f"ClassPredictive({count} examples, {classes} classes, {origin(self.sample_count)})"


def telling_examples(pred: ClassPredictive, targets: Tensor, level: float = 0.95) -> dict[str, int]:
    """Numbers of up to three different examples, by what they are: "sure", "two-way", "hopeless".

    Sure: among the right and quite certain at `level`, the one of median entropy. Two-way: among the wrong and
    uncertain, the one that gave its true class most probability. Hopeless: of the other wrong and uncertain, the one of
    largest entropy. Where nothing is wrong, the last two are chosen among the uncertain, and two-way is the one with
    the strongest second class. The smaller number wins among equals, so that a report shows the same examples whoever
    makes it; a kind that does not occur is left out.

    Example:
        >>> model, x = tb.to_bayesian(nn.Linear(4, 3), generator=0), torch.eye(4)
        >>> pred = tb.predict(model, x, samples=20, progress=False)
        >>> chosen = telling_examples(pred, targets=pred.label)
        >>> set(chosen) <= {"sure", "two-way", "hopeless"}
        True
    """
    targets = pred.checked_targets(targets)
    correct, certain = pred.correct(targets), pred.certain(level)
    doubtful = ~certain & (~correct | correct.all())
    sure = _ordered(correct & certain, pred.entropy)
    two_way = _ordered(doubtful, -_rival_probability(pred, targets))
    hopeless = [number for number in _ordered(doubtful, -pred.entropy) if number not in two_way[:1]]
    found = {"sure": sure[len(sure) // 2 :], "two-way": two_way, "hopeless": hopeless}
    return {kind: numbers[0] for kind, numbers in found.items() if numbers}


def confidently_wrong(pred: ClassPredictive, targets: Tensor, level: float = 0.95) -> list[int]:
    """Numbers of the wrong predictions that are quite certain at `level`, the most confident first.

    Example:
        >>> model, x = tb.to_bayesian(nn.Linear(4, 3), tau=1e-6, generator=0), torch.eye(4)
        >>> pred = tb.predict(model, x, samples=20, progress=False)
        >>> len(confidently_wrong(pred, targets=(pred.label + 1) % 3))
        4
    """
    return _ordered(~pred.correct(targets) & pred.certain(level), -pred.confidence)


def _rival_probability(pred: ClassPredictive, targets: Tensor) -> Tensor:
    """(N,): the probability of the class that contends with the label: the true one, or the second where that wins."""
    true = pred.mean.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    others = pred.mean.scatter(-1, pred.label.unsqueeze(-1), 0)
    return true.where(~pred.correct(targets), others.amax(-1))


def _ordered(chosen: Tensor, key: Tensor) -> list[int]:
    """Numbers of the chosen examples by increasing key, then by number."""
    numbers = chosen.nonzero().flatten()
    return [int(number) for number in numbers[key[numbers].argsort(stable=True)]]
