"""The training loop is guards, objective, gradient and step, and nothing else."""

import copy
import re

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.data import DataLoader, TensorDataset

import tribayes as tb
from tests.compiling import draws_are_compiled
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
    assert [list(row) for row in zip(history.loss, history.nll, history.kl, strict=True)] == losses
    assert len(history) == 2 * STEPS
    assert history.as_dict() == {"loss": history.loss, "nll": history.nll, "kl": history.kl}


def test_a_step_is_one_step_of_fit() -> None:
    model = bayesian("MLP")
    twin = copy.deepcopy(model)
    torch.manual_seed(0)
    terms = tb.training_step(model, elbo(), *batches()[0], sgd(model))
    torch.manual_seed(0)
    history = tb.fit(twin, elbo(), batches()[:1], sgd(twin), progress=False)
    assert history.loss == [terms.loss.item()]
    assert same_tensors(model.state_dict(), twin.state_dict())


@draws_are_compiled
def test_a_compiled_model_takes_the_same_steps() -> None:
    torch._dynamo.reset()
    model = bayesian("MLP")
    twin = copy.deepcopy(model)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(twin, backend=counter)
    for trained in (model, compiled):
        optimizer = sgd(trained)
        torch.manual_seed(0)
        for inputs, targets in batches():
            tb.training_step(trained, elbo(), inputs, targets, optimizer)
    assert counter.frame_count == 1
    for name, value in model.state_dict().items():
        torch.testing.assert_close(twin.state_dict()[name], value, rtol=1e-12, atol=1e-14)


def test_a_step_guards_before_it_computes() -> None:
    model = bayesian("MLP")
    with torch.no_grad():
        model.module[0].weight.zero_()
        model.family.gamma.fill_(100.0)
    terms = tb.training_step(model, elbo(), *batches()[0], sgd(model))
    assert terms.loss.isfinite()
    assert all(p.isfinite().all() for p in model.parameters())


def test_the_scheduler_advances_once_a_step() -> None:
    model = bayesian("MLP")
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    tb.fit(model, elbo(), batches(), optimizer, scheduler=scheduler, progress=False)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx(
        [rate * 0.5**STEPS for rate in (0.01, 0.01, 0.5)]
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


def test_clip_bounds_every_entry_of_the_gradient() -> None:
    """A bias at ±1e-6 feels ν/m = 1e6 of the divergence; clipped, plain SGD moves it by lr times the bound."""
    model = tb.to_bayesian(nn.Linear(2, 1).requires_grad_(), where="bias", generator=0)
    with torch.no_grad():
        model.module.bias.fill_(1e-6)
    elbo = tb.ELBO(tb.Gaussian(), data_size=1)
    batch = torch.zeros(4, 2), torch.zeros(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    tb.training_step(model, elbo, *batch, optimizer, clip=0.1)
    assert model.module.bias.item() == pytest.approx(1e-6 + 0.05, rel=1e-6)
    with pytest.raises(ValueError, match=r"`clip` \(=0\) must be finite and positive; it bounds"):
        tb.training_step(model, elbo, *batch, optimizer, clip=0)


def test_fit_needs_an_epoch() -> None:
    model = tb.to_bayesian(nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with pytest.raises(ValueError, match=r"`epochs` \(=0\) must be a whole number, at least 1; choose how often"):
        tb.fit(model, tb.ELBO(tb.Gaussian(), data_size=1), [], optimizer, epochs=0)
