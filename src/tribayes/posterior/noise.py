"""Where randomness enters: standard normals from torch's own generator, a given one, or a seed."""

from __future__ import annotations

import torch
from torch import Tensor

from tribayes._errors import wrong_type

Randomness = torch.Generator | int | None


def generator_of(randomness: Randomness, device: torch.device) -> torch.Generator | None:
    """A generator on `device` for a seed; a generator as it is; None for torch's global one."""
    if randomness is None or isinstance(randomness, torch.Generator):
        return randomness
    if isinstance(randomness, bool) or not isinstance(randomness, int):
        raise wrong_type(
            "generator",
            randomness,
            "be a torch.Generator, an integer seed or None",
            "pass e.g. generator=0 or generator=torch.Generator(device).manual_seed(0)",
        )
    return torch.Generator(device).manual_seed(randomness)


def standard_normals(shape: torch.Size, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Independent N(0, 1) of the given shape, with the dtype and on the device of `like`."""
    return torch.randn(shape, dtype=like.dtype, device=like.device, generator=generator)
