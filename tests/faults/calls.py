"""Public functions called with odd values: an answer without NaN, or an error in our own words."""

from __future__ import annotations

import dataclasses
import math
import random
import traceback
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tribayes as tb
from tests.faults.tally import Tally
from tribayes.prediction import metrics

PACKAGE = str(Path(tb.__file__).parent)
LABELS = torch.tensor([0, 1, 2, 1])
TABLE = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.3, 0.3, 0.4]])

NUMBERS: list[Any] = [0, 1, -1, 2, 7, 0.5, 0.95, 1.0, 1.5, -0.5, math.nan, math.inf, -math.inf, 1e38, 1e-50, 1e300]
NUMBERS += [True, None, "0.5", 10**30, -(10**30), [0.95], (), torch.tensor(0.5), 100.5, 3 + 1j]
TENSORS: list[Any] = [
    TABLE, LABELS, torch.zeros(0, 3), torch.zeros(4, 0), torch.zeros(()), torch.full((4, 3), math.nan), TABLE * 100,
    TABLE.log(), torch.full((4, 3), math.inf), TABLE.half(), TABLE.double(), TABLE.to(torch.complex64), TABLE.int(),
    torch.tensor([0, 1, 2, 3]), torch.tensor([0, -1, 2, -100]), LABELS.double(), LABELS.bool(), ~LABELS.bool(),
    torch.tensor([0.1, 0.4, 0.2, 0.9]), torch.tensor([0.1, math.nan, 0.2, 0.9]), torch.zeros(4), TABLE.expand(2, 4, 3),
    torch.tensor([0.1, math.inf, 0.2, 0.9]), TABLE[:, :2], torch.zeros(0), None, 5, "x", [0, 1, 2, 1], TABLE.tolist(),
]  # fmt: skip


@cache
def network() -> tb.BayesianModule:
    torch.manual_seed(0)
    return tb.to_bayesian(nn.Sequential(nn.Linear(2, 3)), tau=0.3)


@cache
def answer() -> tb.ClassPredictive:
    return tb.predict(network(), torch.randn(4, 2, generator=torch.Generator().manual_seed(0)), 6, progress=False)


@cache
def values() -> tb.RegressionPredictive:
    x = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    return tb.predict(network(), x, 6, likelihood=tb.Gaussian(noise=0.3), progress=False)


def ask(**given: Any) -> tb.ClassPredictive:
    return tb.predict(given.pop("model", network()), given.pop("inputs", torch.ones(2, 2)), progress=False, **given)


def convert(**given: Any) -> tb.BayesianModule:
    return tb.to_bayesian(nn.Linear(2, 3), **given)


