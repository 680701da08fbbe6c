"""How well uncertainty tells foreign images from those of the kind a network was trained on."""

from __future__ import annotations

from typing import Any

from torch import nn

from tribayes.nn.stage import posterior_rows
from tribayes.prediction import ClassPredictive
from tribayes.prediction.metrics import out_of_distribution_auroc
from tribayes.prediction.source import entropy
from tribayes.runs.batches import Examples
from tribayes.runs.evaluation import LEVELS, mean_answers, sampled_answers, short


def out_of_distribution(
    model: nn.Module, inside: Examples, outside: Examples, seed: int, samples: int = 200, progress: bool = True
) -> dict[str, Any]:
    """AUROC by `entropy` and by `mutual_information`, and the share called quite certain of each kind, by level.

    A frequentist network has neither mutual information nor intervals; there these are None and empty.
    """
    if not posterior_rows(model):
        scores = [entropy(mean_answers(model, examples)) for examples in (inside, outside)]
        return _figures(out_of_distribution_auroc(*scores), None, {}, {})
    known, foreign = (sampled_answers(model, examples, seed, samples, progress) for examples in (inside, outside))
    return _figures(
        out_of_distribution_auroc(known.entropy, foreign.entropy),
        out_of_distribution_auroc(known.epistemic, foreign.epistemic),
        _certain_shares(known),
        _certain_shares(foreign),
    )


def _certain_shares(pred: ClassPredictive) -> dict[str, float]:
    return {str(level): float(pred.certain(level).double().mean()) for level in LEVELS}


def _figures(
    by_entropy: float, by_information: float | None, inside: dict[str, float], outside: dict[str, float]
) -> dict[str, Any]:
    return {
        "auroc_entropy": short(by_entropy),
        "auroc_mutual_information": None if by_information is None else short(by_information),
        "certain_inside": inside,
        "certain_outside": outside,
    }
