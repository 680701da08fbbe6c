"""DistributedDataParallel: two processes, other data and other draws in each, one model."""

import os
from pathlib import Path

import torch
import torch.distributed
from torch import Tensor
from torch.multiprocessing import spawn
from torch.nn.parallel import DistributedDataParallel

import tribayes as tb
from tests.networks import bayesian, inputs_of, same_tensors

RANKS = 2


def elbo() -> tb.ELBO:
    return tb.ELBO(tb.Categorical(), data_size=20, samples=2)


def loss_of(model: torch.nn.Module, rank: int) -> Tensor:
    """The loss on the data and under the draws of one rank."""
    torch.manual_seed(10 + rank)
    targets = torch.tensor([rank, 1, 1 - rank])
    return elbo()(model, inputs_of("MLP") + rank, targets).loss


def optimizer_of(model: tb.BayesianModule) -> torch.optim.Optimizer:
    return torch.optim.SGD(tb.parameter_groups(model, lr=0.1))


def worker(rank: int, folder: str) -> None:
    """One process of two: a training step, and its parameters to a file."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    model = bayesian("MLP")
    if rank:
        with torch.no_grad():
            model.module[0].weight.add_(1.0)  # the first rank's parameters must win
    parallel = DistributedDataParallel(model)
    tb.stabilise_(parallel)
    loss_of(parallel, rank).backward()
    optimizer_of(model).step()
    torch.save(model.state_dict(), Path(folder) / f"{rank}.pt")
    torch.distributed.destroy_process_group()
    os._exit(0)  # gloo's threads may abort an interpreter on its way out (pytorch/pytorch#179291)


def step_by_hand() -> dict[str, Tensor]:
    """The step both processes should make: along the mean of their gradients."""
    model = bayesian("MLP")
    tb.stabilise_(model)
    gradients = [torch.autograd.grad(loss_of(model, rank), list(model.parameters())) for rank in range(RANKS)]
    for parameter, *parts in zip(model.parameters(), *gradients, strict=True):
        assert not torch.equal(*parts)
        parameter.grad = torch.stack(parts).mean(0)
    optimizer_of(model).step()
    return model.state_dict()


def test_two_processes_step_along_the_mean_of_their_gradients(tmp_path: Path) -> None:
    spawn(worker, (str(tmp_path),), nprocs=RANKS)
    states = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(RANKS)]
    assert same_tensors(*states)
    torch.testing.assert_close(states[0], dict(step_by_hand()), rtol=1e-12, atol=1e-13)
