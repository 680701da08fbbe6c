"""Correctness before timing: a fast wrong answer is not timed."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tribayes as tb
from benchmarks.learners import Learner
from tribayes.posterior.parametrisation import coefficient_of

_BOUND = 6.0  # standard errors; three statistics miss it by chance in fewer than one of 10⁸ runs
_TAU, _RHO = 0.3, -0.3


class Weights(nn.Module):
    """K numbers in one tensor or several, and nothing else: a network to draw."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(size) for size in sizes)

    def forward(self) -> list[Tensor]:
        return list(self.weights)


def weights_model(device: torch.device, *sizes: int) -> tb.BayesianModule:
    """Random weights on a device, in tensors of these sizes."""
    return tb.to_bayesian(Weights(*sizes), tau=_TAU, rho=_RHO).to(device)


def check_draw(device: torch.device) -> None:
    """Law and gradient of a small draw, or SystemExit."""
    model = weights_model(device, 1000)
    problem = _law_problem(model) or _gradient_problem(model)
    if problem:
        raise SystemExit(f"the draw by {model.sampler!r} on {device} is wrong ({problem}); nothing was timed")


@torch.no_grad()
def _law_problem(model: tb.BayesianModule) -> str | None:
    """Mean, variance and neighbour's correlation of standardised draws, each with its standard error."""
    draws = model.sample_weights(400, generator=7)["weights.0"].double()
    mean = model.module.weights[0].double()
    noise = (draws - mean) / (_TAU * mean.abs())
    products = noise[:, 1:] * noise[:, :-1]
    scores = {  # neighbours share noise, so their sums do not vary as those of independent numbers
        "mean": noise.mean() / math.sqrt((1 + 2 * _RHO) / noise.numel()),
        "variance": (noise.square().mean() - 1) / math.sqrt(2 * (1 + 2 * _RHO**2) / noise.numel()),
        "correlation": (products.mean() - _RHO) / math.sqrt((1 + 3 * _RHO**2) / products.numel()),
    }
    wrong = [f"{name}: {float(score):.1f} standard errors off" for name, score in scores.items() if abs(score) > _BOUND]
    return ", ".join(wrong) or None


def _gradient_problem(model: tb.BayesianModule) -> str | None:
    """∂L/∂m and ∂L/∂δ against their closed forms, ∂L/∂γ against the draw's derivative in the mixing coefficient."""
    mean = model.module.weights[0]
    (delta,), (gamma,) = model.family.scale_parameters(), model.family.correlation_parameters()
    draw = model.sample_weights(generator=11)["weights.0"]
    upstream = torch.randn_like(draw)
    got = torch.autograd.grad(draw, (mean, delta, gamma), upstream)
    noise = (draw - mean) / mean.abs()
    expected = (
        upstream * (1 + mean.sign() * noise),
        ((upstream * (draw - mean)).sum() * torch.sigmoid(delta) / F.softplus(delta)).reshape(delta.shape),
        _slope_in_gamma(model, gamma, upstream),
    )
    for name, ours, theirs in zip(("m", "δ", "γ"), got, expected, strict=True):
        error = float((ours - theirs.detach()).norm() / theirs.detach().norm())
        if not error < 1e-3:
            return f"∂L/∂{name} has a relative error of {error:.1e}"
    return None


@torch.no_grad()
def _slope_in_gamma(model: tb.BayesianModule, gamma: Tensor, upstream: Tensor) -> Tensor:
    """By draws of the same noise at two other values of γ, which the law combines linearly.

    A draw is m + |m| τ (x_k + t x_{k−1}) / √(1 + t²): two values of t give both parts, and with them the slope.
    """
    mean, here = model.module.weights[0], gamma.clone()
    parts = []
    for shift in (-1.0, 1.0):
        gamma.copy_(here + shift)
        t = coefficient_of(gamma).double()
        parts.append((t, (model.sample_weights(generator=11)["weights.0"] - mean).double() * torch.sqrt(1 + t * t)))
    gamma.copy_(here)
    (t1, first), (t2, second) = parts
    previous = (second - first) / (t2 - t1)
    current = first - t1 * previous
    t = coefficient_of(gamma).double()
    slope = (previous - t * current) / (1 + t * t) ** 1.5 * (1 - t * t) / 4  # dt/dγ = (1 − t²)/4
    return (upstream * slope).sum().reshape(gamma.shape).to(gamma)


def problem_of(learner: Learner, images: Tensor, labels: Tensor) -> str | None:
    """What is wrong with a contender: outputs, randomness, loss or gradient; None if nothing is."""
    with torch.no_grad():
        first, second = learner.outputs(images).float(), learner.outputs(images).float()
    shape = (len(images), learner.task.classes)
    if tuple(first.shape) != shape:
        return f"its outputs have the shape {tuple(first.shape)} instead of {shape}"
    if learner.random and torch.equal(first, second):
        return "two passes draw the same weights"
    loss = learner.loss(images, labels)
    loss.backward()
    gradients = [value.grad for value in learner.model.parameters() if value.grad is not None]
    learner.optimizer.zero_grad()
    if loss.ndim or not torch.isfinite(loss):
        return f"its loss is {loss.detach().tolist()}"
    if not gradients or not all(torch.isfinite(one).all() for one in gradients):
        return "its loss has no finite gradient"
    return None
