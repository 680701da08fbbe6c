"""What two processes do that each have the whole network: DistributedDataParallel, shared predictions, runs."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

import tribayes as tb
from tests.distributed.models import STEPS, bayesian, data, optimizer_of, sharded, state_of, trained
from tests.distributed.processes import Check
from tests.distributed.sharded_checks import refusal_of, share_of
from tests.own.cases import rows_of, write_csv
from tribayes.distributed import Lost
from tribayes.own.fitting import OwnRequest, train_own
from tribayes.own.judging import tested

ITERATIONS = 20
FITTED = {"iterations": 20, "batch": 36}
DIES_AT = 7  # the iteration in which the second process is gone
PREDICTIONS: dict[str, dict[str, Any]] = {
    "samples": {"samples": 5},
    "range": {"samples": range(3, 8)},
    "few": {"samples": 1},
    "examples": {"over": "examples", "samples": 5},
    "reduced": {"over": "examples", "samples": 5, "keep_samples": False},
    "moments": {"over": "examples", "samples": tb.Moments()},
}


def same_draw(rank: int, _: Path) -> dict[str, Tensor]:
    return trained(DistributedDataParallel(bayesian()), share_of(rank), same_draw=True)


def own_draws(rank: int, _: Path) -> dict[str, Any]:
    """By a seed, and by none where torch's own generators stand alike: the processes' draws must differ."""
    found: dict[str, Any] = {}
    for name, seed in (("seed", 5), ("none", None)):
        torch.manual_seed(0)
        model = DistributedDataParallel(bayesian())
        step = tb.TrainingStep(
            model, tb.ELBO(tb.Categorical(), data_size=20), optimizer_of(model, "sgd"), generator=seed
        )
        terms = step(*(part[share_of(rank)] for part in data()))
        found[name] = state_of(model) | {"outputs": terms.outputs, "draw": step.generator.get_state()}
    return found


def coins(rank: int, _: Path) -> dict[str, Tensor]:
    """The paper's rule on means of zero, while the processes draw weights of their own."""
    model = bayesian(prior=tb.Prior())
    with torch.no_grad():
        model.module.second.weight.zero_()
        model.family.gamma.zero_()
    return trained(DistributedDataParallel(model), share_of(rank), rule="paper", generator=None)


def mean_of_gradients(options: dict[str, Any], rank: int, _: Path) -> dict[str, Tensor]:
    """A loop of one's own; the second process's parameters are wrong at first, and the first's must win."""
    model = bayesian()
    if rank:
        with torch.no_grad():
            model.module.first.weight.add_(1.0)
    parallel = DistributedDataParallel(model, **options)
    tb.stabilise_(parallel)
    own_loss(parallel, rank).backward()
    optimizer_of(model, "sgd").step()
    return state_of(parallel)


def own_loss(model: torch.nn.Module, rank: int) -> Tensor:
    """The loss on the data and under the draws of one process."""
    torch.manual_seed(10 + rank)
    return tb.ELBO(tb.Categorical(), data_size=20)(model, *(part[share_of(rank)] for part in data())).loss


def alone_under_ddp(rank: int, _: Path) -> Tensor | None:
    """The first process asks a model under DistributedDataParallel while the other does not: nobody must wait."""
    model = DistributedDataParallel(bayesian())
    return tb.predict(model, data()[0], samples=3, progress=False).samples if rank == 0 else None


def predicted(options: dict[str, Any], rank: int, _: Path) -> tb.Predictive:
    del rank
    return tb.distributed.predict(plain_model(), data()[0], progress=False, **options)


def plain_model() -> tb.BayesianModule:
    """One that moments can be carried through."""
    torch.manual_seed(0)
    return tb.to_bayesian(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).double())


