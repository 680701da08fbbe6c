"""What the processes train: a small network, its data, and a training of a few steps, alone or together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import tribayes as tb

EXAMPLES = 8
STEPS = 3
PRIORS = {"relative": tb.RelativePrior(), "fixed": tb.Prior(loc=0.1, scale=0.5), "pretrained": tb.Prior("pretrained")}


class Network(nn.Module):
    """Cut in two, its tensors have parts of uneven size and of none (a bias of one entry); the norm is not random."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(3, 5), nn.LayerNorm(5)
        self.second, self.gate = nn.Linear(5, 3), nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.second(torch.relu(self.norm(self.first(x))))
        return hidden * self.gate(hidden)


def bayesian(family: str = "tridiagonal", **options: Any) -> tb.BayesianModule:
    torch.manual_seed(0)
    rho = {"rho": {"first.*": -0.45, "*": 0.3}} if family == "tridiagonal" else {}
    tau = {"first.*": 0.2, "*": 0.4}
    return tb.to_bayesian(Network().double(), family=family, tau=tau, generator=0, **rho, **options)


def sharded(mesh: Any = None, **options: Any) -> tb.BayesianModule:
    """The same in parts; one layer is a group of its own, as is usual."""
    from torch.distributed.fsdp import fully_shard

    model = bayesian(**options)
    fully_shard(model.module.first, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def data() -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(1)
    return torch.randn(EXAMPLES, 3, generator=source).double(), torch.randint(3, (EXAMPLES,), generator=source)


def optimizer_of(model: nn.Module, kind: str) -> torch.optim.Optimizer:
    groups = tb.parameter_groups(model, lr=0.1, weight_decay=0.01)
    return torch.optim.SGD(groups, momentum=0.9) if kind == "sgd" else torch.optim.AdamW(groups)


def trained(
    model: nn.Module,
    share: slice = slice(None),
    *,
    optimizer: str = "sgd",
    estimator: str = "plain",
    rule: str = "closed_form",
    **options: Any,
) -> dict[str, Tensor]:
    """The state after a few steps on a share of the examples, whole."""
    x, y = (part[share] for part in data())
    elbo = tb.ELBO(tb.Categorical(), data_size=20, samples=2, estimator=estimator)
    given = {"generator": 5, "rule": rule} | options
    step = tb.TrainingStep(model, elbo, optimizer_of(model, optimizer), **given)
    for _ in range(STEPS):
        step(x, y)
    return state_of(model)


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """The state dict with whole tensors, of the model inside DistributedDataParallel."""
    return whole((model.module if isinstance(model, DistributedDataParallel) else model).state_dict())


def whole(tensors: dict[str, Any]) -> dict[str, Tensor]:
    return {
        name: (value.full_tensor() if hasattr(value, "full_tensor") else value).detach().clone()
        for name, value in tensors.items()
    }
