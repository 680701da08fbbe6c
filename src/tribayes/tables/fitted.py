"""A network that has learned a table: it takes rows and answers in the units of the targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes.prediction.conformal import Conformal, conformalise
from tribayes.prediction.predict import predict
from tribayes.prediction.predictive import ClassPredictive, RegressionPredictive
from tribayes.prediction.source import check_levels
from tribayes.tables.scaling import Scaling, rows_of


@dataclass(frozen=True)
class FittedTable:
    """Made by `tribayes.tables.fit_table`.

    Attributes:
        model: the Bayesian network, in units of the columns' spread; it remembers its likelihood.
        inputs: these units.
        targets: those of the targets; None where they are classes.
        kl_weight: the weight of the divergence that it was trained with.
        trials: weight → NLL of the rows that it was chosen by, after `tribayes.calibrate`; nats, of scaled targets.
        rows: how many rows trained it.
        samples: how many networks answer.
        seed: of their draws.
        conformal: what held-out rows taught about intervals or sets; None where none were held out.

    Example:
        >>> x = torch.randn(200, 3)
        >>> fitted = tb.tables.fit_table(x, x.sum(1), recipe=tb.tables.Recipe(steps=20))
        >>> mean, std = fitted.mean_and_std(x[:5])
        >>> mean.shape == std.shape
        True
    """

    model: nn.Module
    inputs: Scaling
    targets: Scaling | None
    kl_weight: float
    trials: dict[float, float]
    rows: int
    samples: int
    seed: int
    conformal: Conformal | None = None

    def conformalised(self, rows: Tensor, targets: Tensor) -> FittedTable:
        """The same, its intervals or sets by the truth of rows that it has not seen (`tribayes.conformalise`)."""
        truth = targets if self.targets is None else self.targets.into(rows_of(targets))
        return replace(self, conformal=conformalise(self.predict(rows), truth))

    def predict(self, rows: Tensor) -> Any:
        """What `tribayes.predict` says about rows (N, d): of values, in units of the targets' spread."""
        return predict(self.model, self.inputs.into(rows), self.samples, seed=self.seed, progress=False)

    def mean_and_std(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """(N, D) each: the mean and the standard deviation of a new observation."""
        pred, units = self._values(rows)
        return units.back(pred.mean), pred.std * units.spread

    def intervals(self, rows: Tensor, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """(lower, upper), each (N, D): conformal where rows were held out, else the posterior's own.

        With several targets a conformal interval is for all of them at once.
        """
        pred, units = self._values(rows)
        known = self.conformal
        lower, upper = pred.observation_interval(level) if known is None else known.intervals(pred, level)
        return units.back(lower), units.back(upper)

    def log_density(self, rows: Tensor, targets: Tensor) -> Tensor:
        """(N,): log predictive density of targets, (N,) or (N, D), in nats, in their own units."""
        pred, units = self._values(rows)
        return pred.log_density(units.into(rows_of(targets))) - units.spread.log().sum()

    def sets(self, rows: Tensor, level: float = 0.95) -> Tensor:
        """(N, C) bool: the classes that may be true: conformal where rows were held out.

        Else the most probable ones whose probabilities sum to the level.
        """
        pred = self.predict(rows)
        if not isinstance(pred, ClassPredictive):
            raise refusal("rows", pred, "be asked for their classes, but values were learned", "use intervals(...)")
        check_levels([level])
        if self.conformal is not None:
            return self.conformal.sets(pred, level)
        ordered, order = pred.mean.sort(dim=-1, descending=True, stable=True)
        needed = ordered.cumsum(-1) - ordered < level
        return torch.zeros_like(needed).scatter(-1, order, needed)

    def _values(self, rows: Tensor) -> tuple[RegressionPredictive, Scaling]:
        pred = self.predict(rows)
        if self.targets is None:
            raise refusal("rows", pred, "be asked for values, but classes were learned", "use predict(...), sets(...)")
        return pred, self.targets
