"""What four processes do: go on from a checkpoint of two, and hold each part twice (hybrid sharding)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

import tribayes as tb
from tests.distributed.models import bayesian, data, optimizer_of, sharded, state_of, trained
from tests.distributed.parallel_checks import PREDICTIONS, predicted
from tests.distributed.processes import Check
from tests.distributed.sharded_checks import load, save


def quarter_of(rank: int) -> slice:
    return slice(2 * rank, 2 * rank + 2)


def loaded(rank: int, folder: Path) -> dict[str, Tensor]:
    """Two processes' checkpoint, a step from there, and a checkpoint of all four."""
    model = sharded()
    optimizer = optimizer_of(model, "sgd")
    load(model, optimizer, folder / "of-two")
    go_on(model, optimizer, quarter_of(rank))
    save(model, optimizer, folder / "of-four")
    return state_of(model)


def go_on(model: torch.nn.Module, optimizer: torch.optim.Optimizer, share: slice = slice(None)) -> None:
    """The second step of what `saved` trains."""
    step = tb.TrainingStep(model, tb.ELBO(tb.Categorical(), data_size=20), optimizer, generator=6)
    step(*(part[share] for part in data()))


def hybrid(rank: int, _: Path) -> dict[str, Tensor]:
    return trained(sharded(mesh=mesh(), prior=tb.Prior(scale=0.5)), quarter_of(rank))


def hybrid_coins(rank: int, _: Path) -> dict[str, Any]:
    """The paper's coins, thrown by four processes of which two and two hold the same part."""
    model = bayesian(prior=tb.Prior())
    with torch.no_grad():
        model.module.second.weight.zero_()
    from torch.distributed.fsdp import fully_shard

    fully_shard(model, mesh=mesh())
    torch.manual_seed(rank)
    tb.stabilise_(model, "paper")
    return {"part": model.module.second.weight.to_local().detach().clone(), "place": mesh().get_coordinate()}


def mesh() -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "parts"))


def same_draw(rank: int, _: Path) -> dict[str, Tensor]:
    return trained(DistributedDataParallel(bayesian()), quarter_of(rank), same_draw=True)


PREDICTED = ("samples", "few", "examples")
CHECKS: dict[str, Check] = {
    "loaded": loaded,
    "hybrid": hybrid,
    "hybrid coins": hybrid_coins,
    "same draw": same_draw,
} | {f"predict, {name}": partial(predicted, PREDICTIONS[name]) for name in PREDICTED}
