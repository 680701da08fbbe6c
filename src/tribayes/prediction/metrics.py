"""Numbers that judge predictions and their uncertainties.

Probabilities are checked before they are judged: a table of logits, of percentages or with a NaN in it is refused, for
its score would look like one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tribayes._arrays import tensor_of
from tribayes._errors import check_all, check_plain, check_whole, is_number, refusal, wrong_type

__all__ = [
    "Reliability",
    "RiskCoverage",
    "accuracy_at_coverage",
    "auroc",
    "brier_score",
    "calibration_error",
    "negative_log_likelihood",
    "out_of_distribution_auroc",
    "reliability",
    "risk_coverage",
]

BINS = 15  # of the confidence, for calibration: the usual number (Guo et al. 2017)

_MOST_BINS = 1_000_000
_TOLERANCE = 1e-4  # by which probabilities may miss [0, 1], and their sum 1; more in half precision


def check_probabilities(probabilities: Tensor) -> Tensor:
    """Class probabilities (N, C) as they are; an error unless each is finite and in [0, 1] and every row sums to 1.

    >>> check_probabilities(torch.tensor([[2.0, -1.0]]))
    Traceback (most recent call last):
    ValueError: `probabilities` (=2.0 at (0, 0), 2 of 2 entries) must lie in [0, 1]; pass logits.softmax(-1) ...
    """
    if not isinstance(probabilities, Tensor) or not probabilities.is_floating_point():
        remedy = "pass class probabilities as a float tensor"
        raise wrong_type("probabilities", probabilities, "be a tensor of real numbers", remedy)
    check_plain("probabilities", probabilities)
    if probabilities.ndim != 2 or 0 in probabilities.shape:
        requirement = "have the shape (N, C), one row per example, and not be empty"
        raise refusal("probabilities", probabilities, requirement, "check the data")
    check_all("probabilities", probabilities, probabilities.isfinite(), "be finite", "check the network's outputs")
    slack = _TOLERANCE + 4 * torch.finfo(probabilities.dtype).eps
    remedy = "pass logits.softmax(-1) where the network returns logits"
    inside = (probabilities >= -slack) & (probabilities <= 1 + slack)
    check_all("probabilities", probabilities, inside, "lie in [0, 1]", remedy)
    sums = probabilities.sum(-1, dtype=torch.float64)
    check_all("probabilities.sum(-1)", sums, (sums - 1).abs() <= slack, "be 1 in every row", remedy)
    return probabilities


def class_indices(probabilities: Tensor, targets: Tensor) -> Tensor:
    """The true classes beside the probabilities (N, C); an error unless there is one in [0, C) for each row.

    >>> class_indices(torch.tensor([[0.9, 0.1], [0.5, 0.5]]), torch.tensor([0, 2]))
    Traceback (most recent call last):
    ValueError: `targets` (=2 at (1,), 1 of 2 entries) must lie in [0, 2); the network has 2 classes.
    """
    count, classes = check_probabilities(probabilities).shape
    targets = tensor_of("targets", targets)
    if not isinstance(targets, Tensor) or targets.is_floating_point() or targets.dtype.is_complex:
        raise wrong_type("targets", targets, "be a tensor of class indices", "convert it with torch.tensor(y)")
    check_plain("targets", targets)
    if tuple(targets.shape) != (count,):
        raise refusal("targets", targets, f"have the shape ({count},), one per example", "check the order of the data")
    targets = targets.to(probabilities.device).long()
    inside = (targets >= 0) & (targets < classes)
    check_all("targets", targets, inside, f"lie in [0, {classes})", f"the network has {classes} classes")
    return targets


def answers_as_indices(targets: Tensor) -> Tensor:
    """Answers as `Bernoulli` learns from them, (N, 1) or real, as indices of two classes; others as they are.

    >>> answers_as_indices(torch.tensor([[0.0], [1.0]]))
    tensor([0, 1])
    """
    targets = tensor_of("targets", targets)
    if not isinstance(targets, Tensor):
        return targets
    flat = targets.squeeze(1) if targets.ndim == 2 and targets.shape[1] == 1 else targets
    return flat.long() if flat.is_floating_point() and bool(((flat == 0) | (flat == 1)).all()) else flat


def negative_log_likelihood(probabilities: Tensor, targets: Tensor) -> float:
    """Mean −ln p(true class), in nats per example.

    >>> round(negative_log_likelihood(torch.tensor([[0.5, 0.5]]), torch.tensor([1])), 4)
    0.6931
    """
    targets = class_indices(probabilities, targets)
    chosen = probabilities.double().gather(-1, targets.unsqueeze(-1))
    smallest = torch.finfo(probabilities.dtype).tiny  # a probability that underflowed is not infinitely surprising
    return float(-chosen.clamp(min=smallest).log().mean())


def brier_score(probabilities: Tensor, targets: Tensor) -> float:
    """Mean squared distance of the probabilities from the one-hot truth, summed over classes: 0 is best, 2 worst.

    >>> brier_score(torch.tensor([[0.5, 0.5]]), torch.tensor([1]))
    0.5
    """
    truth = F.one_hot(class_indices(probabilities, targets), probabilities.shape[-1])
    return float((probabilities.double() - truth).square().sum(-1).mean())


def calibration_error(probabilities: Tensor, targets: Tensor, bins: int = BINS) -> float:
    """Expected calibration error: mean distance of confidence and accuracy over the bins of `reliability`.

    >>> calibration_error(torch.tensor([[0.75, 0.25]]), torch.tensor([0]))
    0.25
    """
    diagram = reliability(probabilities, targets, bins)
    gaps = (diagram.accuracy - diagram.confidence).abs().nan_to_num()  # an empty bin has no gap
    return float((gaps * diagram.count).sum() / diagram.count.sum())


def auroc(score: Tensor, positive: Tensor) -> float:
    """Area under the ROC curve: the probability that a positive example has the larger score than a negative one.

    Equal scores count half. Computed from ranks, as the Mann-Whitney statistic.

    >>> auroc(torch.tensor([0.1, 0.7, 0.4, 0.9]), torch.tensor([False, True, False, True]))
    1.0
    """
    score, positive = _paired("positive", score, positive)
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not (positives and negatives):
        share = f"{positives} of {len(positive)}"
        raise refusal("positive", share, "hold both kinds", "there is nothing to tell apart")
    _, place, count = score.unique(return_inverse=True, return_counts=True)
    ranks = count.cumsum(0).double() - (count.double() - 1) / 2  # from 1; equal scores share the mean of their ranks
    wins = float(ranks[place[positive]].sum()) - positives * (positives + 1) / 2
    return wins / (positives * negatives)


def auroc_or_none(score: Tensor, positive: Tensor) -> float | None:
    """The same, or None where there are not two kinds to tell apart."""
    score, positive = _paired("positive", score, positive)
    return None if positive.all() or not positive.any() else auroc(score, positive)


def out_of_distribution_auroc(inside: Tensor, outside: Tensor) -> float:
    """How well an uncertainty score tells foreign inputs (`outside`) from familiar ones (`inside`).

    >>> out_of_distribution_auroc(inside=torch.tensor([0.1, 0.3]), outside=torch.tensor([0.2, 0.9]))
    0.75
    """
    both = torch.cat([_checked_score("inside", inside), _checked_score("outside", outside)])
    return auroc(both, torch.arange(len(both), device="cpu") >= len(inside))


@dataclass(frozen=True)
class RiskCoverage:
    """Keep the examples the model is least uncertain of: share kept → share of errors among them.

    Example:
        >>> curve = risk_coverage(torch.tensor([0.1, 0.9, 0.2, 0.3]), torch.tensor([False, True, False, False]))
        >>> curve.coverage[2].item(), curve.risk[2].item()  # the surest three of four: none is wrong
        (0.75, 0.0)
    """

    coverage: Tensor  # (N,), 1/N … 1
    risk: Tensor  # (N,)
    area: float  # mean risk over all coverages: smaller is better


def risk_coverage(uncertainty: Tensor, wrong: Tensor) -> RiskCoverage:
    """The risk-coverage curve. Examples of equal uncertainty are taken together: each gets the risk of its group.

    Within a group of ties the expected curve over a random order is used, so the order of the data does not matter.

    >>> risk_coverage(torch.tensor([0.1, 0.9, 0.2, 0.3]), torch.tensor([False, True, False, False])).risk
    tensor([0.0000, 0.0000, 0.0000, 0.2500], dtype=torch.float64)
    """
    uncertainty, wrong = _paired("wrong", uncertainty, wrong, of="uncertainty")
    order = uncertainty.argsort(stable=True)
    errors = wrong[order].double()
    _, group, size = uncertainty[order].unique_consecutive(return_inverse=True, return_counts=True)
    mean_in_group = group.bincount(errors) / size
    kept = torch.arange(1, len(errors) + 1, dtype=torch.float64, device="cpu")
    risk = mean_in_group[group].cumsum(0) / kept
    return RiskCoverage(kept / len(errors), risk, float(risk.mean()))


def accuracy_at_coverage(uncertainty: Tensor, wrong: Tensor, coverage: float) -> float:
    """Accuracy on the share `coverage` of examples with the smallest uncertainty.

    >>> accuracy_at_coverage(torch.tensor([0.1, 0.9]), torch.tensor([False, True]), coverage=0.5)
    1.0
    """
    if not is_number(coverage) or not 0 < coverage <= 1:
        raise refusal("coverage", coverage, "lie in (0, 1]", "it is the share of examples that is kept")
    curve = risk_coverage(uncertainty, wrong)
    kept = max(1, round(coverage * len(curve.risk)))
    return 1 - float(curve.risk[kept - 1])


@dataclass(frozen=True)
class Reliability:
    """The data of a reliability diagram; bins without examples have NaN.

    Example:
        >>> probabilities, targets = torch.tensor([[0.75, 0.25], [0.5, 0.5]]), torch.tensor([0, 1])
        >>> reliability(probabilities, targets, bins=2).count
        tensor([1, 1])
    """

    edges: Tensor  # (bins + 1,)
    confidence: Tensor  # (bins,): mean confidence
    accuracy: Tensor  # (bins,): share of correct labels
    count: Tensor  # (bins,)


def check_bins(bins: object, remedy: str) -> None:
    """Refuse what does not count the bins of a histogram."""
    if check_whole("bins", bins, remedy, least=1) > _MOST_BINS:
        raise refusal("bins", bins, f"be at most {_MOST_BINS:,}", remedy)


def reliability(probabilities: Tensor, targets: Tensor, bins: int = BINS) -> Reliability:
    """Confidence against accuracy in equal-width bins of the confidence; a bin includes its upper edge.

    >>> reliability(torch.tensor([[0.75, 0.25], [0.5, 0.5]]), torch.tensor([0, 1]), bins=2)
    Reliability(edges=tensor([0.0000, 0.5000, 1.0000], dtype=torch.float64),
                confidence=tensor([0.5000, 0.7500], dtype=torch.float64),
                accuracy=tensor([0., 1.], dtype=torch.float64), count=tensor([1, 1]))
    """
    check_bins(bins, "15 is usual")
    targets = class_indices(probabilities, targets).cpu()
    confidence, label = probabilities.double().cpu().max(-1)
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64, device="cpu")
    place = torch.bucketize(confidence, edges[1:-1])
    count = torch.bincount(place, minlength=bins)
    mean_confidence = place.bincount(confidence, bins) / count
    accuracy = place.bincount((label == targets).double(), bins) / count
    return Reliability(edges, mean_confidence, accuracy, count)


def _paired(name: str, score: Tensor, flags: Tensor, of: str = "score") -> tuple[Tensor, Tensor]:
    """A score for each example and a bool for each, on the CPU."""
    score = _checked_score(of, score)
    if not isinstance(flags, Tensor) or flags.dtype != torch.bool:
        raise wrong_type(name, flags, "be a tensor of bools", f"pass {name}.bool()")
    if score.shape != flags.shape:
        raise refusal(name, flags, f"match the shape of `{of}`, {tuple(score.shape)}", "check the data")
    return score, flags.cpu()


def _checked_score(name: str, score: Tensor) -> Tensor:
    """(N,) finite numbers, at least one, on the CPU."""
    if not isinstance(score, Tensor) or score.dtype == torch.bool or score.dtype.is_complex:
        raise wrong_type(name, score, "be a tensor of real numbers", "pass an uncertainty, such as pred.entropy")
    check_plain(name, score)
    if score.ndim != 1 or len(score) == 0:
        raise refusal(name, score, "have the shape (N,) with N > 0", "pass one number per example")
    check_all(name, score, score.isfinite(), "be finite", "check the prediction")
    return score.cpu()
