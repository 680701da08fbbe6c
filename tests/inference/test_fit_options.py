"""What a training may be asked for beside its steps: validation, patience, callbacks, accumulation, precision."""

from __future__ import annotations

import copy
import math
import re

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import tribayes as tb
from tests.networks import any_family, bayesian, inputs_of, left_as_it_was, same_tensors
from tribayes.inference import validation
from tribayes.inference.validation import DRAWS, Validation
from tribayes.nn.stage import sample_model
from tribayes.posterior.streams import Stream

LABELS = torch.tensor([0, 1, 1])
OBJECTIVE = tb.MaximumLikelihood(tb.Categorical())


def batches(count: int = 4) -> list[tuple[Tensor, Tensor]]:
    return [(inputs_of("MLP") + 0.1 * number, LABELS) for number in range(count)]


def elbo(**options: object) -> tb.ELBO:
    return tb.ELBO(tb.Categorical(), **{"data_size": 12, **options})


def sgd(model: nn.Module, lr: float = 0.01) -> torch.optim.SGD:
    return torch.optim.SGD(tb.parameter_groups(model, lr=lr), momentum=0.9)


# validation


def test_the_validation_nll_is_that_of_the_averaged_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "_CHUNK", 5)
    model = bayesian("MLP")
    x, y = inputs_of("MLP").repeat(4, 1), LABELS.repeat(4)
    probabilities = torch.stack(
        [model.apply_weights(*sample_model(model, Stream(("validation", s))), x).softmax(-1) for s in range(DRAWS)]
    ).mean(0)
    expected = -probabilities[torch.arange(12), y].log().mean().item()
    loader = DataLoader(TensorDataset(x, y), batch_size=7)
    for data in ((x, y), loader, list(loader)):
        with left_as_it_was(model):
            assert Validation(data, model, OBJECTIVE).nll() == pytest.approx(expected, rel=1e-12)


