"""Coverage of intervals on simulated truth: how often a thousand data sets' intervals hold what made the data.

With weights drawn from the prior and the posterior found exactly, a credible interval of level p holds the truth with
probability p (over both), which is what is compared: binomially, with the p-value of what was counted.
"""

from __future__ import annotations

import math

import torch
from scipy import stats
from torch import Tensor, nn

import tribayes as tb

LEVELS = (0.5, 0.8, 0.95)
_POINTS, _NOISE, _SAMPLES = 8, 0.5, 401
Counted = dict[str, dict[str, float]]


class Separate(nn.Module):
    """A number per repetition, each a tensor of its own: the tridiagonal family has a τ for each."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.slopes = nn.ParameterList(torch.full((1,), 2.0) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.cat(list(self.slopes))


def conjugate(count: int, family: str, steps: int) -> Counted:
    """y = w x + noise with w ~ N(2, ½²) `count` times at once, learned by `fit`, and asked for w x and for a new y.

    The posterior of each w is normal, and the family has it.
    """
    source = torch.Generator().manual_seed(1)
    truth = 2 + 0.5 * torch.randn(count, generator=source)
    x = torch.linspace(0.3, 1, _POINTS).unsqueeze(1)
    y = x * truth + _NOISE * torch.randn(_POINTS, count, generator=source)
    new = truth + _NOISE * torch.randn(count, generator=source)  # at x = 1
    model, likelihood = _model(count, family), tb.Gaussian(_NOISE)
    elbo = tb.ELBO(likelihood, data_size=_POINTS, kl_weight=1.0)
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.05, scale_lr=0.05))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    tb.fit(model, elbo, [(x, y)], optimizer, epochs=steps, scheduler=scheduler, generator=2, progress=False)
    pred = tb.predict(model, torch.ones(1, 1), _SAMPLES, likelihood=likelihood, seed=3, progress=False)
    share = (_SAMPLES - 1) / (_SAMPLES + 1)  # between ranks of samples, an interval holds a little less
    found = {}
    for level in LEVELS:
        found[f"function, {level:g}"] = judged(pred.interval(level), truth, share * level)
        found[f"observation, {level:g}"] = judged(pred.observation_interval(level), new, level)
    return found


def _model(count: int, family: str) -> nn.Module:
    if family == "tridiagonal":
        return tb.to_bayesian(Separate(count), tau=0.1, prior=tb.Prior(loc=2.0, scale=0.5))
    layer = nn.Linear(1, count, bias=False)
    nn.init.constant_(layer.weight, 2.0)
    return tb.to_bayesian(layer, tau=0.1, family=family, prior=tb.Prior(loc=2.0, scale=0.5))


def judged(interval: tuple[Tensor, Tensor], value: Tensor, expected: float) -> dict[str, float]:
    """How many values lie inside, of how many, and the p-value of that count."""
    lower, upper = (bound.flatten() for bound in interval)
    held = int(((lower <= value) & (value <= upper)).sum())
    return {"expected": expected, "held": held, "of": len(value), "p": _binomial(held, len(value), expected)}


def _binomial(held: int, count: int, chance: float) -> float:
    law = stats.binom(count, chance)
    return float(min(1.0, 2 * min(law.sf(held - 1), law.cdf(held))))


def conformal(count: int, steps: int) -> Counted:
    """An overconfident network, learned once, and `count` times 99 held-out rows and one new row.

    The guarantee is at least the level; without ties it is ⌈100 p⌉/100.
    """
    source = torch.Generator().manual_seed(4)
    torch.manual_seed(5)
    model = tb.to_bayesian(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)))
    likelihood = tb.Gaussian(0.02)  # a fifth to a fiftieth of the noise there is
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.02))
    elbo, data = tb.ELBO(likelihood, data_size=40), _rows(40, source)
    tb.fit(model, elbo, [data], optimizer, epochs=steps, generator=6, progress=False)
    counts = {f"{way}, {level:g}": 0 for way in ("as trained", "conformal") for level in LEVELS}
    for repetition in range(count):
        x, y = _rows(100, source)
        known, new = (
            tb.predict(model, part, 20, likelihood=likelihood, seed=repetition, progress=False)
            for part in (x[:99], x[99:])
        )
        guaranteed = tb.conformalise(known, y[:99])
        for level in LEVELS:
            counts[f"as trained, {level:g}"] += _inside(new.observation_interval(level), y[99])
            counts[f"conformal, {level:g}"] += _inside(guaranteed.intervals(new, level), y[99])
    found = {}
    for name, held_count in counts.items():
        level = float(name.split(", ")[1])
        expected = math.ceil(100 * level - 1e-9) / 100
        found[name] = {
            "expected": expected,
            "held": held_count,
            "of": count,
            "p": _binomial(held_count, count, expected),
        }
    return found


def _rows(count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """A sine whose noise grows."""
    x = 2 * torch.rand(count, 1, generator=source) - 1
    return x, torch.sin(3 * x) + (0.1 + 0.4 * x.abs()) * torch.randn(count, 1, generator=source)


def _inside(interval: tuple[Tensor, Tensor], value: Tensor) -> int:
    lower, upper = interval
    return int(bool((lower <= value).all() and (value <= upper).all()))
