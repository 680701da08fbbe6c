"""The study of steps for δ and γ: its closed forms, its gradients, its candidates."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from benchmarks.modern.figures import Difference
from benchmarks.scale_steps import study
from benchmarks.scale_steps.__main__ import main
from benchmarks.scale_steps.document import cell, difference_text, power
from benchmarks.scale_steps.fisher import (
    fisher,
    log_determinant_slopes,
    natural_gradient,
    natural_scale,
    spectral_fisher,
)
from benchmarks.scale_steps.problem import RHO, TAU, Chance, Problem, chance_of, problem_of, slopes_of
from benchmarks.scale_steps.rules import Arm, Means, Raw, all_arms
from benchmarks.scale_steps.study import Results, Unit, sizes_to, trained, units
from tribayes.posterior.correlation import correlate, log_determinant, mixing
from tribayes.posterior.parametrisation import delta_of, tau_of

CPU = torch.device("cpu")
NU = 1e-4


def double(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize("size", [2, 3, 10, 60])
@pytest.mark.parametrize("t", [-0.9, -0.3, 0.0, 0.1, 0.7, 0.95])
def test_the_fisher_information_is_that_of_the_dense_twin(size: int, t: float) -> None:
    tau, means = 0.3, torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).abs()

    def covariance(numbers: Tensor) -> Tensor:
        rho = numbers[1] / (1 + numbers[1] ** 2)
        beside = torch.diag(torch.ones(size - 1, dtype=torch.float64), 1)
        matrix = torch.eye(size, dtype=torch.float64) + rho * (beside + beside.T)
        return numbers[0] ** 2 * means.outer(means) * matrix

    at = torch.tensor([tau, t], dtype=torch.float64)
    slopes = torch.autograd.functional.jacobian(covariance, at).unbind(-1)
    parts = [torch.linalg.solve(covariance(at), slope) for slope in slopes]
    dense = torch.stack([0.5 * torch.trace(a @ b) for a in parts for b in parts]).view(2, 2)
    own, mixed, other = fisher(at[0], at[1], size)
    torch.testing.assert_close(torch.stack([own, mixed, mixed, other]).view(2, 2), dense, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(other, spectral_fisher(at[1], size), rtol=1e-8, atol=0)
    step = torch.stack(natural_gradient(at[0], at[1], size, double(0.4), double(-2.0)))
    torch.testing.assert_close(dense @ step, torch.tensor([0.4, -2.0], dtype=torch.float64), rtol=1e-7, atol=1e-7)
    if t == 0:
        torch.testing.assert_close(natural_scale(at[0], size, double(0.4)), step[0])


def test_the_fisher_information_of_a_large_tensor() -> None:
    t = torch.tensor([-0.987, -0.5, 1e-4, 0.987], dtype=torch.float64)
    _, _, other = fisher(double(0.3), t, 100_000)
    torch.testing.assert_close(other, spectral_fisher(t, 100_000), rtol=1e-8, atol=0)


def test_slopes_of_the_determinant() -> None:
    for size in (1, 7, 1000):
        t = double(-0.8).requires_grad_()
        (first,) = torch.autograd.grad(log_determinant(t, size), t, create_graph=True)
        (second,) = torch.autograd.grad(first, t)
        torch.testing.assert_close(torch.stack(log_determinant_slopes(t.detach(), size)), torch.stack([first, second]))


def mean_loss(problem: Problem, mean: Tensor, tau: Tensor, t: Tensor) -> Tensor:
    """The objective without noise, averaged over the draw, of the first seed."""
    rho, size = t / (1 + t**2), problem.size
    moved, a, h = mean - problem.best[0].double(), problem.coupling[0].double(), problem.height[0].double()
    variance = mean.square().sum() + 2 * a * rho * (mean[1:] * mean[:-1]).abs().sum()
    quadratic = moved.square().sum() + 2 * a * (moved[1:] * moved[:-1]).sum() + tau**2 * variance
    divergence = 0.5 * size * torch.log1p(1 / tau**2) - 0.5 * log_determinant(t, size)
    return (0.5 * h * quadratic - problem.pull[0].double() @ moved + problem.nu * divergence).sum()


@pytest.mark.parametrize("correlated", [False, True])
@pytest.mark.parametrize("size", [10, 1000])
def test_the_best_is_where_it_was_put(size: int, correlated: bool) -> None:
    """Found numerically from elsewhere; and the means have no reason to move there."""
    problem = problem_of(size, NU, correlated, 10.0, [0], CPU)
    best = problem.best[0].double()
    raw = torch.tensor([math.log(0.15), 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([raw], lr=0.3, max_iter=300, tolerance_grad=1e-12, tolerance_change=1e-14)

    def numbers() -> tuple[Tensor, Tensor]:
        return raw[0].exp(), torch.tanh(raw[1]) * correlated

    def closure() -> float:
        optimizer.zero_grad()
        loss = mean_loss(problem, best, *numbers()) / (NU * size)
        loss.backward()
        return loss.item()

    optimizer.step(closure)
    tau, t = (one.detach() for one in numbers())
    assert (tau.item(), (t / (1 + t**2)).item()) == pytest.approx((TAU, RHO if correlated else 0.0), abs=1e-4)
    mean = best.clone().requires_grad_()
    mean_loss(problem, mean, tau, t).backward()
    assert mean.grad is not None
    assert mean.grad.abs().max() < 1e-3 * problem.height[0] * best.abs().max()


@pytest.mark.parametrize("correlated", [False, True])
def test_gradients_are_autograds(correlated: bool) -> None:
    problem = problem_of(20, NU, correlated, 10.0, [0, 1], CPU)
    chance = chance_of(problem, torch.Generator().manual_seed(1))
    mean = (1.1 * problem.best).expand(3, 2, 20).clone().requires_grad_()
    tau = torch.rand(3, 2, dtype=torch.float64).add(0.1).requires_grad_()
    t = (torch.rand(3, 2, dtype=torch.float64) - 0.5).mul(correlated).requires_grad_()
    noise = correlate(chance.normals, *(one.float() for one in mixing(t, tau)))
    moved = mean + mean.abs() * noise - problem.best
    quadratic = moved.square().sum(-1) + 2 * problem.coupling[:, 0] * (moved[..., 1:] * moved[..., :-1]).sum(-1)
    fit = 0.5 * problem.height[:, 0] * quadratic - (problem.pull * moved).sum(-1)
    divergence = 10 * torch.log1p(1 / tau**2) - 0.5 * log_determinant(t, 20)
    loss = chance.factor[:, 0] * fit + (chance.noise * moved).sum(-1) + NU * divergence
    expected = torch.autograd.grad(loss.sum(), [mean, tau, t])
    found = slopes_of(problem, mean.detach(), tau.detach(), t.detach(), chance)
    for one, other in zip((found.mean, found.tau, found.t), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-8)


class Holder(nn.Module):
    """A tensor that stands for the weights."""

    def __init__(self, best: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(best.clone())


OPTIMIZERS = {
    "SGD": lambda groups, lr: torch.optim.SGD(groups, lr=lr, momentum=0.9),
    "Adam": lambda groups, lr: torch.optim.Adam(groups, lr=lr),
    "AdamW": lambda groups, lr: torch.optim.AdamW(groups, lr=lr),
}


@pytest.mark.parametrize(
    ("rule", "optimizer"),
    [("steady", "SGD"), ("paper", "SGD"), ("adam", "Adam"), ("paper", "Adam"), ("adam", "AdamW")],
)
def test_stacked_rules_are_the_librarys(rule: str, optimizer: str) -> None:
    """The same gradients given to `parameter_groups` and torch's optimizer."""
    problem = problem_of(10, NU, True, 10.0, [0], CPU)
    model = tb.to_bayesian(Holder(problem.best[0]), prior=tb.RelativePrior(), tau=0.05, family="tridiagonal").double()
    options = {"correlation_lr_multiplier": 50.0} if rule == "paper" else {}
    made = OPTIMIZERS[optimizer](tb.parameter_groups(model, 0.01, **options), 0.01)
    arms = [Arm(rule, optimizer, 0.01)]
    means = Means(arms, problem)
    raw = Raw(arms, problem, study.first_raw())
    source = torch.Generator().manual_seed(2)
    for number in range(1, 6):
        slopes = slopes_of(problem, means.values, *raw.tau_and_t(), chance_of(problem, source))
        chain = torch.sigmoid(raw.values[0]), (1 - raw.tau_and_t()[1] ** 2) / 4
        model.family.delta.grad, model.family.gamma.grad = (slopes.tau * chain[0])[0], (slopes.t * chain[1])[0]
        model.module.weight.grad = slopes.mean[0, 0].double()
        made.step()
        means.step(slopes.mean, 1.0, number)
        raw.step(slopes, 1.0, number)
    torch.testing.assert_close(raw.values[0, 0], model.family.delta.detach(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(raw.values[1, 0], model.family.gamma.detach(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(means.values[0, 0], model.module.weight.detach().float(), rtol=1e-5, atol=1e-6)


def test_without_noise_natural_gradients_arrive() -> None:
    """From τ = 0.05 and ρ = 0; the mean gradient is given, so that no chance is left."""
    problem = problem_of(1000, NU, True, 0.0, [0], CPU)
    arms = [Arm("natural", "SGD", 1e-12, rate=0.1)]
    means, raw = Means(arms, problem), Raw(arms, problem, study.first_raw())
    source = torch.Generator().manual_seed(3)
    for number in range(1, 301):
        chance = chance_of(problem, source)
        still = Chance(chance.normals, chance.noise, torch.ones_like(chance.factor))
        raw.step(slopes_of(problem, means.values, *raw.tau_and_t(), still), 1.0, number)
    tau, t = (float(one) for one in raw.tau_and_t())
    assert (tau, t / (1 + t**2)) == pytest.approx((TAU, RHO), rel=0.1)


@pytest.mark.parametrize("rule", ["steady", "paper"])
def test_the_library_itself_comes_to_the_same(rule: str) -> None:
    """Its own draw and divergence, other random numbers: τ within a tenth, ρ within 0.06 (seeds differ by 0.01)."""
    unit, nu = Unit("tridiagonal", 1000, 200, 10.0), 1e-2
    (stacked,) = trained(unit, [Arm(rule, "SGD", 1e-3)], nu, CPU, lambda *_: None)
    problem = problem_of(unit.size, nu, True, unit.noise, [0], CPU)
    torch.manual_seed(5)
    model = tb.to_bayesian(Holder(problem.best[0]), prior=tb.RelativePrior(), tau=0.05, family="tridiagonal")
    options = {"correlation_lr_multiplier": 50.0} if rule == "paper" else {}
    optimizer = torch.optim.SGD(tb.parameter_groups(model, 1e-3, **options), lr=1e-3, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, unit.steps)
    source = torch.Generator().manual_seed(6)
    for _ in range(unit.steps):
        optimizer.zero_grad()
        draw, kl = model.sample_weights_and_kl()
        moved = next(iter(draw.values())) - problem.best[0]
        quadratic = moved.square().sum() + 2 * problem.coupling[0] * (moved[1:] * moved[:-1]).sum()
        chance = chance_of(problem, source)
        fit = (0.5 * problem.height[0] * quadratic - problem.pull[0] @ moved) * chance.factor[0]
        (fit + chance.noise[0] @ moved + nu * kl).sum().backward()
        optimizer.step()
        schedule.step()
    (row,) = model.posterior()
    assert row.tau == pytest.approx(stacked["tau"][0], rel=0.1)
    assert row.rho == pytest.approx(stacked["rho"][0], abs=0.06)


def test_the_plan() -> None:
    assert sizes_to(1_000_000) == [10, 100, 1000, 10_000, 100_000, 1_000_000]
    assert len(set(all_arms())) == len(all_arms()) == 36 + 3 + 5 + 1
    planned = list(units(1_000_000))
    assert len({unit.name for unit in planned}) == len(planned)
    assert max(unit.steps for unit in planned if unit.size == 1_000_000) == 300
    assert len(study.arms_of(planned[0])) == 45


def test_results_are_kept_and_gone_on_with(tmp_path: Path) -> None:
    results = Results(tmp_path / "steps.json")
    results.prepare(100, CPU)
    unit = Unit("tridiagonal", 10, 300, 10.0)
    arms = study.arms_of(unit)
    parts = [
        trained(Unit("tridiagonal", 10, 5, 10.0), part, NU, CPU, lambda *_: None) for part in (arms[:30], arms[30:])
    ]
    before = len(results.missing())
    results.add(unit, parts[0], 0.1)
    assert dict(results.missing())[unit] == arms[30:]
    results.add(unit, parts[1], 0.1)
    again = Results(tmp_path / "steps.json")
    assert again.content == results.content
    assert len(again.missing()) == before - 1
    found = again.find(unit, Arm("steady", "SGD", 1e-2))
    assert found is not None
    assert len(found["tau"]) == len(study.SEEDS)
    assert again.find(unit, Arm("steady", "SGD", 5.0)) is None
    with pytest.raises(SystemExit, match="tensors of up to 100"):
        again.prepare(1000, CPU)


def test_errors_are_zero_at_the_best() -> None:
    found = {"tau": [TAU, TAU * math.e], "rho": [RHO, 0.0], "size": [1.0, 1.0]}
    assert study.errors(found, RHO) == (pytest.approx([0.0, 1.0]), pytest.approx([0.0, 0.2]))
    assert float(tau_of(delta_of(double(TAU)))) == pytest.approx(TAU)


def test_cells_of_the_page() -> None:
    assert [power(10), power(1_000_000)] == ["10", "10⁶"]
    assert [cell([1.0, 2.0, 3.0]), cell(None)] == ["2.000 ± 0.577", "–"]
    assert difference_text(Difference(-0.1, -0.2, 0.05, 3)) == "−0.100 (−0.200 to +0.050), within error"
    assert difference_text(Difference(-0.1, -0.2, -0.05, 3)).endswith("better")
    assert difference_text(Difference(0.1, 0.05, 0.2, 3)).endswith("worse")


def test_the_page_is_what_the_results_say() -> None:
    main(["--check"])
