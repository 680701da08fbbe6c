"""Training on a GPU: steps are still recorded and never wait, damage is noticed late and mended, float16 is scaled."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import same_tensors
from tribayes._graphs import noting_waits
from tribayes.inference import ledger

Batches = list[tuple[Tensor, Tensor]]


def network() -> tb.BayesianModule:
    torch.manual_seed(0)
    return tb.to_bayesian(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)), prior=tb.Prior()).cuda()


def batches(count: int, size: int = 16) -> Batches:
    source = torch.Generator().manual_seed(1)
    inputs = torch.randn(count, size, 8, generator=source).cuda()
    return list(zip(inputs, (inputs[..., 0] > 0).long(), strict=True))


def elbo() -> tb.ELBO:
    return tb.ELBO(tb.Categorical(), data_size=1000, kl_weight=0.1)


def sgd(model: nn.Module, lr: float = 0.02) -> torch.optim.SGD:
    return torch.optim.SGD(tb.parameter_groups(model, lr=lr), momentum=0.9, fused=True)


@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_steps_are_recorded_and_do_not_wait(precision: torch.dtype | None) -> None:
    model = network()
    step = tb.TrainingStep(model, elbo(), sgd(model), precision=precision)
    for batch in batches(6):
        step(*batch)
    assert step.captured
    data = batches(10)
    with noting_waits(step.device) as waits:
        for batch in data:
            step(*batch)
    assert waits == []


@pytest.mark.parametrize("objective", [elbo(), tb.AlphaELBO(tb.Categorical(), data_size=1000, samples=3)])
def test_recorded_steps_in_bfloat16_are_those_run_as_they_are(objective: tb.ELBO) -> None:
    states = []
    for capture in ("auto", False):
        model = network()
        torch.manual_seed(3)
        tb.fit(model, objective, batches(30), sgd(model), precision=torch.bfloat16, capture=capture, progress=False)
        states.append(model.state_dict())
    for name, value in states[0].items():
        torch.testing.assert_close(value, states[1][name], rtol=1e-3, atol=1e-4)


def test_a_bad_batch_is_noticed_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_STEPS_BETWEEN_LOOKS", 10)
    data = batches(40)
    data[24][0][3, 2] = math.nan
    model, twin = network(), network()
    torch.manual_seed(3)
    with pytest.raises(tb.NonFiniteLoss, match="the loss of step 24 is not finite: its nll is nan") as caught:
        tb.fit(model, elbo(), data, sgd(model), progress=False)
    assert "put back to those after 20 steps" in caught.value.__notes__[0]
    torch.manual_seed(3)
    tb.fit(twin, elbo(), data[:20], sgd(twin), progress=False)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, twin.state_dict()[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_float16_learns_with_a_scale(accumulate: int) -> None:
    model = network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    options = {"precision": torch.float16, "accumulate": accumulate, "epochs": 20, "progress": False}
    history = tb.fit(model, elbo(), batches(30), sgd(model), **options)
    assert len(history) == 20 * (30 // accumulate)
    assert sum(history.nll[-10:]) < 0.5 * sum(history.nll[:10])
    assert not torch.equal(model.family.delta, before["family.delta"])
    assert all(value.isfinite().all() for value in model.state_dict().values())


def test_gradients_that_overflow_leave_a_step_out_and_the_running_sizes_alone() -> None:
    model = network()
    optimizer = sgd(model)
    step = tb.TrainingStep(model, elbo(), optimizer, precision=torch.float16)
    step(*batches(1)[0])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    scale = step._precision._scaler.get_scale()
    model.module[0].weight.register_hook(lambda gradient: gradient * math.inf)
    step(*batches(1)[0])
    assert same_tensors(model.state_dict(), before)
    assert step._precision._scaler.get_scale() == scale / 2
    assert optimizer.state[model.family.delta]["square"].isfinite().all()


def test_a_prior_that_is_set_later_is_met_by_a_recorded_step() -> None:
    model = network()
    step = tb.TrainingStep(model, elbo(), sgd(model))
    for batch in batches(6):
        step(*batch)
    assert step.captured
    model.set_prior(tb.Prior(scale=0.05))
    tb.stabilise_(model)
    expected = model.kl().item()
    assert step(*batches(1)[0]).kl.item() == pytest.approx(expected, rel=1e-5)


def test_accumulated_batches_are_taken_beside_recorded_ones() -> None:
    model = network()
    step = tb.TrainingStep(model, elbo(), sgd(model))
    for batch in batches(6):
        step(*batch)
    terms = step.accumulate(batches(3))
    assert terms.loss.isfinite()
    for batch in batches(3):
        assert step(*batch).loss.isfinite()
    assert step.captured


def test_validation_and_callbacks_on_a_gpu() -> None:
    model, seen = network(), []
    history = tb.fit(
        model,
        elbo(),
        batches(30),
        sgd(model),
        epochs=3,
        validation=[(x.cpu(), y.cpu()) for x, y in batches(2)],
        patience=5,
        callbacks=lambda state: seen.append(state.scalars()),
        progress=False,
    )
    assert len(history.validation) == len(seen) == 3
    assert seen[-1]["validation/nll"] == history.validation[-1].nll < history.validation[0].nll


def test_log_prob_is_that_of_the_cpu() -> None:
    model = network()
    draw = model.sample_weights(3, generator=0)
    expected = model.cpu().log_prob({name: value.cpu() for name, value in draw.items()})
    found = model.cuda().log_prob(draw)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-2)