class OfNeighbours(nn.Module):
    """Nodes, and edges between them: no row of edges belongs to one node."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2, dtype=torch.float64)

    def forward(self, x: Tensor, edges: Tensor, share: Tensor | float = 1.0) -> Tensor:
        y: Tensor = self.layer(share * x.index_add(0, edges[:, 1], x[edges[:, 0]]))
        return y


NODES, EDGES = torch.randn(12, 4, dtype=torch.float64), torch.randint(12, (30, 2))


@pytest.mark.parametrize(
    "inputs",
    [
        tb.Whole((NODES, EDGES)),
        tb.Whole((NODES, EDGES[:12])),  # as many edges as nodes
        (NODES, EDGES),
        {"x": NODES, "edges": EDGES.numpy(), "share": torch.tensor(0.5, dtype=torch.float64)},
    ],
)
def test_what_belongs_together_is_validated_in_one_pass(inputs: object, monkeypatch: pytest.MonkeyPatch) -> None:
    model, y = tb.to_bayesian(OfNeighbours(), generator=0), LABELS.repeat(4)
    expected = Validation([(inputs, y)], model, OBJECTIVE).nll()
    monkeypatch.setattr(validation, "_CHUNK", 5)
    assert Validation((inputs, y), model, OBJECTIVE).nll() == expected


def test_validation_is_in_evaluation_mode_and_of_plain_networks_too() -> None:
    net = nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.5), nn.BatchNorm1d(2)).double()
    expected = nn.functional.cross_entropy(copy.deepcopy(net).eval()(inputs_of("MLP")), LABELS).item()
    with left_as_it_was(net):
        found = Validation((inputs_of("MLP"), LABELS), net, OBJECTIVE).nll()
    assert found == pytest.approx(expected, rel=1e-12)
    assert net.training


def test_fit_records_it_once_per_epoch_and_trains_as_without() -> None:
    model, twin = bayesian("MLP"), bayesian("MLP")
    history = tb.fit(
        model, elbo(), batches(), sgd(model), epochs=3, validation=batches()[0], generator=1, progress=False
    )
    plain = tb.fit(twin, elbo(), batches(), sgd(twin), epochs=3, generator=1, progress=False)
    assert [(record.epoch, record.step) for record in history.validation] == [(1, 4), (2, 8), (3, 12)]
    assert history.loss == plain.loss
    assert plain.validation == []
    assert same_tensors(model.state_dict(), twin.state_dict())


def overfitted(patience: int | None, epochs: int = 30) -> tuple[tb.History, tb.BayesianModule]:
    """Labels of the validation are the wrong ones, so the best is soon over."""
    model = bayesian("MLP")
    noisy = (inputs_of("MLP"), LABELS.roll(1))
    history = tb.fit(
        model,
        elbo(),
        batches(),
        sgd(model, lr=0.1),
        epochs=epochs,
        validation=noisy,
        patience=patience,
        generator=1,
        progress=False,
    )
    return history, model


def test_patience_stops_and_puts_the_best_state_back() -> None:
    history, model = overfitted(patience=3)
    scores = [record.nll for record in history.validation]
    best = scores.index(min(scores))
    assert len(scores) == best + 1 + 3 < 30
    again = Validation((inputs_of("MLP"), LABELS.roll(1)), model, OBJECTIVE).nll()
    assert again == scores[best]
    _, twin = overfitted(patience=None, epochs=best + 1)  # which ended there
    assert same_tensors(model.state_dict(), twin.state_dict())


def test_the_best_state_is_put_back_where_epochs_run_out_too() -> None:
    history, model = overfitted(patience=100, epochs=12)
    scores = [record.nll for record in history.validation]
    assert len(scores) == 12
    assert min(scores) < scores[-1]
    again = Validation((inputs_of("MLP"), LABELS.roll(1)), model, OBJECTIVE).nll()
    assert again == min(scores)


@pytest.mark.parametrize("before", [tb.Prior(scale=2.0), tb.Prior(loc="pretrained", scale=2.0)])
@pytest.mark.parametrize("after", [tb.Prior(scale=0.05), tb.Prior(loc="pretrained", scale=0.05)])
def test_a_prior_that_a_callback_sets_stays_where_the_best_state_is_put_back(before: tb.Prior, after: tb.Prior) -> None:
    model, set_to = bayesian("MLP"), dict[str, Tensor]()
    model.set_prior(before)

    def at_the_end(state: tb.FitState) -> None:
        if state.epoch == state.epochs:
            model.set_prior(after)
            set_to.update(copy.deepcopy(model.priors.state_dict()))

    history = tb.fit(
        model,
        elbo(),
        batches(),
        sgd(model, lr=0.1),
        epochs=6,
        validation=(inputs_of("MLP"), LABELS.roll(1)),
        patience=6,
        callbacks=at_the_end,
        generator=1,
        progress=False,
    )
    scores = [record.nll for record in history.validation]
    assert min(scores) < scores[-1]
    again = Validation((inputs_of("MLP"), LABELS.roll(1)), model, OBJECTIVE).nll()
    assert again == min(scores)
    assert same_tensors(model.priors.state_dict(), set_to)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"patience": 2}, "`patience` (=2) must go with `validation`; pass held-out examples: validation=(x, y)."),
        (
            {"patience": 0, "validation": batches()},
            "`patience` (=0) must be at least 1; pass the number of epochs to wait for a better one.",
        ),
        ({"validation": []}, "`validation` (=[]) must have examples every time; pass (x, y), a DataLoader or a list."),
        (
            {"validation": (math.nan * inputs_of("MLP"), LABELS)},
            "`validation` (=nan) must have an NLL that is a number; look for NaN in its examples.",
        ),
        (
            {"validation": {"x": inputs_of("MLP"), "labels": LABELS}},
            "`validation` (='str') must yield (inputs, targets), or a Mapping with labels; "
            "for a network of several arguments yield ((x1, x2), targets).",
        ),
        (
            {"validation": [{"x": inputs_of("MLP")}]},
            "`validation` (=['x']) must have its targets under exactly one of the names labels, label, targets; "
            "rename the key, or yield (inputs, targets).",
        ),
        ({"accumulate": 0}, "`accumulate` (=0) must be at least 1; pass the number of batches per step."),
        (
            {"precision": torch.float64},
            "`precision` (=torch.float64) must be None, torch.bfloat16 or torch.float16; bfloat16 needs no scaling.",
        ),
        (
            {"precision": torch.float16},
            "`precision` (=torch.float16) must not be float16 on cpu: its gradients are scaled on a GPU alone; "
            "use torch.bfloat16.",
        ),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], text: str) -> None:
    model = bayesian("MLP")
    with pytest.raises((ValueError, TypeError), match="^" + re.escape(text) + "$"):
        tb.fit(model, elbo(), batches(), sgd(model), progress=False, **options)


# callbacks


class Noting(tb.Callback):
    """Everything it is told."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, float, float, float]] = []
        self.epochs: list[dict[str, float]] = []

    def on_step(self, state: tb.FitState) -> None:
        self.steps.append((state.epoch, state.step, state.loss, state.nll, state.kl))

    def on_epoch(self, state: tb.FitState) -> None:
        self.epochs.append(state.scalars())


