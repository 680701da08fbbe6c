"""What the correlations do, and which layer the uncertainty comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from glob import escape
from itertools import chain
from typing import Any

import torch
from torch import nn

from tribayes._errors import check_module, refusal
from tribayes._text import format_table, percent
from tribayes.inference.likelihood import Likelihood
from tribayes.nn.convert import bayesian_modules, copied
from tribayes.nn.stage import random_names
from tribayes.prediction.predict import predict
from tribayes.prediction.predictive import RegressionPredictive


def ablate_correlation(model: nn.Module) -> nn.Module:
    """A copy of the model with every correlation set to 0 and all else as learned: same means, same variances.

    Example:
        >>> model = tb.to_bayesian(nn.Linear(4, 3), rho=0.4)
        >>> [round(row.rho, 3) for row in model.posterior()], [row.rho for row in ablate_correlation(model).posterior()]
        ([0.4, 0.4], [0.0, 0.0])
    """
    check_module("model", model)
    changed = copied(model)
    gammas = [p for module in bayesian_modules(changed) for p in module.family.correlation_parameters()]
    if not gammas:
        remedy = 'only family="tridiagonal" has correlations'
        raise refusal("model", type(model).__name__, "have correlations to take away", remedy)
    with torch.no_grad():
        for gamma in gammas:
            gamma.zero_()
    return changed


@dataclass(frozen=True)
class LayerRow:
    """One layer drawn while all others stay at their means."""

    layer: str
    epistemic: float  # mean over examples: nats for classes, variance for values
    std: float  # mean over examples and outputs of the standard deviation over networks
    share: float  # of the sum over layers of `epistemic`


@dataclass(frozen=True)
class LayerReport:
    """How much uncertainty each layer brings alone. Prints as a table.

    The layers do not add up to the whole: a network is not linear in its weights. `everything` is all layers drawn.

    Example:
        >>> model = tb.to_bayesian(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3)))
        >>> found = tb.layer_report(model, torch.randn(8, 2), samples=20)
        >>> list(found.as_dict())
        ['0', '2', 'all']
    """

    rows: tuple[LayerRow, ...]
    everything: LayerRow

    def as_dict(self) -> dict[str, dict[str, float]]:
        """layer → {"epistemic", "std", "share"}; the last is "all"."""
        plain = [asdict(row) for row in (*self.rows, self.everything)]
        return {row.pop("layer"): row for row in plain}

    def __iter__(self) -> Iterator[LayerRow]:
        return iter(self.rows)

    def table_rows(self) -> list[list[object]]:
        """Layer drawn, epistemic, std, share: one row per layer, then all of them drawn."""
        rows: list[list[object]] = [[row.layer, row.epistemic, row.std, percent(row.share)] for row in self.rows]
        return [*rows, [self.everything.layer, self.everything.epistemic, self.everything.std, ""]]

    def __str__(self) -> str:
        return format_table(["layer drawn", "epistemic", "std", "share"], self.table_rows())


def layer_report(
    model: nn.Module, inputs: Any, samples: int = 200, likelihood: Likelihood | None = None, seed: int = 0
) -> LayerReport:
    """Draw one layer, keep the others at their means, and see how uncertain the predictions become.

    A layer is all random tensors of one module: its weight and its bias. `inputs` must be readable more than once.

    Example:
        >>> model = tb.to_bayesian(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
        >>> report = layer_report(model, torch.randn(5, 4), samples=20)
        >>> [row.layer for row in report], report.everything.layer
        (['0', '2'], 'all')
    """

    def measure(where: list[str] | None) -> tuple[float, float]:
        pred = predict(model, inputs, samples, likelihood, seed=seed, progress=False, keep_samples=False, where=where)
        spread = pred.epistemic.sqrt() if isinstance(pred, RegressionPredictive) else pred.std
        return float(pred.epistemic.mean()), float(spread.mean())

    check_module("model", model)
    layers: dict[str, list[str]] = {}
    for name in chain.from_iterable(random_names(model)):
        layers.setdefault(name.rpartition(".")[0], []).append(escape(name))
    measured = {layer or "(the module itself)": measure(members) for layer, members in layers.items()}
    total = sum(epistemic for epistemic, _ in measured.values()) or 1.0
    rows = tuple(LayerRow(layer, epi, std, epi / total) for layer, (epi, std) in measured.items())
    return LayerReport(rows, LayerRow("all", *measure(None), share=1.0))
