"""Normals by counting: Philox's integers, the law of a standard normal, one stream per seed."""

from __future__ import annotations

import pytest
import torch

from tribayes.posterior import FactorisedNormal
from tribayes.posterior.counter import CountedNormals, philox

LIKE = torch.zeros(1)


def normals(seed: int, count: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return CountedNormals(torch.tensor(seed)).normals(torch.Size((count,)), LIKE.to(dtype))


def written(seed: int, left: int) -> list[int]:
    """Philox2x32 with 7 rounds as its authors write it, in Python's integers."""
    key, right = seed % 2**32, (seed >> 32) % 2**32
    for _ in range(7):
        high, low = divmod(left * 0xD256D193, 2**32)
        left, right = high ^ key ^ right, low
        key = (key + 0x9E3779B9) % 2**32
    return [left, right]


@pytest.mark.parametrize("seed", [0, 5, 2**61 + 12345, 2**63 - 1, -1, -(2**63)])
def test_the_integers_are_philox_s(seed: int) -> None:
    counters = torch.tensor([0, 1, 2, 77, 2**31, 2**32 - 1])
    found = torch.stack(philox(torch.tensor(seed), counters), dim=1)
    assert found.tolist() == [written(seed, counter) for counter in counters.tolist()]


def test_the_known_answer_of_its_authors() -> None:
    assert torch.stack(philox(torch.tensor(0), torch.tensor([0])), 1).tolist() == [[0x257A3673, 0xCD26BE2A]]


def test_the_law_is_a_standard_normal_s() -> None:
    # 1,000,000 of them: the Kolmogorov-Smirnov distance is over 2.2 / 1000 with probability 2 exp(-2 · 2.2²) = 1.2e-4;
    # correlation of neighbours and of the two of a pair over 5 / √n with probability 6e-7 each
    x = normals(7, 1_000_000)
    steps = torch.arange(1, len(x) + 1) / len(x)
    assert (torch.special.ndtr(x.sort().values) - steps).abs().max() < 2.2e-3
    half = len(x) // 2
    assert abs(float((x[1:] * x[:-1]).mean())) < 5 / len(x) ** 0.5
    assert abs(float((x[:half] * x[half:]).mean())) < 5 / half**0.5


def test_seeds_differ_in_all_their_bits() -> None:
    # 4,096 pairs of streams: a correlation over 0.1 is 6.4 standard errors
    streams = torch.stack([normals(seed, 4096) for seed in (0, 1, 2, 2**32, 2**32 + 1, 2**62, -1)])
    correlation = streams @ streams.T / 4096 - torch.eye(len(streams), dtype=torch.float64)
    assert correlation.fill_diagonal_(0).abs().max() < 0.1


def test_a_stream_goes_on_and_is_begun_anew() -> None:
    source = CountedNormals(torch.tensor(3))
    first, second = (source.normals(torch.Size((2, 5)), LIKE) for _ in range(2))
    assert first.shape == (2, 5)
    assert not torch.isin(first, second).any()
    assert torch.equal(first, CountedNormals(torch.tensor(3)).normals(torch.Size((2, 5)), LIKE))


def test_a_block_is_made_at_once_and_given_out_in_parts() -> None:
    source = CountedNormals(torch.tensor(3), block=10)
    parts = [source.normals(torch.Size((count,)), LIKE) for count in (4, 6, 12)]
    whole = CountedNormals(torch.tensor(3))
    assert torch.equal(torch.cat(parts[:2]), whole.normals(torch.Size((10,)), LIKE))
    assert torch.equal(parts[2], whole.normals(torch.Size((12,)), LIKE))


def test_dtypes() -> None:
    assert normals(0, 3, torch.bfloat16).dtype == torch.float32
    torch.testing.assert_close(normals(0, 1001, torch.float32).double(), normals(0, 1001), rtol=0, atol=1e-5)


def test_a_law_takes_it_for_a_generator() -> None:
    law = FactorisedNormal(torch.zeros(6), torch.ones(6))
    drawn = law.rsample((2,), CountedNormals(torch.tensor(1)))
    assert torch.equal(drawn, CountedNormals(torch.tensor(1)).normals(torch.Size((2, 6)), LIKE))


@pytest.mark.parametrize("seed", [torch.tensor(1.0), torch.tensor([1, 2]), torch.tensor(1, dtype=torch.int32)])
def test_a_seed_is_one_number(seed: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"`seed` .* must be one number in an int64 tensor; pass e.g."):
        CountedNormals(seed)
