# mypy: ignore-errors
"""The integers that the kernels make their normals of are Philox's."""

from __future__ import annotations

import pytest
import torch

triton = pytest.importorskip("triton", reason="needs Triton, which comes with torch for CUDA")

import triton.language as tl  # noqa: E402 - only where there is Triton

from tribayes.posterior.draw.kernels import philox as kernels_philox  # noqa: E402 - it imports Triton


@triton.jit
def words_kernel(seed_ptr, out_ptr, COUNT: tl.constexpr):
    counter = tl.arange(0, COUNT)
    left, right = kernels_philox(tl.load(seed_ptr), counter.to(tl.uint32))
    tl.store(out_ptr + 2 * counter, left.to(tl.int64))
    tl.store(out_ptr + 2 * counter + 1, right.to(tl.int64))


@pytest.mark.parametrize("seed", [0, 5, 2**61 + 12345])
def test_the_integers_are_philox_s(seed: int) -> None:
    found = torch.zeros(16, dtype=torch.int64, device="cuda")
    words_kernel[(1,)](torch.tensor([seed], device="cuda"), found, COUNT=8)
    assert found.view(8, 2).tolist() == [philox(seed, counter) for counter in range(8)]


def test_the_known_answer_of_its_authors() -> None:
    assert philox(0, 0) == [0x257A3673, 0xCD26BE2A]


def philox(seed: int, left: int) -> list[int]:
    """Philox2x32 with 7 rounds (Salmon et al. 2011), as written there."""
    key, right = seed % 2**32, seed >> 32
    for _ in range(7):
        high, low = divmod(left * 0xD256D193, 2**32)
        left, right = high ^ key ^ right, low
        key = (key + 0x9E3779B9) % 2**32
    return [left, right]