# function → its arguments: a list to choose from, after a legal value
CALLS: dict[str, tuple[Callable[..., Any], Mapping[str, tuple[Any, list[Any]]]]] = {
    "negative_log_likelihood": (
        metrics.negative_log_likelihood, {"probabilities": (TABLE, TENSORS), "targets": (LABELS, TENSORS)}
    ),
    "brier_score": (metrics.brier_score, {"probabilities": (TABLE, TENSORS), "targets": (LABELS, TENSORS)}),
    "calibration_error": (
        metrics.calibration_error,
        {"probabilities": (TABLE, TENSORS), "targets": (LABELS, TENSORS), "bins": (3, NUMBERS)},
    ),
    "auroc": (metrics.auroc, {"score": (TENSORS[18], TENSORS), "positive": (LABELS.bool(), TENSORS)}),
    "out_of_distribution_auroc": (
        metrics.out_of_distribution_auroc, {"inside": (TENSORS[18], TENSORS), "outside": (TENSORS[18], TENSORS)}
    ),
    "risk_coverage": (
        metrics.risk_coverage, {"uncertainty": (TENSORS[18], TENSORS), "wrong": (LABELS.bool(), TENSORS)}
    ),
    "accuracy_at_coverage": (
        metrics.accuracy_at_coverage,
        {"uncertainty": (TENSORS[18], TENSORS), "wrong": (LABELS.bool(), TENSORS), "coverage": (0.5, NUMBERS)},
    ),
    "AutoSamples": (
        tb.AutoSamples,
        {"tolerance": (0.1, NUMBERS), "cap": (100, NUMBERS), "level": (0.9, NUMBERS), "first": (2, NUMBERS)},
    ),
    "Moments": (tb.Moments, {"points": (4, NUMBERS)}),
    "Prior": (tb.Prior, {"loc": (0.0, NUMBERS), "scale": (1.0, NUMBERS)}),
    "predict": (
        ask,
        {
            "model": (network(), [None, nn.Linear(2, 3), "x"]),
            "inputs": (torch.ones(2, 2), TENSORS),
            "samples": (2, NUMBERS),
            "seed": (0, NUMBERS),
            "batch_size": (2, NUMBERS),
            "levels": ((0.9,), NUMBERS),
        },
    ),
    "to_bayesian": (convert, {"tau": (0.1, NUMBERS), "rho": (0.1, NUMBERS), "generator": (0, NUMBERS)}),
    "interval": (lambda level: answer().interval(level), {"level": (0.9, NUMBERS)}),
    "certain": (lambda level: answer().certain(level), {"level": (0.9, NUMBERS)}),
    "monte_carlo_error": (lambda level: answer().monte_carlo_error(level), {"level": (0.9, NUMBERS)}),
    "uncertainty": (lambda score: answer().uncertainty(score), {"score": ("entropy", NUMBERS)}),
    "summary": (
        lambda targets, levels: answer().summary(targets, levels),
        {"targets": (LABELS, TENSORS), "levels": ((0.9,), NUMBERS)},
    ),
    "observation_interval": (lambda level: values().observation_interval(level), {"level": (0.9, NUMBERS)}),
    "log_density": (lambda targets: values().log_density(targets), {"targets": (torch.zeros(4, 3), TENSORS)}),
    "with_noise": (lambda noise: values().with_noise(noise).std, {"noise": (0.1, NUMBERS)}),
    "merge": (
        tb.Predictive.merge,
        {"parts": ([answer()], [*TENSORS, [answer(), values()], [answer()] * 2]), "along": ("samples", NUMBERS)},
    ),
}  # fmt: skip


def call_at_random(count: int, rng: random.Random, folder: Path) -> Tally:
    """Each call has one or two odd arguments; the others are legal."""
    del folder
    tally, names = Tally(), list(CALLS)
    for number in range(count):
        name = names[number % len(names)]
        function, arguments = CALLS[name]
        given = {key: legal for key, (legal, _) in arguments.items()}
        for key in rng.sample(list(arguments), min(len(arguments), rng.choice([1, 1, 2]))):
            given[key] = rng.choice(arguments[key][1])
        what = f"{name}({', '.join(f'{key}={value!r:.60}' for key, value in given.items())})"
        tally.note(*_outcome(function, given, what))
    return tally


def _outcome(function: Callable[..., Any], given: dict[str, Any], what: str) -> tuple[bool, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(**given)
    except (ValueError, TypeError) as error:
        ours = traceback.extract_tb(error.__traceback__)[-1].filename.startswith(PACKAGE) and "`" in str(error)
        return ours, f"{what}: {type(error).__name__}: {error}"
    except RuntimeError as error:  # of a network that takes no such inputs: its own words
        own = any("nn/modules/linear.py" in frame.filename for frame in traceback.extract_tb(error.__traceback__))
        return own, f"{what}: {type(error).__name__}: {error}"
    except Exception as error:
        return False, f"{what}: {type(error).__name__}: {error}"
    return is_finite(result), f"{what} gave {result!r:.100}"


def is_finite(value: Any) -> bool:
    """Whether no number in a result is NaN or infinite."""
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    if isinstance(value, float):
        return math.isfinite(value)
    if dataclasses.is_dataclass(value):
        return all(is_finite(getattr(value, each.name)) for each in dataclasses.fields(value))
    if isinstance(value, tuple | list):
        return all(map(is_finite, value))
    if isinstance(value, nn.Module):
        return all(is_finite(parameter.detach()) for parameter in value.parameters())
    if isinstance(value, tb.Predictive):
        return is_finite(value.mean)
    return True
