"""A first-order linear recurrence in O(K) parallel work: the scan behind the density."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_BLOCK = 32


def first_order_filter(inputs: Tensor, coefficient: Tensor) -> Tensor:
    """Solve y_i = u_i + k y_{i−1} (y_0 = 0) along the last axis, for u of shape (..., K) and k of shape (...).

    Blocks of 32 are filtered by one product with the triangular matrix of powers of k; what each block hands
    to the next obeys the same recurrence with coefficient k³², on a sequence 32 times shorter.
    """
    size = inputs.shape[-1]
    blocks = F.pad(inputs, (0, -size % _BLOCK)).unflatten(-1, (-1, _BLOCK))  # (..., K/32, 32)
    outputs = blocks @ _powers_by_distance(coefficient)
    if blocks.shape[-2] > 1:
        ends = first_order_filter(outputs[..., -1], coefficient.pow(_BLOCK))
        carried = F.pad(ends[..., :-1], (1, 0)).unsqueeze(-1)  # (..., K/32, 1)
        outputs = outputs + carried * coefficient[..., None, None].pow(1 + _steps(coefficient))
    return outputs.flatten(-2)[..., :size]


def _powers_by_distance(coefficient: Tensor) -> Tensor:
    """(..., 32, 32): entry (j, i) is k^{i−j}, the share of input j in output i; zero where j > i."""
    steps = _steps(coefficient)
    distance = steps - steps.unsqueeze(-1)
    return coefficient[..., None, None].pow(distance.clamp(min=0)) * (distance >= 0)


def _steps(like: Tensor) -> Tensor:
    return torch.arange(_BLOCK, device=like.device, dtype=like.dtype)
