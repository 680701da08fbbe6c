"""What an arm says about test rows, and how good that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Figures = dict[str, float | None]  # what an arm does not say is None


@dataclass(frozen=True)
class Values:
    """Of a regression: mean (N,), 95 % interval (N, 2), and the log density of the truth (N,), if there is one."""

    mean: Any
    interval: Any
    log_density: Any = None

    def figures(self, truth: Any) -> Figures:
        """RMSE, NLL, and how many observations the interval holds at which mean width; units of the data, nats."""
        lower, upper = np.asarray(self.interval).T
        return {
            "error": float(np.sqrt(np.mean((self.mean - truth) ** 2))),
            "nll": None if self.log_density is None else -float(np.mean(self.log_density)),
            "coverage": float(np.mean((lower <= truth) & (truth <= upper))),
            "width": float(np.mean(upper - lower)),
        }


@dataclass(frozen=True)
class Classes:
    """Of a classification: probabilities (N, C), and the 95 % set (N, C) bool, if there is one."""

    probabilities: Any
    sets: Any = None

    def figures(self, truth: Any) -> Figures:
        """Share of wrong labels, NLL, and how many truths the set holds with how many classes on average."""
        own = np.take_along_axis(self.probabilities, truth[:, None], axis=1)
        held = None if self.sets is None else np.take_along_axis(self.sets, truth[:, None], axis=1)
        return {
            "error": float(np.mean(self.probabilities.argmax(1) != truth)),
            "nll": -float(np.mean(np.log(np.maximum(own, 1e-15)))),
            "coverage": None if held is None else float(held.mean()),
            "width": None if self.sets is None else float(self.sets.sum(1).mean()),
        }


@dataclass(frozen=True)
class Nothing:
    """Of an arm whose library could not learn these rows."""

    def figures(self, truth: Any) -> Figures:
        """It says nothing."""
        del truth
        return dict.fromkeys(("error", "nll", "coverage", "width"))


Answers = Values | Classes | Nothing
