"""Conformal prediction on top of the posterior: intervals and sets that hold what they promise, whatever the model.

Held-out examples (neither trained on nor looked at before) are scored by how strange their truth looks to the model.
A new example drawn as they were has a score among the smallest ⌈(n + 1) level⌉ of n with probability at least `level`
(Vovk, Gammerman & Shafer 2005), however wrong the posterior is. What the posterior does is make the answer sharp: the
score of a value is its distance from the mean in the posterior's own standard deviations, so an interval is wide where
the network knows that it does not know.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tribayes._errors import refusal, wrong_type
from tribayes.prediction.predictive import ClassPredictive, RegressionPredictive, check_one_label_each
from tribayes.prediction.predictive_base import Predictive
from tribayes.prediction.source import tails

SCORES = ("probability", "cumulative")

_ROUNDINGS = 4  # of a score and of its way back: where many targets are one number, all of them may lie on the border


@dataclass(frozen=True)
class Conformal:
    """What held-out examples teach about new ones. Made by `tribayes.conformalise`.

    Attributes:
        kind: "values" for regression; for classes the score, "probability" or "cumulative".
        scores: (n,), increasing: how strange the truth of each held-out example looked.

    Example:
        >>> Conformal("probability", torch.linspace(0.05, 0.95, 19)).threshold(0.9)  # the 18th of 19 scores
        0.8999...
    """

    kind: str
    scores: Tensor

    def threshold(self, level: float) -> float:
        """The ⌈(n + 1) level⌉-th smallest score: a new example's is not above it with probability `level` at least."""
        tails(level)  # refuses what is no level
        count = len(self.scores)
        rank = math.ceil((count + 1) * level - 1e-9)  # 0.95 · 20 is 19 and not a rounding error more
        if rank > count:
            highest = f"be at most {count / (count + 1):.4g} with {count} held-out examples"
            needed = math.ceil(level / (1 - level) - 1e-9)
            raise refusal("level", level, highest, f"hold out at least {needed:,} examples for it")
        return float(self.scores[rank - 1])

    def intervals(self, pred: RegressionPredictive, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """(lower, upper), each (N, D): with probability `level` at least, all values of a new example lie inside."""
        _check_pred(pred, RegressionPredictive)
        if self.kind != "values":
            raise refusal("pred", pred, "be about classes, as the held-out examples were", "use sets(...)")
        reach = self.threshold(level) * pred.std
        reach = reach + _ROUNDINGS * torch.finfo(reach.dtype).eps * (pred.mean.abs() + reach)
        return pred.mean - reach, pred.mean + reach

    def sets(self, pred: ClassPredictive, level: float = 0.95) -> Tensor:
        """(N, C) bool: with probability `level` at least, the true class of a new example is in its set.

        The label always is, so no set is empty.
        """
        _check_pred(pred, ClassPredictive)
        if self.kind == "values":
            raise refusal("pred", pred, "be about values, as the held-out examples were", "use intervals(...)")
        check_one_label_each(pred, "conformal sets")
        chosen = _class_scores(pred.mean, self.kind) <= self.threshold(level)
        return chosen.scatter(-1, pred.label.unsqueeze(-1), True)

    def __repr__(self) -> str:
        return f"Conformal({self.kind!r}, {len(self.scores):,} held-out examples)"


def conformalise(pred: Predictive, targets: Tensor, score: str = "probability") -> Conformal:
    """Learn from a prediction of held-out examples, and their truth, how wide intervals and sets have to be.

    Args:
        pred: what `tribayes.predict` says about examples that training has not seen.
        targets: their classes (N,), or values (N,) or (N, D).
        score: for classes. "probability" gives the smallest sets on average: all classes above one probability.
            "cumulative" takes classes from the most probable on until those taken have gathered enough probability:
            larger sets, whose coverage differs less between easy and hard examples.

    Example:
        >>> model, likelihood = tribayes.to_bayesian(nn.Linear(4, 1)), tribayes.Gaussian(noise=0.1)
        >>> held_out, y, x = torch.randn(50, 4), torch.randn(50), torch.randn(3, 4)
        >>> seen = tribayes.predict(model, held_out, likelihood=likelihood, progress=False)
        >>> conformal = conformalise(seen, y)
        >>> new = tribayes.predict(model, x, likelihood=likelihood, progress=False)
        >>> lower, upper = conformal.intervals(new, level=0.9)
    """
    _check_pred(pred, Predictive)
    if score not in SCORES:
        raise refusal("score", score, f"be one of {list(SCORES)}", "correct the word")
    if isinstance(pred, RegressionPredictive):
        if not bool(pred.std.isfinite().all()):
            remedy = "use a StudentT with df above 2, or pred.observation_interval"
            raise refusal(
                "pred", pred.noise_law, "have a finite standard deviation, which scores are measured in", remedy
            )
        distance = (pred.checked_targets(targets) - pred.mean).abs() / pred.std
        return Conformal("values", distance.amax(-1).sort().values)
    _check_pred(pred, ClassPredictive)
    assert isinstance(pred, ClassPredictive)
    check_one_label_each(pred, "conformal scores")
    truth = pred.checked_targets(targets).unsqueeze(-1)
    return Conformal(score, _class_scores(pred.mean, score).gather(-1, truth).squeeze(-1).sort().values)


def _class_scores(mean: Tensor, score: str) -> Tensor:
    """(N, C): how strange each class would be as the truth."""
    if score == "probability":
        return 1 - mean
    ordered, order = mean.sort(dim=-1, descending=True, stable=True)
    gathered = ordered.cumsum(-1) - ordered  # by the classes before it: with its own, sure answers would look strange
    return torch.empty_like(mean).scatter_(-1, order, gathered)


def _check_pred(pred: object, kind: type) -> None:
    if not isinstance(pred, kind):
        raise wrong_type("pred", pred, f"be a {kind.__name__}", "pass what tribayes.predict returned")
