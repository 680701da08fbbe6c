"""A flat draw cut into tensors, as the kernels lay it out: every piece at its place, gaps left out, gradients whole."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tribayes.posterior.draw.cuda import unflatten
from tribayes.posterior.draw.layout import rooms


def tensors() -> list[Tensor]:
    """With gaps after some and none after others, of one number, in channels_last memory, at the end a gap."""
    image = torch.empty(2, 3, 2, 2).to(memory_format=torch.channels_last)
    return [torch.empty(3, 5), torch.empty(8), torch.empty(()), image, torch.empty(4, 4), torch.empty(7)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lead", [(), (1,), (3,)])
def test_each_tensor_gets_its_own_numbers(dtype: torch.dtype, lead: tuple[int, ...]) -> None:
    like = tensors()
    own = rooms(like, dtype)
    rows = torch.arange(sum(own), dtype=torch.float64).repeat(*lead, 1) if lead else torch.arange(sum(own)).double()
    rows.requires_grad_()
    pieces = unflatten(rows, like, dtype)
    begin = 0
    for piece, tensor, room in zip(pieces, like, own, strict=True):
        assert piece.shape == (*lead, *tensor.shape)
        assert piece[(0,) * len(lead)].stride() == tensor.stride()
        in_memory = torch.empty_like(tensor, dtype=torch.float64)
        in_memory.as_strided((tensor.numel(),), (1,)).copy_(torch.arange(begin, begin + tensor.numel()))
        assert torch.equal(piece[(0,) * len(lead)], in_memory)
        begin += room
    sum(piece.sum() for piece in pieces).backward()
    assert rows.grad.sum() == sum(tensor.numel() for tensor in like) * (lead[0] if lead else 1)  # nothing of the gaps


def test_one_tensor_without_a_gap_is_the_row_itself() -> None:
    rows = torch.arange(8.0)
    (piece,) = unflatten(rows, [torch.empty(2, 4)], torch.float32)
    assert piece.data_ptr() == rows.data_ptr()
    assert piece.shape == (2, 4)
