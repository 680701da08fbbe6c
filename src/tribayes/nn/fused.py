"""A module's weights by the fused draw: its means, raw parameters and priors handed to one operation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes.posterior.family import Family
from tribayes.posterior.fused import operation
from tribayes.posterior.fused.layout import channels_last
from tribayes.posterior.guards import rule_of
from tribayes.posterior.noise import Randomness, generator_of
from tribayes.posterior.prior import TensorPrior

if TYPE_CHECKING:
    from tribayes.nn.module import BayesianModule

SAMPLERS = ("torch", "fused")
_SEEDS = 2**62
_WEYL = 0x9E3779B97F4A7C15  # odd: the draws of one seed have seeds of their own, as many as there are


def check_sampler(sampler: str, family: Family) -> None:
    """Refuse a word that is none, and the fused draw for a family it does not know."""
    if sampler not in SAMPLERS:
        raise refusal("sampler", sampler, f"be one of {list(SAMPLERS)}", "correct the word")
    if sampler == "fused" and family.raw_pair() is None:
        raise refusal(
            "sampler",
            sampler,
            f'be "torch" for the family {type(family).__name__}: the fused draw is made for the tridiagonal and the '
            "diagonal law",
            'leave it at "torch"',
        )


def fused_draw(
    module: BayesianModule, n: int, generator: Randomness, with_kl: bool
) -> tuple[dict[str, Tensor], Tensor]:
    """n draws of every random tensor, stacked, and KL(q ‖ p) where it is asked for (else 0)."""
    _, mean = next(module.means())
    return _drawn(module, _seeds(n, mean.device, generator), with_kl)


def fused_draw_from(module: BayesianModule, seed: Tensor) -> dict[str, Tensor]:
    """The draw of a seed that is on the device, in a tensor (1,): what a CUDA graph can replay for other seeds."""
    drawn, _ = _drawn(module, seed, with_kl=False)
    return {name: value.squeeze(0) for name, value in drawn.items()}


def _drawn(module: BayesianModule, seeds: Tensor, with_kl: bool) -> tuple[dict[str, Tensor], Tensor]:
    names, means = zip(*module.means(), strict=True)
    delta, gamma = _checked(means, module.family)
    priors = list(cast(Iterable[TensorPrior], module.priors)) if with_kl else []
    prior = [prior.loc for prior in priors], [prior.scale for prior in priors]
    drawn, divergence = operation.draw(means, delta, gamma, seeds, _draw_dtype(delta.device), prior)
    return dict(zip(names, drawn, strict=True)), divergence


def fused_guard_(module: BayesianModule, rule: str, generator: Randomness) -> None:
    """The guards (guards.py) for all tensors at once."""
    means = [mean for _, mean in module.means()]
    delta, _ = _checked(tuple(means), module.family)
    gamma = next(iter(module.family.correlation_parameters()), None)
    thrown = rule_of(rule).coin_for_sign
    seed = _seeds(1, delta.device, generator) if thrown else torch.empty(1, dtype=torch.int64, device=delta.device)
    operation.guard_(means, delta, gamma, seed, rule)


def counter_seed(seed: int, draw: int = 0) -> int:
    """What the kernels take for a draw of an integer seed."""
    return (seed + draw * _WEYL) % _SEEDS


def _seeds(n: int, device: torch.device, generator: Randomness) -> Tensor:
    """A seed for each of n draws: of a generator, or following from an integer without one and without a wait."""
    if isinstance(generator, int) and not isinstance(generator, bool):
        return torch.tensor([counter_seed(generator, draw) for draw in range(n)]).to(device, non_blocking=True)
    return torch.randint(_SEEDS, (n,), device=device, generator=generator_of(generator, device))


def _draw_dtype(device: torch.device) -> torch.dtype:
    """Under autocast the draws come in its dtype: nothing is left to cast."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else torch.float32


def _checked(means: tuple[Tensor, ...], family: Family) -> tuple[Tensor, Tensor]:
    pair = family.raw_pair()
    assert pair is not None  # the sampler was refused otherwise
    device = pair[0].device
    for mean in means:
        if mean.dtype != torch.float32 or mean.device != device:
            raise refusal(
                "sampler",
                "fused",
                f"have float32 means on one device, but one is {mean.dtype} on {mean.device}",
                'move the model, or set model.sampler = "torch"',
            )
        if not (mean.is_contiguous() or channels_last(mean)):
            raise refusal(
                "sampler",
                "fused",
                f"have means in row-major or channels_last memory, but one has the strides {mean.stride()}",
                'make it contiguous, or set model.sampler = "torch"',
            )
    return pair
