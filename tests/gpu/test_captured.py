"""A captured training step is the plain one: same draws, same weights, step by step."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.compiling import draws_are_compiled

Parts = tuple[tb.BayesianModule, tb.ELBO, torch.optim.Optimizer]


def parts(sampler: str, family: str = "tridiagonal") -> Parts:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 9, 10))
    model = tb.to_bayesian(net, sampler=sampler, family=family).cuda()
    elbo = tb.ELBO(tb.Categorical(), data_size=1000, kl_weight=0.1)
    return model, elbo, torch.optim.SGD(tb.parameter_groups(model, lr=0.02), momentum=0.9)


def batches(count: int) -> list[tuple[Tensor, Tensor]]:
    source = torch.Generator().manual_seed(3)
    images = torch.randn(count, 16, 1, 8, 8, generator=source).cuda()
    labels = torch.randint(0, 10, (count, 16), generator=source).cuda()
    return list(zip(images, labels, strict=True))


@pytest.mark.parametrize(
    ("sampler", "family"), [("torch", "tridiagonal"), ("fused", "tridiagonal"), ("torch", "mean_field")]
)
def test_two_hundred_captured_steps_are_the_plain_ones(sampler: str, family: str) -> None:
    check_steps(parts(sampler, family), parts(sampler, family))


@draws_are_compiled
def test_a_compiled_model_is_captured_too() -> None:
    torch._dynamo.reset()
    captured, plain = (
        (torch.compile(model, dynamic=False), elbo, optimizer)
        for model, elbo, optimizer in (parts("fused"), parts("fused"))
    )
    check_steps(captured, plain)


def check_steps(captured: Parts, plain: Parts) -> None:
    torch.backends.cudnn.deterministic = True
    model, elbo, optimizer = captured
    step = tb.CapturedStep(model, elbo, optimizer)
    torch.manual_seed(5)
    losses = [step(x, y).loss.detach().clone() for x, y in batches(200)]
    assert step.captured
    torch.manual_seed(5)
    expected = [tb.training_step(plain[0], plain[1], x, y, plain[2]).loss.detach() for x, y in batches(200)]
    torch.testing.assert_close(torch.stack(losses), torch.stack(expected), rtol=1e-4, atol=1e-4)
    for a, b in zip(model.parameters(), plain[0].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_a_new_learning_rate_and_another_batch_size_are_taken_up() -> None:
    torch.backends.cudnn.deterministic = True
    captured, plain = parts("fused"), parts("fused")
    step = tb.CapturedStep(*captured)

    def run(number: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x[:5], y[:5]) if number == 12 else (x, y)

    for which, take in ((captured, step), (plain, None)):
        torch.manual_seed(5)
        for number, (x, y) in enumerate(batches(20)):
            for group in which[2].param_groups:
                group["lr"] = group["lr"] * (0.5 if number == 10 else 1.0)
            inputs, labels = run(number, x, y)
            if take is None:
                tb.training_step(which[0], which[1], inputs, labels, which[2])
            else:
                take(inputs, labels)
    for a, b in zip(captured[0].parameters(), plain[0].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