def test_callbacks_see_what_the_history_has() -> None:
    model, noting, epochs = bayesian("MLP"), Noting(), []
    history = tb.fit(
        model,
        elbo(),
        batches(),
        sgd(model),
        epochs=2,
        validation=batches()[0],
        callbacks=[noting, lambda state: epochs.append(state.epoch)],
        progress=False,
    )
    expected = zip([1] * 4 + [2] * 4, range(1, 9), history.loss, history.nll, history.kl, strict=True)
    assert noting.steps == list(expected)
    assert epochs == [1, 2]
    last = noting.epochs[-1]
    rows = {row.name: row for row in model.posterior()}
    assert last == {
        "loss": history.loss[-1],
        "nll": history.nll[-1],
        "kl": history.kl[-1],
        "validation/nll": history.validation[-1].nll,
        "lr/means": 0.01,
        "lr/scales": 0.01,
        "lr/correlations": 0.01,
        **{f"tau/{name}": row.tau for name, row in rows.items()},
        **{f"rho/{name}": row.rho for name, row in rows.items()},
    }


def test_a_callback_may_end_the_training() -> None:
    class AtStep(tb.Callback):
        def on_step(self, state: tb.FitState) -> bool:
            return state.step == 6

    for callback, steps in ((AtStep(), 6), (lambda state: state.epoch == 2, 8)):
        model = bayesian("MLP")
        history = tb.fit(model, elbo(), batches(), sgd(model), epochs=5, callbacks=callback, progress=False)
        assert len(history) == steps


def test_a_stop_before_any_validation_keeps_what_was_learned() -> None:
    class AtOnce(tb.Callback):
        def on_step(self, state: tb.FitState) -> bool:
            return state.step == 1

    model = bayesian("MLP")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    options = {"validation": batches()[0], "patience": 1, "callbacks": AtOnce(), "progress": False}
    tb.fit(model, elbo(), batches(), sgd(model), **options)
    assert not same_tensors(model.state_dict(), before)


@pytest.mark.parametrize(
    ("callback", "text"),
    [
        (
            [3],
            "`callbacks` (=3) must be Callbacks or functions; subclass tb.Callback, or pass a function of the state.",
        ),
        (lambda state: state.epoch, "`callbacks` (=1) must be None, or True to stop, where "),
    ],
)
def test_bad_callbacks_are_refused(callback: object, text: str) -> None:
    model = bayesian("MLP")
    with pytest.raises(TypeError, match="^" + re.escape(text)):
        tb.fit(model, elbo(), batches(), sgd(model), callbacks=callback, progress=False)


def test_a_callback_that_returns_what_only_looks_like_true_is_told_its_type() -> None:
    model, stop = bayesian("MLP"), [torch.tensor(True)].__getitem__
    with pytest.raises(TypeError, match=r"\(=True\) must be None, or True .* of type Tensor: bool\(...\) makes True"):
        tb.fit(model, elbo(), batches(), sgd(model), callbacks=lambda state: stop(state.epoch - 1), progress=False)


# accumulation


