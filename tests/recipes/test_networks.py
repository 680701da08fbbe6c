"""The networks: Caffe's normalisation against its definition, shapes, and where weights start."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tribayes.recipes.networks import Cifar10Full, LeNet, SeededDropout, WithinChannelNorm


def by_definition(x: Tensor, alpha: float, beta: float) -> Tensor:
    """Entry by entry, with zeros beyond the border and a divisor of nine everywhere, as Caffe's pooling has it."""
    out = torch.empty_like(x)
    n, c, h, w = x.shape
    for i in range(n):
        for j in range(c):
            for row in range(h):
                for column in range(w):
                    window = x[i, j, max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
                    scale = 1 + alpha * window.square().sum() / 9
                    out[i, j, row, column] = x[i, j, row, column] * scale**-beta
    return out


def test_the_normalisation_is_the_definition_s() -> None:
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64) * 20
    norm = WithinChannelNorm(alpha=0.01, beta=0.75)
    torch.testing.assert_close(norm(x), by_definition(x, 0.01, 0.75), rtol=1e-12, atol=1e-12)


def test_its_gradient_is_right_and_its_vmap_the_loop() -> None:
    x = (torch.randn(2, 2, 3, 4, dtype=torch.float64) * 5).requires_grad_()
    norm = WithinChannelNorm(alpha=0.02, beta=0.75)
    assert torch.autograd.gradcheck(norm, x)
    stack = torch.stack([x.detach(), 2 * x.detach()])
    assert torch.equal(torch.func.vmap(norm)(stack), torch.stack([norm(one) for one in stack]))


def test_caffe_s_constants() -> None:
    norm = Cifar10Full().norm
    assert (norm.alpha, norm.beta) == (5e-5, 0.75)


@pytest.mark.parametrize(("hidden", "weights"), [(100, 106_680), (250, 228_330)])
def test_lenet_has_the_paper_s_size(hidden: int, weights: int) -> None:
    net = LeNet(hidden)
    assert sum(p.numel() for p in net.parameters()) == weights
    assert net(torch.randn(2, 1, 28, 28)).shape == (2, 10)


def test_pooling_rounds_up_in_cifar10_full() -> None:
    net = Cifar10Full()
    assert net.fc.in_features == 64 * 4 * 4  # 32 → 16 → 8 → 4
    assert net(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_weights_start_by_caffe_s_rules() -> None:
    torch.manual_seed(0)
    lenet, cifar = LeNet(), Cifar10Full()
    for layer, fan_in in ((lenet.conv1, 25), (lenet.conv2, 500), (lenet.fc1, 800), (lenet.fc2, 100)):
        bound = math.sqrt(3 / fan_in)
        assert 0.98 * bound < layer.weight.abs().max() <= bound
        assert (layer.bias == 0).all()
    for layer, std in ((cifar.conv1, 1e-4), (cifar.conv2, 0.01), (cifar.conv3, 0.01), (cifar.fc, 0.01)):
        assert layer.weight.std().item() == pytest.approx(std, rel=0.1)


def test_dropout_draws_from_its_own_generator_only() -> None:
    dropout = SeededDropout(0.5)
    dropout.generator = torch.Generator().manual_seed(1)
    state = torch.get_rng_state()
    out = dropout(torch.ones(10_000))
    assert torch.equal(torch.get_rng_state(), state)
    assert set(out.unique().tolist()) == {0.0, 2.0}
    # a share of survivors within ±5 standard errors: fails by chance with probability 6e-7
    assert abs(out.mean().item() - 1) < 5 / math.sqrt(10_000)
    dropout.eval()
    assert torch.equal(dropout(torch.ones(5)), torch.ones(5))
