"""Arms whose networks are trained one by one: IVON and SWAG; and last-layer Laplace, which trains nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import peers
from benchmarks.defaults.regression import Table
from benchmarks.modern.last_layer import with_one
from benchmarks.modern.swag import Passage, flat, put
from benchmarks.regressions.answers import Answers
from benchmarks.regressions.plan import BATCH, DRAWS, IVON, LR, STEPS, WEIGHT_DECAY, Job
from benchmarks.regressions.together import Likelihood, adamw_for
from benchmarks.uci.training import batches

PRECISIONS = torch.logspace(-4, 6, 201, dtype=torch.float64)  # of Laplace's prior
SNAPSHOTS = 40  # of SWAG
IVON_RATE = 0.1  # of 0.03, 0.1, 0.2, 0.3, 0.5 and 1 that with the smallest NLL on held-out rows of concrete, ess = N

Ask = Callable[[Tensor], Answers]


def trained(job: Job, split: int, table: Table, steps: int = STEPS) -> Ask:
    """Train the network of one split; returns how it is asked."""
    torch.manual_seed(job.seed(split))
    objective = Likelihood(table.train.inputs.shape[1])
    torch.manual_seed(job.seed(split))  # the order of rows, whatever the first weights took
    return (_ivon if job.arm == IVON else _swag)(objective, table, job.value, steps, job.seed(split))


def _rows(table: Table, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    inputs, targets = table.train.inputs, table.train.targets.unsqueeze(-1)
    yield from ((inputs[chosen], targets[chosen]) for chosen in batches(len(inputs), steps, BATCH))


def _ivon(objective: Likelihood, table: Table, share: float, steps: int, seed: int) -> Ask:
    """IVON for the weights, AdamW for the noise; both rates fall along half a cosine."""
    peers.learner("IVON")  # looks into the folder of peers, or says that it is missing
    from ivon import IVON as Ivon  # type: ignore[import-not-found]  # installed only by benchmarks.peers.install

    model = objective.model
    optimizer: Any = Ivon(
        model.parameters(),
        lr=IVON_RATE,
        ess=share * len(table.train.targets),
        hess_init=1.0,
        beta2=1 - 2 / steps,  # its authors' 0.99999 is for 200,000 steps; the same share of fewer
        weight_decay=WEIGHT_DECAY,
    )
    noise = torch.optim.AdamW(objective.likelihood.parameters(), lr=LR, weight_decay=0.0)
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(one, steps) for one in (optimizer, noise)]
    for inputs, targets in _rows(table, steps):
        noise.zero_grad()
        with optimizer.sampled_params(train=True):
            optimizer.zero_grad()
            objective(inputs, targets).backward()
        optimizer.step()
        noise.step()
        for schedule in schedules:
            schedule.step()

    @torch.no_grad()
    def ask(inputs: Tensor) -> Answers:
        torch.manual_seed(seed)
        means = []
        for _ in range(DRAWS):
            with optimizer.sampled_params():
                means.append(model(inputs).squeeze(-1))
        return Answers(torch.stack(means), objective.likelihood.noise.detach().expand(DRAWS))

    return ask


def _swag(objective: Likelihood, table: Table, rate: float, steps: int, seed: int) -> Ask:
    """AdamW along the cosine for three quarters, then at a rate of its own, with the weights noted."""
    optimizer = adamw_for(objective.model, objective.likelihood, WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    begin, passage = 3 * steps // 4, Passage()
    every = max(1, (steps - begin) // SNAPSHOTS)
    for number, (inputs, targets) in enumerate(_rows(table, steps)):
        if number >= begin:
            for group in optimizer.param_groups:
                group["lr"] = rate
        optimizer.zero_grad()
        objective(inputs, targets).backward()
        optimizer.step()
        schedule.step()
        if number >= begin and (steps - 1 - number) % every == 0:
            passage.see(flat(objective.model))
    source = torch.Generator().manual_seed(seed)
    drawn = [passage.sample(source) for _ in range(DRAWS)]

    @torch.no_grad()
    def ask(inputs: Tensor) -> Answers:
        means = []
        for weights in drawn:
            put(weights, objective.model)
            means.append(objective.model(inputs).squeeze(-1))
        return Answers(torch.stack(means), objective.likelihood.noise.detach().expand(DRAWS))

    return ask


@torch.no_grad()
def laplace(objective: Likelihood, table: Table, seed: int) -> Ask:
    """A plain network, and the normal law of its last layer under N(0, 1/δ) and its noise; δ by the evidence."""
    model: Any = objective.model
    hidden, head = nn.Sequential(*list(model)[:-1]), model[-1]
    noise = objective.likelihood.noise.detach()
    seen = with_one(hidden(table.train.inputs))
    weights = torch.cat([head.weight[0], head.bias]).double()
    values, vectors = torch.linalg.eigh(seen.T @ seen / noise.double().square())
    values = values.clamp(min=0)
    evidence = [
        delta * weights.square().sum() + torch.log1p(values / delta).sum() for delta in PRECISIONS
    ]  # −2 ln p, up to what does not depend on δ
    precision = PRECISIONS[torch.stack(evidence).argmin()]

    @torch.no_grad()
    def ask(inputs: Tensor) -> Answers:
        features = with_one(hidden(inputs))
        spread = (features @ vectors).square() @ (1 / (values + precision))
        normals = torch.randn(DRAWS, len(inputs), generator=torch.Generator().manual_seed(seed))
        return Answers(features @ weights + normals * spread.sqrt(), noise.expand(DRAWS))

    return ask
