"""Draws whose places are beyond 32 bits: their last numbers are those of draws by themselves, and of the generator."""

from __future__ import annotations

import math

import pytest
import torch

from tribayes.posterior.counter import philox
from tribayes.posterior.draw import cuda
from tribayes.posterior.draw.layout import normals_of
from tribayes.posterior.parametrisation import SMALLEST_MEAN, rule_of

ONE = math.log(math.e - 1)  # δ of τ = 1


def needs(gibibytes: float) -> None:
    free, _ = torch.cuda.mem_get_info()
    if free < gibibytes * 2**30:
        pytest.skip(f"needs {gibibytes} GiB of free memory on the GPU")


def test_many_draws_of_many_weights_end_with_the_right_one() -> None:
    """33 draws of 2^26 weights begin beyond 2^31, forwards and backwards."""
    needs(20)
    count, mean = 33, torch.randn(2**26, device="cuda")
    delta, gamma = (torch.tensor([value], device="cuda") for value in (0.3, 0.5))
    seeds = torch.arange(count, device="cuda")
    (drawn,), _ = cuda.draw([mean], delta, gamma, seeds, count)
    for number in (0, count - 2, count - 1):
        (alone,), _ = cuda.draw([mean], delta, gamma, seeds[number : number + 1])
        assert torch.equal(drawn[number], alone)
    leaf, only = mean.clone().requires_grad_(), mean.clone().requires_grad_()
    (drawn,), _ = cuda.draw([leaf], delta, gamma, seeds, count)
    drawn[-1].sum().backward()
    cuda.draw([only], delta, gamma, seeds[-1:])[0][0].sum().backward()
    torch.testing.assert_close(leaf.grad, only.grad)


def test_the_last_weights_of_a_billion_and_of_two() -> None:
    """With m = 1, τ = 1 and ρ = 0 a weight is 1 + x_i, and x_i is what the generator has at its number."""
    needs(20)
    for count in (10**9, 2**31 + 4096 + 7):
        means, delta, gamma = [torch.ones(count, device="cuda")], torch.full((1,), ONE), torch.zeros(1)
        (drawn,), _ = cuda.draw(means, delta.cuda(), gamma.cuda(), torch.tensor([5], device="cuda"))
        first = normals_of(means) - 4 - -(-count // 4) * 4  # the number of the tensor's first normal
        numbers = torch.arange(first + count - 1000, first + count)
        left, right = (word.double() / 2**32 for word in philox(torch.tensor(5), numbers // 2))
        radius, angle = (-2 * (left + 2**-33).log()).sqrt(), 2 * math.pi * (right - 0.5)
        expected = 1 + radius * torch.where(numbers % 2 == 0, angle.cos(), angle.sin())
        torch.testing.assert_close(drawn[-1000:].cpu().double(), expected, rtol=0, atol=2e-5)
        del drawn, means


def test_guards_reach_every_mean_of_a_tensor_beyond_32_bits() -> None:
    needs(10)
    mean, delta = torch.zeros(2**31 + 4096 + 7, device="cuda"), torch.zeros(1, device="cuda")
    cuda.guard_([mean], delta, delta.clone(), rule_of("closed_form"))
    assert float(mean.min()) == pytest.approx(SMALLEST_MEAN)


def test_very_many_draws_of_few_weights() -> None:
    """A grid has 65,535 rows at most."""
    mean, delta = torch.randn(5, device="cuda"), torch.zeros(1, device="cuda")
    seeds = torch.arange(70_000, device="cuda")
    (drawn,), _ = cuda.draw([mean], delta, delta, seeds, len(seeds))
    (alone,), _ = cuda.draw([mean], delta, delta, seeds[-1:])
    assert torch.equal(drawn[-1], alone)
