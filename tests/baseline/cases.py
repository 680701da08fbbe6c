"""What the code must go on giving: small networks, their divergences and gradients, and the losses of short trainings.

Everything is made without random numbers, or from torch's own generator with a fixed seed, so that two versions of the
code can be compared number by number. `stored.json` was made by the code before its redesign (commit 4dad2e3).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

import tribayes as tb

FAMILIES = ("tridiagonal", "diagonal", "mean_field")
PRIORS = {
    "standard": lambda: tb.Prior(),
    "narrow": lambda: tb.Prior(scale=0.5),
    "shifted": lambda: tb.Prior(loc=0.3, scale=0.7),
    "pretrained": lambda: tb.Prior(loc="pretrained", scale=0.1),
}
STEPS = 200


def waves(shape: torch.Size, phase: float) -> Tensor:
    """Numbers that look random and are not."""
    count = math.prod(shape)
    place = torch.arange(count, dtype=torch.float64)
    return (torch.sin(1.7 * place + phase) + 0.3 * torch.cos(5.1 * place * phase)).reshape(shape) / 2


def network(dtype: torch.dtype = torch.float64) -> nn.Module:
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 4 * 4, 5), nn.ReLU(), nn.Linear(5, 3)
    ).to(dtype)
    with torch.no_grad():
        for number, parameter in enumerate(net.parameters()):
            parameter.copy_(waves(parameter.shape, 1.0 + number))
    return net


def model_of(family: str, prior: str = "standard", dtype: torch.dtype = torch.float64) -> Any:
    rho = {"0*": -0.4, "*bias": 0.2, "*": 0.1} if family == "tridiagonal" else 0.0
    return tb.to_bayesian(network(dtype), family=family, prior=PRIORS[prior](), tau={"*bias": 0.05, "*": 0.3}, rho=rho)


def divergences() -> dict[str, Any]:
    """KL and its gradient by every parameter, for each family and prior."""
    found = {}
    for family in FAMILIES:
        for prior in PRIORS:
            model = model_of(family, prior)
            divergence = model.kl()
            names, leaves = zip(*model.named_parameters(), strict=True)
            gradients = torch.autograd.grad(divergence, leaves)
            sums = {name: [g.sum().item(), g.norm().item()] for name, g in zip(names, gradients, strict=True)}
            found[f"{family}, {prior}"] = {"kl": divergence.item(), "gradients": sums}
    return found


def data(dtype: torch.dtype, device: str) -> tuple[Tensor, Tensor]:
    inputs = waves(torch.Size([64, 1, 6, 6]), 0.4).to(dtype)
    labels = (inputs.flatten(1)[:, :12].sum(1) > 0).long() + (inputs.flatten(1)[:, 12:24].sum(1) > 0).long()
    return inputs.to(device), labels.to(device)


def losses(family: str, device: str = "cpu", dtype: torch.dtype = torch.float32, **options: Any) -> list[list[float]]:
    """Loss, NLL and KL of a short training, from torch's generator with seed 0."""
    model = model_of(family, dtype=dtype).to(device)
    for name, value in options.items():
        setattr(model, name, value)
    inputs, labels = data(dtype, device)
    batches = [(inputs[start : start + 16], labels[start : start + 16]) for start in range(0, 64, 16)]
    elbo = tb.ELBO(tb.Categorical(), data_size=64, kl_weight=0.05)
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.01, correlation_lr_multiplier=5.0), momentum=0.9)
    torch.manual_seed(0)
    history = tb.fit(model, elbo, batches, optimizer, epochs=STEPS // 4, progress=False)
    return [history.loss, history.nll, history.kl]


def answers(seed: int, samples: int) -> Tensor:
    """(S, N, C): what sampled networks say."""
    model = model_of("tridiagonal", dtype=torch.float32)
    inputs, _ = data(torch.float32, "cpu")
    return tb.predict(model, inputs[:6], samples, seed=seed, progress=False).samples
