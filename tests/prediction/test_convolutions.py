"""Convolutions in another form: the same numbers, only where something is compiled for a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product

import pytest
import torch
from torch import nn

import tribayes as tb
from tests.prediction.models import predict
from tribayes.prediction import convolutions
from tribayes.prediction.convolutions import Sizes, by_filling_up, by_windows, for_tensor_cores

SIZES = list(product((1, 2, (2, 1)), (0, 1, (2, 0)), (1, 2, (1, 2))))  # stride, padding, dilation


@pytest.mark.parametrize("form", [by_windows, by_filling_up])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("stride", "padding", "dilation"), SIZES)
def test_every_form_is_the_convolution(
    form: Callable[..., torch.Tensor], with_bias: bool, stride: Sizes, padding: Sizes, dilation: Sizes
) -> None:
    source = torch.Generator().manual_seed(0)
    images = torch.randn(2, 3, 11, 12, dtype=torch.float64, generator=source)
    weight = torch.randn(5, 3, 3, 2, dtype=torch.float64, generator=source)
    bias = torch.randn(5, dtype=torch.float64, generator=source) if with_bias else None
    expected = torch.conv2d(images, weight, bias, stride, padding, dilation)
    torch.testing.assert_close(form(images, weight, bias, stride, padding, dilation), expected, rtol=0, atol=1e-12)


def test_a_network_as_it_is_meets_no_mode() -> None:
    assert isinstance(for_tensor_cores(nn.Sequential(nn.Linear(2, 2))), nullcontext)


@pytest.mark.parametrize("way", ["whole", "part", "in place"])
def test_compiled_networks_are_recognised(way: str) -> None:
    network = nn.Sequential(nn.Linear(2, 2))
    if way == "in place":
        network.compile()
    else:
        network = torch.compile(network) if way == "whole" else nn.Sequential(torch.compile(network))
    assert for_tensor_cores(network) is convolutions._MODE


def small_network() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 5, 3), nn.ReLU(), nn.Conv2d(5, 20, 4), nn.ReLU(), nn.Conv2d(20, 3, 3), nn.Flatten()]
    return tb.to_bayesian(nn.Sequential(*layers, nn.Linear(12, 4))).double().eval()


class Traced:
    """A backend that runs a graph as it is, and keeps its code."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    def __call__(self, graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        self.codes.append(graph.code)
        return graph.forward

    def filled_up(self) -> int:
        """How many convolutions of the last graph were."""
        return len(re.findall(r"wider(_\d+)? = torch", self.codes[-1]))


@pytest.mark.parametrize(("half", "cut", "remaining"), [(True, 1, 2), (False, 0, 3)])
def test_a_compiled_network_takes_the_forms_says_the_same_and_is_traced_once(
    monkeypatch: pytest.MonkeyPatch, half: bool, cut: int, remaining: int
) -> None:
    torch._dynamo.reset()
    monkeypatch.setattr(convolutions, "_on_a_gpu", lambda _: True)
    monkeypatch.setattr(convolutions, "_in_half", lambda _: half)
    model, images = small_network(), torch.rand(6, 1, 9, 9, dtype=torch.float64)
    expected = predict(model, images, 4).samples
    traced = Traced()
    compiled = torch.compile(model, backend=traced, dynamic=False)
    torch.testing.assert_close(predict(compiled, images, 4).samples, expected, rtol=0, atol=1e-12)
    predict(compiled, images, 4, seed=1)
    assert len(traced.codes) == 2  # at the means, and under a draw
    assert traced.codes[-1].count(".unfold(") == 2 * cut
    assert traced.codes[-1].count("torch.conv2d(") == remaining
    assert traced.filled_up() == 2  # 5 → 20 and 20 → 3 channels, but not 1 → 5


@pytest.mark.parametrize(("groups", "filled_up"), [(1, 1), (2, 0)])
def test_groups_keep_their_convolution(monkeypatch: pytest.MonkeyPatch, groups: int, filled_up: int) -> None:
    torch._dynamo.reset()
    monkeypatch.setattr(convolutions, "_on_a_gpu", lambda _: True)
    traced = Traced()
    convolution = nn.Sequential(nn.Conv2d(20, 20, 3, groups=groups), nn.Flatten())
    predict(torch.compile(tb.to_bayesian(convolution), backend=traced), torch.rand(4, 20, 5, 5), 2)
    assert traced.filled_up() == filled_up


def test_what_is_not_compiled_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "_on_a_gpu", lambda _: True)

    def never(*_: object) -> torch.Tensor:
        raise AssertionError("rewritten, though nobody compiles it")

    monkeypatch.setattr(convolutions, "by_filling_up", never)
    last = torch.compile(nn.Linear(20 * 9, 3), backend="eager")
    model = tb.to_bayesian(nn.Sequential(nn.Conv2d(9, 20, 3), nn.Flatten(), last), where="0.*")
    assert predict(model, torch.rand(4, 9, 5, 5), 2).samples.shape == (2, 4, 3)


def test_half_precision_is_that_of_the_weights_or_of_autocast() -> None:
    assert [convolutions._in_half(torch.zeros(1, dtype=dtype)) for dtype in (torch.float32, torch.bfloat16)] == [0, 1]
    with torch.autocast("cpu", torch.bfloat16):
        assert convolutions._in_half(torch.zeros(1))


def test_on_a_cpu_a_compiled_network_keeps_its_convolutions() -> None:
    torch._dynamo.reset()
    model, images = small_network(), torch.rand(6, 1, 9, 9, dtype=torch.float64)
    compiled = torch.compile(model, backend="eager", dynamic=False)
    assert torch.equal(predict(compiled, images, 4).samples, predict(model, images, 4).samples)
