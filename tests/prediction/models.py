"""Small models in float64, so that comparisons can be tight, and predictions made from given samples."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tribayes.nn.calling import Arguments
from tribayes.prediction.inputs import Batch
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import Kept

FEATURES, CLASSES = 4, 3

predict = partial(tb.predict, progress=False)
predicting = sys.modules["tribayes.prediction.predict"]  # the file, not the function of its name


def seeded(factory: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """The module, always with the same weights, without touching the global random state."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return factory().double()


def classifier(tau: float = 0.5, **options: Any) -> tb.BayesianModule:
    """Three classes with much disagreement between the sampled networks."""
    net = seeded(lambda: nn.Sequential(nn.Linear(FEATURES, 6), nn.Tanh(), nn.Linear(6, CLASSES)))
    return tb.to_bayesian(net, tau=tau, generator=0, **options)


def regressor(tau: float = 0.5, outputs: int = 1) -> tb.BayesianModule:
    net = seeded(lambda: nn.Sequential(nn.Linear(FEATURES, 6), nn.Tanh(), nn.Linear(6, outputs)))
    return tb.to_bayesian(net, tau=tau, generator=0)


def inputs(count: int = 15, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(count, FEATURES, generator=generator, dtype=torch.float64)


def batch(*tensors: Tensor) -> Batch:
    """Some examples as a prediction gathers them: one tensor for each argument of the network."""
    return Batch(Arguments(tensors, {}), len(tensors[0]))


def cut_chunks(monkeypatch: pytest.MonkeyPatch, examples: int | None, samples: int, width: int = CLASSES) -> None:
    """Leave room for the sampled outputs of so many examples, so that a prediction is cut into chunks of these."""
    if examples is not None:
        monkeypatch.setattr(predicting, "_CHUNK_BYTES", examples * samples * width * 4)


def dirichlet(count: int, examples: int, classes: int, seed: int = 0, concentration: float = 1.0) -> Tensor:
    """Random class probabilities (S, N, C)."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.full((count, examples, classes), concentration, dtype=torch.float64)
    gammas = torch._standard_gamma(weights, generator=generator)
    return gammas / gammas.sum(-1, keepdim=True)


def predictive(samples: Tensor) -> tb.ClassPredictive:
    """What `predict` would return had the sampled networks said this, (S, N, C)."""
    return tb.ClassPredictive(Kept(samples), Drawn(0, tuple(range(len(samples)))))


def values(samples: Tensor, noise: float = 0.3) -> tb.RegressionPredictive:
    """The same for regression, (S, N, D)."""
    return tb.RegressionPredictive(Kept(samples), Drawn(0, tuple(range(len(samples)))), noise)


def refused(text: str, kind: type[Exception] = ValueError) -> AbstractContextManager[Any]:
    """Expect an error with exactly this text."""
    return pytest.raises(kind, match="^" + re.escape(text) + "$")


def normal_bound(failure_rate: float, comparisons: int = 1) -> float:
    """How many standard deviations all of so many normal variables stay within, but for the failure rate."""
    tail = failure_rate / (2 * comparisons)
    return float(-torch.special.ndtri(torch.tensor(tail, dtype=torch.float64)))


def normal_quantile(probability: float) -> float:
    return float(torch.special.ndtri(torch.tensor(probability, dtype=torch.float64)))


def binomial_bound(count: int, share: float, failure_rate: float) -> float:
    """How far a share observed in `count` trials may be off: Bernstein's inequality, valid for every count."""
    log_rate = math.log(2 / failure_rate)
    slope = log_rate / (3 * count)
    return slope + math.sqrt(slope**2 + 2 * log_rate * share * (1 - share) / count)


def tail_bound(count: int, tail: float, failure_rate: float) -> float:
    """How far the true probability below an empirical quantile at `tail` may be from `tail`, given `count` samples."""
    bound = binomial_bound(count, min(0.5, 2 * tail), failure_rate)
    assert bound < tail  # so the share that varies stays below 2 · tail, as Bernstein's inequality was given it
    return bound + 1 / count  # interpolation between order statistics
