"""The training loop is one step after the other (test_step.py), and nothing else."""

import copy
import re

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import tribayes as tb
from tests.networks import bayesian, inputs_of, same_tensors

STEPS = 4
LABELS = torch.tensor([0, 1, 1])


def batches() -> list[tuple[Tensor, Tensor]]:
    return [(inputs_of("MLP") + shift, LABELS) for shift in range(STEPS)]


def elbo(**options: object) -> tb.ELBO:
    return tb.ELBO(tb.Categorical(), **{"data_size": 12, **options})


def sgd(model: tb.BayesianModule) -> torch.optim.SGD:
    return torch.optim.SGD(tb.parameter_groups(model, lr=0.01), momentum=0.9)


@pytest.mark.parametrize("rule", ["closed_form", "paper"])
def test_fit_is_the_loop_written_out(rule: str) -> None:
    model, objective = bayesian("MLP"), elbo(kl_weight=lambda step: 1.0 / (step + 1))
    twin = copy.deepcopy(model)
    torch.manual_seed(0)
    optimizer = sgd(model)
    history = tb.fit(model, objective, batches(), optimizer, epochs=2, rule=rule, progress=False)
    torch.manual_seed(0)
    optimizer, losses = sgd(twin), []
    for step, (inputs, targets) in enumerate(batches() * 2):
        tb.stabilise_(twin, rule=rule)
        terms = objective(twin, inputs, targets, step=step)
        optimizer.zero_grad()
        terms.loss.backward()
        optimizer.step()
        losses.append([terms.loss.item(), terms.nll.item(), terms.kl.item()])
    assert same_tensors(model.state_dict(), twin.state_dict())
    assert [list(row) for row in zip(history.nll, history.kl, strict=True)] == [row[1:] for row in losses]
    assert history.loss == pytest.approx([row[0] for row in losses], rel=1e-14)
    assert len(history) == 2 * STEPS
    assert history.as_dict() == {"loss": history.loss, "nll": history.nll, "kl": history.kl}


def test_the_scheduler_advances_once_per_step() -> None:
    model = bayesian("MLP")
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    tb.fit(model, elbo(), batches(), optimizer, scheduler=scheduler, progress=False)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx(
        [rate * 0.5**STEPS for rate in (0.01, 0.01, 0.01)]
    )


@pytest.mark.parametrize("samples", [1, 3])
def test_training_learns(samples: int) -> None:
    # 60 steps of Adam on three examples, from seed 0: the likelihood term falls from about ln 2 to about 0.1.
    model = bayesian("MLP", tau=0.05)
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.05, correlation_lr_multiplier=1.0))
    torch.manual_seed(0)
    objective = elbo(data_size=10_000, samples=samples)
    history = tb.fit(model, objective, batches()[:1] * 60, optimizer, progress=False)
    assert history.nll[0] > 0.4
    assert history.nll[-1] < 0.2


def test_a_data_loader_is_run_through_in_every_epoch() -> None:
    dataset = TensorDataset(inputs_of("MLP").repeat(3, 1), LABELS.repeat(3))
    model = bayesian("MLP")
    loader = DataLoader(dataset, batch_size=4)  # two full batches and a rest of one
    assert len(tb.fit(model, elbo(), loader, sgd(model), epochs=2, progress=False)) == 6


@pytest.mark.parametrize("progress", [True, False])
def test_progress_is_shown_when_asked_for(progress: bool, capsys: pytest.CaptureFixture[str]) -> None:
    model = bayesian("MLP")
    tb.fit(model, elbo(), batches(), sgd(model), progress=progress)
    shown = "".join(capsys.readouterr())
    assert ("training" in shown) == progress
    assert bool(shown) == progress


@pytest.mark.parametrize("make", [list, lambda: iter(batches())])
def test_batches_that_run_out_are_refused(make: object) -> None:
    model = bayesian("MLP")
    text = "must yield batches in every epoch; pass a DataLoader or a list."
    with pytest.raises(ValueError, match=r"^`batches` \(=.*\) " + re.escape(text) + "$"):
        tb.fit(model, elbo(), make(), sgd(model), epochs=2, progress=False)


def test_fit_needs_an_epoch() -> None:
    model = tb.to_bayesian(nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with pytest.raises(ValueError, match=r"`epochs` \(=0\) must be at least 1; choose how often"):
        tb.fit(model, tb.ELBO(tb.Gaussian(), data_size=1), [], optimizer, epochs=0)


def test_fit_hands_its_options_to_the_step() -> None:
    model = bayesian("MLP")
    twin = copy.deepcopy(model)
    options = {"clip": 0.01, "rule": "paper", "generator": 2**70}
    state = torch.get_rng_state()
    history = tb.fit(model, elbo(), batches(), sgd(model), progress=False, **options)
    step = tb.TrainingStep(twin, elbo(), sgd(twin), **options)
    losses = [step(inputs, targets).loss.item() for inputs, targets in batches()]
    assert history.loss == losses
    assert same_tensors(model.state_dict(), twin.state_dict())
    assert torch.equal(torch.get_rng_state(), state)


def test_fit_trains_a_plain_network_by_its_likelihood() -> None:
    net = nn.Linear(4, 2)
    objective = tb.MaximumLikelihood(tb.Categorical())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    data = [(inputs_of("MLP").float(), LABELS)] * 100
    history = tb.fit(net, objective, data, optimizer, progress=False)
    assert history.loss == history.nll
    assert history.kl == [0.0] * 100
    assert history.loss[-1] < 0.5 * history.loss[0]
