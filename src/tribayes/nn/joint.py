"""A module's draw and divergence together, on a CPU: its means, raw parameters, normals and priors handed over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from tribayes.posterior.draw import draw_raw
from tribayes.posterior.family import Family
from tribayes.posterior.joint import Given, can_join, joint_draw
from tribayes.posterior.noise import Randomness, generator_of, standard_normals
from tribayes.posterior.prior import TensorPrior

if TYPE_CHECKING:
    from tribayes.nn.module import BayesianModule


def joint_draw_of(module: BayesianModule, generator: Randomness) -> tuple[dict[str, Tensor], Tensor] | None:
    """Every weight, from the normals `sample_weights` would use, and KL(q ‖ p). None where that is not possible."""
    pair = module.family.raw_pair()
    names, means = zip(*module.means(), strict=True)
    flat = [mean.reshape(-1) for mean in means]
    if pair is None or not can_join(flat, *pair):
        return None
    delta, gamma = pair
    source = generator_of(generator, delta.device)
    normals = [_normals(mean, source, module.family) for mean in flat]
    priors = list(cast(Iterable[TensorPrior], module.priors))

    def plain(flat: Sequence[Tensor], delta: Tensor, gamma: Tensor) -> tuple[list[Tensor], Tensor]:
        raw = zip(flat, delta.unbind(), gamma.unbind(), normals, strict=True)
        distributions = [prior.distribution(delta.dtype) for prior in priors]
        return [draw_raw(mean, d, g, x) for mean, d, g, x in raw], module.family.divergence(flat, distributions)

    locs, scales = [prior.loc.to(delta.dtype) for prior in priors], [prior.scale.to(delta.dtype) for prior in priors]
    given = Given(normals, locs, scales, plain)
    drawn, divergence = joint_draw(flat, delta, gamma, given)
    shaped = {name: value.reshape(mean.shape) for name, value, mean in zip(names, drawn, means, strict=True)}
    return shaped, divergence


def _normals(mean: Tensor, source: torch.Generator | None, family: Family) -> Tensor:
    """x_0 … x_K. Without correlations x_0 counts for nothing and `sample_weights` draws none."""
    if family.correlated:
        return standard_normals(torch.Size([mean.numel() + 1]), mean, source)
    return nn.functional.pad(standard_normals(torch.Size([mean.numel()]), mean, source), (1, 0))
