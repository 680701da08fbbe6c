"""Steps of δ and γ without tuning: gradients of their own size, for every optimizer, in any loop."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import bayesian, inputs_of, same_tensors

SIZES = (10, 1000, 100_000)
BEST = 0.3  # τ at which the problem below is solved


class Weights(nn.Module):
    """Tensors of very different sizes, as a network has them; its output is they themselves."""

    def __init__(self) -> None:
        super().__init__()
        source = torch.Generator().manual_seed(0)
        self.tensors = nn.ParameterList(torch.randn(size, generator=source) for size in SIZES)

    def forward(self) -> list[Tensor]:
        return list(self.tensors)


def trained(make: type[torch.optim.Optimizer], steps: int, **options: float) -> tb.BayesianModule:
    """½ Σ h_j ‖w_j − m_j‖²/‖m_j‖² + ν KL, with h_j such that every tensor is best at τ = 0.3.

    E‖w − m‖²/‖m‖² = τ², so the optimum solves h τ² (1 + τ²) = ν K.
    """
    torch.manual_seed(1)
    model = tb.to_bayesian(Weights(), prior=tb.RelativePrior(), tau=0.05, family="diagonal")
    centres = [mean.detach().clone() for _, mean in model.means()]
    nu = 0.1 / sum(SIZES)
    heights = [nu * size / (BEST**2 * (1 + BEST**2)) for size in SIZES]
    optimizer = make(tb.parameter_groups(model, lr=1e-3), lr=1e-3, **options)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        draw, kl = model.sample_weights_and_kl()
        fits = zip(heights, draw.values(), centres, strict=True)
        loss = sum(0.5 * h * ((w - m).square().sum() / m.square().sum()) for h, w, m in fits) + nu * kl
        loss.backward()
        optimizer.step()
        schedule.step()
    return model


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (torch.optim.SGD, {}),
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        (torch.optim.Adam, {}),
        (torch.optim.AdamW, {}),
    ],
)
def test_tensors_of_ten_and_of_a_hundred_thousand_weights_learn_alike(
    make: type[torch.optim.Optimizer], options: dict[str, float]
) -> None:
    """From 0.05 to 0.3 in 600 steps, with the learning rate of the means; by the paper's way the small ones stay."""
    found = [row.tau for row in trained(make, 600, **options).posterior()]
    assert found == pytest.approx([BEST] * len(SIZES), rel=0.25)
    assert found[2] == pytest.approx(BEST, rel=0.03)  # the noise of its gradient is small


def model_and_loss(scale: float = 1.0) -> tuple[tb.BayesianModule, tb.ELBO]:
    model = bayesian("MLP", rho=0.1)
    return model, tb.ELBO(tb.Gaussian(), data_size=3, kl_weight=scale)


def test_gradients_are_divided_by_their_running_size() -> None:
    model, elbo = model_and_loss()
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.01), momentum=0.9)
    square: Tensor | None = None
    for step in range(4):
        optimizer.zero_grad()
        elbo(model, inputs_of("MLP"), torch.zeros(3, 2, dtype=torch.float64), generator=step).loss.backward()
        delta, gradient, mean_gradient = (
            model.family.delta,
            model.family.delta.grad.clone(),
            model.module[0].weight.grad,
        )
        unchanged, before = mean_gradient.clone(), delta.detach().clone()
        square = gradient**2 if square is None else square
        square = 0.99 * square + 0.01 * gradient**2
        optimizer.step()
        torch.testing.assert_close(delta.detach(), before - 0.01 * gradient / square.sqrt())
        assert torch.equal(mean_gradient, unchanged)


def test_the_size_of_the_loss_does_not_matter() -> None:
    ends = []
    for scale in (1.0, 1e6):
        model = bayesian("MLP", rho=0.1)
        optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=1e-12))  # the means stay
        elbo = tb.ELBO(tb.Gaussian(), data_size=3, kl_weight=1.0)
        for step in range(5):
            optimizer.zero_grad()
            loss = elbo(model, inputs_of("MLP"), torch.zeros(3, 2, dtype=torch.float64), generator=step).loss
            (scale * loss).backward()
            optimizer.step()
        ends.append(model.family.delta.detach())
    torch.testing.assert_close(*ends, rtol=1e-6, atol=1e-8)


def test_adam_is_left_to_itself() -> None:
    model, elbo = model_and_loss()
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.01))
    elbo(model, inputs_of("MLP"), torch.zeros(3, 2, dtype=torch.float64)).loss.backward()
    before = model.family.delta.grad.clone()
    optimizer.step()
    assert torch.equal(model.family.delta.grad, before)


def test_others_optimizers_are_left_alone() -> None:
    plain = nn.Linear(2, 1)
    tb.parameter_groups(bayesian("MLP"), lr=0.1)  # from here on steps are looked at
    optimizer = torch.optim.SGD(plain.parameters(), lr=1.0)
    plain.weight.grad, before = torch.full((1, 2), 7.0), plain.weight.detach().clone()
    optimizer.step()
    torch.testing.assert_close(plain.weight.detach(), before - 7)


def test_a_saved_optimizer_goes_on_as_if_nothing_had_been() -> None:
    model, elbo = model_and_loss()
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.01), momentum=0.9)

    def steps(model: tb.BayesianModule, optimizer: torch.optim.Optimizer, numbers: range) -> None:
        for number in numbers:
            optimizer.zero_grad()
            elbo(model, inputs_of("MLP"), torch.zeros(3, 2, dtype=torch.float64), generator=number).loss.backward()
            optimizer.step()

    steps(model, optimizer, range(3))
    other = copy.deepcopy(model)
    again = torch.optim.SGD(tb.parameter_groups(other, lr=0.01), momentum=0.9)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    steps(model, optimizer, range(3, 6))
    steps(other, again, range(3, 6))
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), other.parameters(), strict=True))


def test_a_gradient_of_zero_moves_nothing() -> None:
    model = bayesian("MLP", rho=0.1)
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.01))
    before = model.family.delta.detach().clone()
    model.family.delta.grad = torch.zeros_like(before)
    optimizer.step()
    assert torch.equal(model.family.delta, before)


@pytest.mark.parametrize("named", [True, False])
def test_a_gradient_that_a_closure_computes_is_rescaled_too(named: bool) -> None:
    """Lightning, for one, gives its backward pass to the optimizer: what lies in `.grad` before is of the last step."""
    models = [bayesian("MLP") for _ in range(2)]
    optimizers = [torch.optim.SGD(tb.parameter_groups(model, lr=0.1)) for model in models]
    elbo = tb.ELBO(tb.Categorical(), data_size=9)
    for step in range(3):

        def loss_of(number: int, seed: int = step) -> Tensor:
            optimizers[number].zero_grad()
            loss = elbo(models[number], inputs_of("MLP"), torch.tensor([0, 1, 1]), generator=seed).loss
            loss.backward()
            return loss

        expected = loss_of(0)
        optimizers[0].step()
        closure = partial(loss_of, 1)
        found = optimizers[1].step(closure=closure) if named else optimizers[1].step(closure)
        assert torch.equal(found, expected)
        assert same_tensors(models[0].state_dict(), models[1].state_dict())
