# mypy: ignore-errors
"""The kernels against plain torch from the twin of their generator, and their arithmetic beyond 32 bits."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.statistics.normals import battery
from tribayes.posterior import Stream
from tribayes.posterior.counter import philox
from tribayes.posterior.draw import cuda, plain
from tribayes.posterior.draw.layout import BLOCK, layout_of
from tribayes.posterior.prior import TensorPrior

ONE = math.log(math.e - 1)  # δ of τ = 1


def twin(seed: int, first: int, count: int) -> Tensor:
    """The kernels' normals number `first` to `first + count − 1` of a seed, in float64."""
    counters = torch.arange(first // 2, (first + count) // 2 + 1)
    left, right = (word.double() / 2**32 for word in philox(torch.tensor(seed), counters))
    radius, angle = (-2 * (left + 2**-33).log()).sqrt(), 2 * math.pi * (right - 0.5)
    pairs = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1).flatten()
    return pairs[first % 2 : first % 2 + count]


@pytest.mark.parametrize("seed", [0, 2**61 + 12345, Stream((3,)).number % 2**62])
def test_a_draw_is_the_formula_with_the_normals_of_the_twin(seed: int) -> None:
    means = [torch.randn(50, 3), torch.randn(7), torch.randn(2 * BLOCK + 3)]
    delta, gamma = torch.tensor([-1.0, 0.3, 0.0]), torch.tensor([-2.0, 0.5, 9.0])
    drawn, _ = cuda.draw(means, delta, gamma, torch.tensor([5, seed]), 2)
    rows, first = [], 4  # a gap of four normals before every tensor
    for mean in means:
        rows.append(twin(seed, first - 1, mean.numel() + 1))
        first += -(-mean.numel() // 4) * 4 + 4
    exact = plain.weights_from([mean.double() for mean in means], delta.double(), gamma.double(), rows)
    for got, expected in zip(drawn, exact, strict=True):
        torch.testing.assert_close(got[1].double(), expected, rtol=1e-5, atol=1e-5)


def test_the_draws_pass_the_battery_of_the_others() -> None:
    """Failure rate as tests/statistics/normals.py says, of each of its tests."""
    ones = torch.ones(2**18)
    seed = torch.tensor([Stream((1, 2)).number % 2**62])
    drawn, _ = cuda.draw([ones], torch.tensor([ONE]), torch.zeros(1), seed, 1)
    found = battery(drawn[0].flatten().double() - 1)
    assert min(found.values()) > 1e-6, found


def test_places_beyond_32_bits_of_a_stack_of_draws() -> None:
    """33 draws of 2^26 weights begin beyond 2^31. Only what is written takes memory here."""
    from tribayes.posterior.draw import kernels, launch

    mean, delta, gamma, stride = torch.randn(7), torch.tensor([0.3]), torch.tensor([0.5]), 2**30
    layout, seeds = layout_of([mean], torch.float32), torch.tensor([5, 6, 7])
    out, options = torch.empty(3 * stride, dtype=torch.float16), launch._options(layout, [], [])
    grid = (layout.blocks, 3)
    kernels.forward_kernel[grid](layout.table, delta, gamma, seeds, out, stride, layout.table, out, **options)
    for number in range(3):
        expected = cuda.draw([mean], delta, gamma, seeds[number : number + 1])[0][0]
        torch.testing.assert_close(out[number * stride :][:7].float(), expected, rtol=2e-3, atol=1e-6)
        out[number * stride :][:7] = float(number == 2)  # now gradients
    by_mean, sums = torch.zeros(8), torch.zeros(1, 2)
    scalars = (layout.table, torch.zeros(()), by_mean, sums, 3)
    kernels.backward_kernel[(1,)](layout.table, delta, gamma, seeds, out, stride, *scalars, **options)
    leaf = mean.clone().requires_grad_()
    cuda.draw([leaf], delta, gamma, seeds[2:])[0][0].sum().backward()
    torch.testing.assert_close(by_mean[:7], leaf.grad)


def test_the_first_block_of_a_tensor_of_more_than_two_billion() -> None:
    """Its sums count all of its entries, although those behind it are beyond 32 bits."""
    from tribayes.posterior.draw import kernels, launch

    mean, prior = torch.randn(BLOCK), TensorPrior(torch.tensor(0.0), torch.tensor(1.0))
    layout, delta, gamma = layout_of([mean], torch.float32), torch.tensor([0.3]), torch.tensor([0.5])
    table = layout.table.clone()
    table[0, 2] = 2**31 + BLOCK
    out, sums, wide = torch.empty(BLOCK), torch.zeros(1, 2), torch.zeros(1, 2)
    options = launch._options(layout, [prior.loc], [prior.scale])
    known = launch.prior_table([prior.loc], [prior.scale])
    for lines, found in ((layout.table, sums), (table, wide)):
        seeds = torch.tensor([5])
        kernels.forward_kernel[(1, 1)](lines, delta, gamma, seeds, out, 0, known, found, **options)
    assert sums.abs().min() > 1
    assert torch.equal(sums, wide)


def test_very_many_draws_are_launched_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    mean, seeds = torch.randn(5), torch.arange(7)
    whole, _ = cuda.draw([mean], torch.zeros(1), torch.zeros(1), seeds, 7)
    monkeypatch.setattr("tribayes.posterior.draw.launch._DRAWS", 3)
    parts, _ = cuda.draw([mean], torch.zeros(1), torch.zeros(1), seeds, 7)
    assert torch.equal(whole[0], parts[0])


def test_coins_for_more_means_than_there_are_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from tribayes.posterior.parametrisation import rule_of

    monkeypatch.setattr("tribayes.posterior.draw.launch._COINS", 10)
    means, delta = [torch.randn(50)], torch.zeros(1)
    cuda.guard_(means, delta, delta.clone(), rule_of("closed_form"))
    text = r'^`model` \(=52\) must have at most 2 billion random weights .*; use rule="closed_form"\.$'
    with pytest.raises(ValueError, match=text):
        cuda.guard_(means, delta, delta.clone(), rule_of("paper"), 0)
