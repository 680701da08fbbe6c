"""Mixtures over networks, (1/S) Σ_s p(y | what network s said): their quantiles and densities, for every `Noise`."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes.inference.noise import Noise, NoiseLaw

_BISECTIONS = 60  # halves a bracket down to float64 rounding
_REACH = 10  # deviations beyond the networks where a bracket begins: a normal is within them but for 1e-23
_DOUBLINGS = 1000  # of a bracket that does not hold the quantile yet: heavy tails; float64 ends before


def mixture_quantile(noise: Noise, said: Tensor, probability: float) -> Tensor:
    """(N, D), float64: where the mixture's distribution function reaches `probability`, by bisection.

    For whole numbers it is the smallest at which it is reached.

    >>> from tribayes.inference.noise import PoissonNoise
    >>> mixture_quantile(PoissonNoise(), torch.tensor([[[2.0]], [[4.0]]]), 0.5)
    tensor([[3.]], dtype=torch.float64)
    """
    law = noise.law(said.double())
    try:
        low, high = _bracket(law, probability, noise.whole)
    except NotImplementedError as error:  # as some of torch's distributions have it, without a word
        remedy = "let its law be a class of your own that adds what torch's distribution lacks"
        raise refusal("noise", noise, "have a law with `cdf`, `mean` and `stddev`, for intervals", remedy) from error
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        middle = middle.floor() if noise.whole else middle
        below = law.cdf(middle).mean(0) < probability
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return high if noise.whole else (low + high) / 2


def _bracket(law: NoiseLaw, probability: float, whole: bool) -> tuple[Tensor, Tensor]:
    """Two places, (N, D) each, that have the quantile between them; of counts both are whole."""
    reach = law.stddev * _REACH
    high = (law.mean + reach).amax(0)
    if whole:
        return torch.full_like(high, -1.0), _beyond(law, probability, high.ceil() + 1, reach.amax(0).ceil() + 1)
    low = (law.mean - reach).amin(0)
    return _beyond(law, probability, low, -reach.amax(0)), _beyond(law, probability, high, reach.amax(0))


def _beyond(law: NoiseLaw, probability: float, place: Tensor, step: Tensor) -> Tensor:
    """A place moved outwards, each step twice the last, until the quantile is on its inner side."""
    for _ in range(_DOUBLINGS):
        reached = law.cdf(place).mean(0)
        short = torch.where(step < 0, reached > probability, reached < probability)
        if not bool(short.any()):
            break
        place, step = torch.where(short, place + step, place), step * 2
    return place


def mixture_log_density(noise: Noise, said: Tensor, targets: Tensor) -> Tensor:
    """(N,): ln (1/S) Σ_s p(y | said by s), for values (N, D), whose noises are independent given what was said.

    >>> from tribayes.inference.noise import NormalNoise
    >>> mixture_log_density(NormalNoise(1.0), torch.zeros(3, 1, 1), torch.zeros(1, 1))  # −½ ln 2π
    tensor([-0.9189])
    """
    return noise.law(said).log_prob(targets).sum(-1).logsumexp(0) - math.log(len(said))