@pytest.fixture
def _same_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass meets the draw of seed 7."""
    drawn = tb.BayesianModule.sample_weights_and_kl

    def fixed(self: tb.BayesianModule, *, generator: object = None) -> tuple[dict[str, Tensor], Tensor]:
        del generator
        return drawn(self, generator=7)

    monkeypatch.setattr(tb.BayesianModule, "sample_weights_and_kl", fixed)


@any_family
@pytest.mark.usefixtures("_same_draw")
@pytest.mark.parametrize("clip", [None, 0.01])
def test_accumulated_batches_are_one_large_batch(family: str, clip: float | None) -> None:
    """Of unequal sizes, under one draw: terms, gradients and weights to rounding."""
    x, y = torch.cat([inputs for inputs, _ in batches()]), LABELS.repeat(4)
    model = bayesian("MLP", family=family)
    twin = copy.deepcopy(model)
    ours, theirs = (tb.TrainingStep(one, elbo(), sgd(one), clip=clip) for one in (model, twin))
    for _ in range(3):
        parts = ours.accumulate([(x[:1], y[:1]), (x[1:6], y[1:6]), (x[6:], y[6:])])
        whole = theirs(x, y)
        for one, other in zip(parts[:3], whole[:3], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=0.0)
        for one, other in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-10, atol=1e-14)
    assert ours.count == 3
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, twin.state_dict()[name], rtol=1e-10, atol=1e-14)


def test_every_batch_of_a_step_has_a_draw_of_its_own() -> None:
    model = bayesian("MLP")
    step = tb.TrainingStep(model, elbo(), sgd(model), generator=torch.Generator().manual_seed(3))
    source = torch.Generator().manual_seed(3)
    nlls = [elbo()(model, *batch, generator=source).nll for batch in batches(2)]
    terms = step.accumulate(batches(2))
    torch.testing.assert_close(terms.nll, torch.stack(nlls).mean().detach(), rtol=1e-12, atol=0.0)


def test_fit_takes_so_many_batches_per_step() -> None:
    model, twin = bayesian("MLP"), bayesian("MLP")
    optimizer = sgd(twin)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    step = tb.TrainingStep(model, elbo(), sgd(model), generator=1)
    step.optimizer.param_groups[0]["lr"] = 0.01
    expected = []
    for group in (batches()[:3], batches()[3:]):
        expected.append(step.accumulate(group).loss.item())
        for one in step.optimizer.param_groups:
            one["lr"] *= 0.5
    options = {"accumulate": 3, "generator": 1, "scheduler": scheduler, "progress": False}
    assert tb.fit(twin, elbo(), batches(), optimizer, **options).loss == expected
    assert same_tensors(model.state_dict(), twin.state_dict())


def test_a_plain_network_accumulates_too() -> None:
    net = nn.Linear(4, 2).double()
    twin = copy.deepcopy(net)
    objective = tb.MaximumLikelihood(tb.Categorical())
    ours, theirs = (tb.TrainingStep(one, objective, torch.optim.SGD(one.parameters(), lr=0.1)) for one in (net, twin))
    x, y = batches()[0]
    ours.accumulate([(x[:1], y[:1]), (x[1:], y[1:])])
    theirs(x, y)
    torch.testing.assert_close(net.weight, twin.weight, rtol=1e-12, atol=1e-14)


def test_no_batches_are_no_step() -> None:
    model = bayesian("MLP")
    with pytest.raises(ValueError, match=r"^`batches` \(=\[\]\) must have at least one batch; pass a list of"):
        tb.TrainingStep(model, elbo(), sgd(model)).accumulate([])


# precision


class Seeing(nn.Module):
    """Notes in what dtype it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.seen = nn.Linear(4, 2), []

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.layer(inputs)
        self.seen.append(outputs.dtype)
        return outputs


@pytest.mark.parametrize("accumulate", [1, 2])
def test_bfloat16_is_autocast_around_the_network_alone(accumulate: int) -> None:
    net = Seeing()
    model = tb.to_bayesian(net)
    data = [(inputs.float(), labels) for inputs, labels in batches()]
    options = {"precision": torch.bfloat16, "accumulate": accumulate, "progress": False}
    history = tb.fit(model, elbo(), data, sgd(model), **options)
    assert set(net.seen) == {torch.bfloat16}
    assert {p.dtype for p in model.parameters()} == {p.grad.dtype for p in model.parameters()} == {torch.float32}
    assert history.kl[0] == pytest.approx(tb.to_bayesian(nn.Linear(4, 2)).kl().item(), rel=1e-6)


def test_bfloat16_is_an_autocast_of_ones_own() -> None:
    torch.manual_seed(0)
    model = tb.to_bayesian(nn.Linear(4, 2))
    twin = copy.deepcopy(model)
    ours = tb.TrainingStep(model, elbo(), sgd(model), generator=1, precision=torch.bfloat16)
    theirs = tb.TrainingStep(twin, elbo(), sgd(twin), generator=1)
    for inputs, labels in batches():
        ours(inputs.float(), labels)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            theirs(inputs.float(), labels)
    assert same_tensors(model.state_dict(), twin.state_dict())
