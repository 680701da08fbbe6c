"""Numbers that judge predictions and their uncertainties.

torchmetrics where it has them (AUROC); written here is what it lacks or does otherwise: the Brier score, the
risk-coverage curve with its area, accuracy at a coverage, the data of a reliability diagram and the calibration error.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tribayes._errors import refusal, wrong_type

BINS = 15  # of the confidence, for calibration: the usual number (Guo et al. 2017)


def class_indices(probabilities: Tensor, targets: Tensor) -> Tensor:
    """The true classes beside the probabilities (N, C); an error unless there is one in [0, C) for each row."""
    count, classes = probabilities.shape
    if not isinstance(targets, Tensor) or targets.is_floating_point() or targets.dtype.is_complex:
        raise wrong_type("targets", targets, "be a tensor of class indices", "convert it with torch.tensor(y)")
    if tuple(targets.shape) != (count,):
        raise refusal("targets", targets, f"have the shape ({count},), one an example", "check the order of the data")
    targets = targets.to(probabilities.device).long()
    outside = (targets < 0) | (targets >= classes)
    if outside.any():
        index = int(outside.nonzero()[0])
        place = f"{int(targets[index])} at {index}"
        raise refusal("targets", place, f"lie in [0, {classes})", f"the network has {classes} classes")
    return targets


def negative_log_likelihood(probabilities: Tensor, targets: Tensor) -> float:
    """Mean −ln p(true class), in nats."""
    chosen = probabilities.double().gather(-1, class_indices(probabilities, targets).unsqueeze(-1))
    smallest = torch.finfo(probabilities.dtype).tiny  # a probability that underflowed is not infinitely surprising
    return float(-chosen.clamp(min=smallest).log().mean())


def brier_score(probabilities: Tensor, targets: Tensor) -> float:
    """Mean squared distance of the probabilities from the one-hot truth, summed over classes: 0 is best, 2 worst."""
    truth = F.one_hot(class_indices(probabilities, targets), probabilities.shape[-1])
    return float((probabilities.double() - truth).square().sum(-1).mean())


def calibration_error(probabilities: Tensor, targets: Tensor, bins: int = BINS) -> float:
    """Expected calibration error: mean distance of confidence and accuracy over the bins of `reliability`.

    torchmetrics has it too, but gives a confidence of exactly 1 a bin of its own: number and diagram would differ.
    """
    diagram = reliability(probabilities, targets, bins)
    gaps = (diagram.accuracy - diagram.confidence).abs().nan_to_num()  # an empty bin has no gap
    return float((gaps * diagram.count).sum() / diagram.count.sum())


def auroc(score: Tensor, positive: Tensor) -> float:
    """Area under the ROC curve: the probability that a positive example has the larger score than a negative one."""
    from torchmetrics.functional.classification import binary_auroc

    score, positive = _paired("positive", score, positive)
    if positive.all() or not positive.any():
        raise refusal(
            "positive", f"{int(positive.sum())} of {len(positive)}", "hold both kinds", "there is nothing to tell apart"
        )
    ranks = score.double().unique(return_inverse=True)[1].double()  # torchmetrics squashes scores outside [0, 1]
    return float(binary_auroc(ranks / max(1.0, float(ranks.max())), positive.long()))


def auroc_or_none(score: Tensor, positive: Tensor) -> float | None:
    """The same, or None where there are not two kinds to tell apart."""
    return None if positive.all() or not positive.any() else auroc(score, positive)


def out_of_distribution_auroc(inside: Tensor, outside: Tensor) -> float:
    """How well an uncertainty score tells foreign inputs (`outside`) from familiar ones (`inside`)."""
    foreign = torch.cat([torch.zeros(len(inside), dtype=torch.bool), torch.ones(len(outside), dtype=torch.bool)])
    return auroc(torch.cat([inside, outside]), foreign)


@dataclass(frozen=True)
class RiskCoverage:
    """Keep the examples the model is least uncertain of: share kept → share of errors among them."""

    coverage: Tensor  # (N,), 1/N … 1
    risk: Tensor  # (N,)
    area: float  # mean risk over all coverages: smaller is better


def risk_coverage(uncertainty: Tensor, wrong: Tensor) -> RiskCoverage:
    """The risk-coverage curve. Examples of equal uncertainty are taken together: each gets the risk of its group.

    Within a group of ties the expected curve over a random order is used, so the order of the data does not matter.
    """
    uncertainty, wrong = _paired("wrong", uncertainty, wrong)
    order = uncertainty.argsort(stable=True)
    errors = wrong[order].double()
    _, group, size = uncertainty[order].unique_consecutive(return_inverse=True, return_counts=True)
    mean_in_group = torch.zeros(len(size), dtype=torch.float64).index_add_(0, group, errors) / size
    kept = torch.arange(1, len(errors) + 1, dtype=torch.float64)
    risk = mean_in_group[group].cumsum(0) / kept
    return RiskCoverage(kept / len(errors), risk, float(risk.mean()))


def accuracy_at_coverage(uncertainty: Tensor, wrong: Tensor, coverage: float) -> float:
    """Accuracy on the share `coverage` of examples with the smallest uncertainty."""
    if not 0 < coverage <= 1:
        raise refusal("coverage", coverage, "lie in (0, 1]", "it is the share of examples that is kept")
    curve = risk_coverage(uncertainty, wrong)
    kept = max(1, round(coverage * len(curve.risk)))
    return 1 - float(curve.risk[kept - 1])


@dataclass(frozen=True)
class Reliability:
    """The data of a reliability diagram; bins without examples have NaN."""

    edges: Tensor  # (bins + 1,)
    confidence: Tensor  # (bins,): mean confidence
    accuracy: Tensor  # (bins,): share of correct labels
    count: Tensor  # (bins,)


def reliability(probabilities: Tensor, targets: Tensor, bins: int = BINS) -> Reliability:
    """Confidence against accuracy in equal-width bins of the confidence; a bin includes its upper edge."""
    _check_bins(bins)
    targets = class_indices(probabilities, targets)
    confidence, label = probabilities.double().max(-1)
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)
    place = torch.bucketize(confidence, edges[1:-1])
    count = torch.bincount(place, minlength=bins)
    sums = torch.zeros(2, bins, dtype=torch.float64)
    sums[0].index_add_(0, place, confidence)
    sums[1].index_add_(0, place, (label == targets).double())
    mean_confidence, accuracy = sums / count
    return Reliability(edges, mean_confidence, accuracy, count)


def _check_bins(bins: int) -> None:
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise refusal("bins", bins, "be a whole number, at least 1", "15 is usual")


def _paired(name: str, score: Tensor, flags: Tensor) -> tuple[Tensor, Tensor]:
    if flags.dtype != torch.bool:
        raise wrong_type(name, flags, "be a tensor of bools", f"pass {name}.bool()")
    if score.ndim != 1 or score.shape != flags.shape or len(score) == 0:
        raise refusal(name, flags, f"match the scores' shape {tuple(score.shape)}, (N,) with N > 0", "check the data")
    if not torch.isfinite(score).all():
        raise refusal("score", score, "be finite", "check the prediction")
    return score.cpu(), flags.cpu()
