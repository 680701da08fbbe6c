"""A training of a million steps: finite to the end, with τ and ρ inside their bounds at every look."""

from __future__ import annotations

import math

import torch
from torch import nn

import tribayes as tb
from tribayes.posterior.parametrisation import LARGEST_GAMMA, rho_of, rule_of, tau_of
from tribayes.runs.environment import choose_device, device_name

LOOKS = 1000  # spread over the training
ROUNDING = 1.2e-7  # two units in ρ's last place: a GPU's tanh is not the CPU's


def train(count: int) -> dict[str, float | str]:
    """Least and largest τ, the largest |ρ|, and the loss at the end; an error where anything is not finite.

    On a GPU where there is one: there a step is a recording that is replayed, and no step looks at its loss.
    """
    device = choose_device("auto")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    model = tb.to_bayesian(net, family="tridiagonal").to(device)
    inputs = torch.linspace(-1, 1, 32).unsqueeze(1)
    targets = torch.sin(3 * inputs) + 0.1 * torch.randn(32, 1)
    inputs, targets = inputs.to(device), targets.to(device)
    elbo = tb.ELBO(tb.Gaussian(0.1), data_size=len(inputs)).to(device)
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=1e-3), momentum=0.9, fused=True)
    step = tb.TrainingStep(model, elbo, optimizer, generator=0)
    taus, rhos, losses = [], [], []
    for number in range(1, count + 1):
        terms = step(inputs, targets)
        if number % max(1, count // LOOKS) == 0 or number == count:
            check_range(*raw_numbers(model))
            tb.stabilise_(model)  # as the next step would begin: its guards come before it
            tau, rho = raw_numbers(model)
            check_bounds(tau, rho)
            taus.append(tau)
            rhos.append(rho.abs())
            losses.append(float(terms.loss))
            if not math.isfinite(losses[-1]):
                raise ArithmeticError(f"the loss of step {number} is {losses[-1]}")
    tau, rho = torch.stack(taus), torch.stack(rhos)
    found = {"steps": count, "tau_least": tau.min(), "tau_largest": tau.max(), "rho_largest": rho.max()}
    last = losses[-max(1, len(losses) // 10) :]
    numbers = {name: float(value) for name, value in found.items()}
    return numbers | {"loss": sum(last) / len(last), "device": device_name(device)}


def raw_numbers(model: tb.BayesianModule) -> tuple[torch.Tensor, torch.Tensor]:
    """τ and ρ of every tensor; an error where any parameter is not finite."""
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise ArithmeticError(f"{name} is not finite")
    family = model.family
    return tau_of(family.delta.detach()), rho_of(family.gamma.detach())


def check_range(tau: torch.Tensor, rho: torch.Tensor) -> None:
    """As a step leaves them, before any guard: τ positive and finite, |ρ| below ½."""
    if not ((tau > 0).all() and tau.isfinite().all() and rho.abs().max() < 0.5):
        raise ArithmeticError(f"tau {tau.tolist()} or rho {rho.tolist()} left its range")


def check_bounds(tau: torch.Tensor, rho: torch.Tensor) -> None:
    """τ at least what its guard leaves, |ρ| at most what its own leaves, and below ½."""
    least = float(tau_of(torch.tensor(rule_of("closed_form").smallest_delta)))
    most = float(rho_of(torch.tensor(LARGEST_GAMMA))) + ROUNDING
    if not (tau.min() >= least and tau.isfinite().all() and rho.abs().max() <= most < 0.5):
        raise ArithmeticError(f"tau {tau.tolist()} or rho {rho.tolist()} left its bounds")