def refusals(rank: int, folder: Path) -> dict[str, str]:
    ask = partial(tb.distributed.predict, plain_model(), data()[0], progress=False)
    run = tb.runs.Run.at(folder / "refused")
    few = write_csv(folder / f"few-{rank}.csv", rows_of(101))
    return {
        "over": refusal_of(lambda: ask(over="both")),
        "auto": refusal_of(lambda: ask(samples=tb.AutoSamples())),
        "reduced": refusal_of(lambda: ask(keep_samples=False)),
        "loader": refusal_of(lambda: tb.distributed.predict(plain_model(), [data()], over="examples")),
        "batch": refusal_of(lambda: trained_in(run, batch_size=3)),
        "few": refusal_of(lambda: fitted_table(few, folder / "few", {})),
        "static": refusal_of(lambda: own_loss(DistributedDataParallel(bayesian(), static_graph=True), 0)),
    }


def trained_in(run: tb.runs.Run, schedule: Any = None, iterations: int = ITERATIONS, batch_size: int = 4) -> Any:
    """A training of its own in a folder: alone, or as one of several processes."""
    model = bayesian()
    x, y = data()
    elbo = tb.ELBO(tb.Categorical(), data_size=len(y))
    optimizer = optimizer_of(model, "sgd")
    given = {"iterations": iterations, "batch_size": batch_size, "schedule": schedule, "checkpoint_seconds": 0}
    records = run.train(model, elbo, optimizer, train=(x, y), test=(x, y), progress=False, **given)
    return state_of(model), records


def run_together(rank: int, folder: Path) -> Any:
    del rank
    return trained_in(tb.runs.Run.at(folder / "together"))


def learned_noise(rank: int, _: Path) -> dict[str, Any]:
    """Of a likelihood, which is no part of the model; the second process's is wrong at first, and the first's wins."""
    found = {"DDP": with_noise(DistributedDataParallel(bayesian()), share_of(rank), 0.5 + rank, same_draw=True)}
    return found | {"sharded": with_noise(sharded(), share_of(rank), 0.5 + rank)}


def with_noise(model: torch.nn.Module, share: slice, noise: float, **options: Any) -> dict[str, Tensor]:
    """The state of model and objective after a few steps of regression."""
    elbo = tb.ELBO(tb.Gaussian(noise, learned=True).double(), data_size=20)
    groups = tb.parameter_groups(model, lr=0.01, likelihood=elbo.likelihood)
    step = tb.TrainingStep(model, elbo, torch.optim.SGD(groups, momentum=0.9), generator=5, **options)
    x = data()[0][share]
    for _ in range(STEPS):
        step(x, x.sin())
    return state_of(model) | state_of(elbo)


def own_table(rank: int, folder: Path) -> tb.Predictive:
    """`tribayes fit people.csv`, with its choice of the weight, by processes that begin it together."""
    if rank == 0:
        write_csv(folder / "people.csv", rows_of(120))
    torch.distributed.barrier()
    return fitted_table(folder / "people.csv", folder / "own")


def fitted_table(table: Path, run: Path, given: Any = FITTED) -> tb.Predictive:
    """What the calibrated network says about rows that it has not seen."""
    request = OwnRequest(table, run, 3, given, "cpu", 1, "price", None, None, ["dear"])
    found = train_own(request, resume=False, checkpoint_seconds=0, tensorboard=False)
    return tested(found, found.network(torch.device("cpu")), 5, False)[0]


def dying(rank: int, folder: Path) -> str:
    """The second process is gone in the middle. The last check: afterwards there is only one."""

    def schedule(iteration: int) -> float:
        if rank == 1 and iteration == DIES_AT:
            os._exit(0)  # as a kill would, but not reported as a failure of the test
        return 1.0

    try:
        trained_in(tb.runs.Run.at(folder / "dying"), schedule)
    except Lost as lost:
        return f"lost: {lost}"
    return "went on without the other"


CHECKS: dict[str, Check] = {
    "same draw": same_draw,
    "own draws": own_draws,
    "coins": coins,
    "mean of gradients": partial(mean_of_gradients, {}),
    "mean of gradients, looking for unused": partial(mean_of_gradients, {"find_unused_parameters": True}),
    "alone under DDP": alone_under_ddp,
    "parallel refusals": refusals,
    "run": run_together,
    "learned noise": learned_noise,
    "own table": own_table,
} | {f"predict, {name}": partial(predicted, options) for name, options in PREDICTIONS.items()}
