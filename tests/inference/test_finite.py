"""A loss that is not finite ends a training in words, and what was learned before it is not lost."""

from __future__ import annotations

import math
import re
import weakref

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import bayesian, inputs_of, same_tensors
from tribayes.inference import ledger
from tribayes.inference.finite import first_bad

LABELS = torch.tensor([0, 1, 1])


def elbo(**options: object) -> tb.ELBO:
    return tb.ELBO(tb.Categorical(), **{"data_size": 12, **options})


def sgd(model: nn.Module, lr: float = 0.01) -> torch.optim.SGD:
    return torch.optim.SGD(tb.parameter_groups(model, lr=lr), momentum=0.9)


def batches(count: int, bad: int | None = None) -> list[tuple[Tensor, Tensor]]:
    data = [(inputs_of("MLP") + 0.1 * number, LABELS) for number in range(count)]
    if bad is not None:
        data[bad][0][1, 2] = math.nan
    return data


def state_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def test_one_bad_batch_leaves_everything_as_before_it() -> None:
    torch.manual_seed(0)
    model = tb.to_bayesian(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)).double())
    optimizer = sgd(model)
    step = tb.TrainingStep(model, elbo(), optimizer)
    for batch in batches(3):
        step(*batch)
    before, velocity = state_of(model), optimizer.state[model.module[0].weight]["momentum_buffer"].clone()
    text = (
        "the loss of step 3 is not finite: its nll is nan. Inputs of the batch hold NaN or infinity (1 of 12 entries). "
        "Nothing of this step was applied."
    )
    with pytest.raises(tb.NonFiniteLoss, match="^" + re.escape(text) + "$") as caught:
        step(*batches(3, bad=2)[2])
    assert (caught.value.step, math.isnan(caught.value.nll), math.isfinite(caught.value.kl)) == (3, True, True)
    assert same_tensors(model.state_dict(), before)  # statistics of BatchNorm, too
    assert torch.equal(optimizer.state[model.module[0].weight]["momentum_buffer"], velocity)
    assert step(*batches(1)[0]).loss.isfinite()


def test_a_step_that_failed_does_not_count() -> None:
    """So a schedule of `kl_weight` goes on where it was, and an error names the step that it was to be."""
    model, asked = bayesian("MLP"), list[int]()

    def schedule(step: int) -> float:
        asked.append(step)
        return 0.1

    step = tb.TrainingStep(model, elbo(kl_weight=schedule), sgd(model))
    good, bad = batches(1)[0], batches(1, bad=0)[0]
    step(*good)
    for call in (lambda: step(good[0], LABELS + 7), lambda: step(*bad), lambda: step.accumulate([good, bad])):
        with pytest.raises((ValueError, tb.NonFiniteLoss)):
            call()
        assert step.count == 1
    with pytest.raises(tb.NonFiniteLoss, match="the loss of step 1 is not finite"):
        step(*bad)
    step.accumulate([good, good])
    step(*good)
    assert step.count == 3
    assert asked == [0, 1, 1, 1, 1, 1, 2]


def test_fit_stops_at_the_bad_batch() -> None:
    model = bayesian("MLP")
    with pytest.raises(tb.NonFiniteLoss, match="the loss of step 5 is not finite: its nll is nan") as caught:
        tb.fit(model, elbo(), batches(8, bad=5), sgd(model), progress=False)
    assert caught.value.__notes__ == ["The weights are those from before that step."]
    twin = bayesian("MLP")
    assert all(value.isfinite().all() for value in model.state_dict().values())
    assert not same_tensors(model.state_dict(), twin.state_dict())


@pytest.mark.parametrize("prior", [tb.Prior(), tb.RelativePrior()])
def test_a_rate_too_high_is_said_to_be_one(prior: object) -> None:
    # float32, where torch used to speak of a value that cannot be converted without overflow
    torch.manual_seed(0)
    model = tb.to_bayesian(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), prior=prior)
    start = state_of(model)
    data = [(inputs_of("MLP").float(), LABELS)] * 300
    with pytest.raises(tb.NonFiniteLoss, match="is not finite: ") as caught:
        tb.fit(model, elbo(kl_weight=1.0), data, sgd(model, lr=1e12), progress=False)
    assert "a step before was too long" in str(caught.value) or "learning rate too high" in str(caught.value)
    assert all(value.isfinite().all() for value in model.state_dict().values())
    (note,) = caught.value.__notes__
    if "put back" in note:  # to the beginning: the first look comes after 200 steps
        assert same_tensors(model.state_dict(), start)


def test_a_last_update_that_ruins_the_weights_is_noticed() -> None:
    """The loss of that step was finite still."""

    class Ruin(torch.optim.SGD):
        def step(self, closure: object = None) -> None:
            super().step(closure)
            self.param_groups[0]["params"][0].data.fill_(math.inf)

    model = bayesian("MLP")
    before = state_of(model)
    with pytest.raises(
        tb.NonFiniteLoss, match="the weights after step 0 are not finite, though its loss was"
    ) as caught:
        tb.fit(model, elbo(), batches(1), Ruin(tb.parameter_groups(model, lr=0.1)), progress=False)
    assert "put back to those after 0 steps; make a new optimizer" in caught.value.__notes__[0]
    assert same_tensors(model.state_dict(), before)


def test_where_looking_waits_it_is_done_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: steps do not look, and the ledger every third time."""
    monkeypatch.setattr(ledger, "_STEPS_BETWEEN_LOOKS", 3)
    made = tb.TrainingStep.__init__

    def blind(self: tb.TrainingStep, *given: object, **options: object) -> None:
        made(self, *given, **options)
        self._looks = False

    monkeypatch.setattr(tb.TrainingStep, "__init__", blind)
    model, twin = bayesian("MLP"), bayesian("MLP")
    with pytest.raises(tb.NonFiniteLoss, match="the loss of step 7 is not finite: its nll is nan") as caught:
        tb.fit(model, elbo(), batches(20, bad=7), sgd(model), generator=1, progress=False)
    tb.fit(twin, elbo(), batches(6), sgd(twin), generator=1, progress=False)
    assert "put back to those after 6 steps" in caught.value.__notes__[0]
    assert same_tensors(model.state_dict(), twin.state_dict())


def test_a_loss_of_two_finite_terms_may_overflow() -> None:
    model = tb.to_bayesian(nn.Linear(4, 2), prior=tb.Prior(scale=1e-10))
    with torch.no_grad():
        model.module.weight.fill_(1e7)
    step = tb.TrainingStep(model, elbo(kl_weight=1e6), sgd(model))
    with pytest.raises(tb.NonFiniteLoss, match=r"nll \S+ and kl \S+ do not fit into one number"):
        step(1e-7 * inputs_of("MLP").float(), LABELS)


def test_the_first_bad_row_is_found() -> None:
    rows = torch.zeros(5, 3)
    assert first_bad(rows) is None
    rows[3, 2], rows[4, 0] = math.inf, math.nan
    assert first_bad(rows) == 3


# empty batches


@pytest.mark.parametrize("way", ["step", "objective", "fit", "accumulate"])
def test_an_empty_batch_is_refused(way: str) -> None:
    model, empty = bayesian("MLP"), (inputs_of("MLP")[:0], LABELS[:0])
    step = tb.TrainingStep(model, elbo(), sgd(model))
    ways = {
        "step": lambda: step(*empty),
        "objective": lambda: elbo()(model, *empty),
        "fit": lambda: tb.fit(model, elbo(), [empty], sgd(model), progress=False),
        "accumulate": lambda: step.accumulate([*batches(1), empty]),
    }
    text = "`targets` (=tensor of shape (0,), torch.int64) must have at least one example; leave empty batches out."
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        ways[way]()


# bounds, so that it does not come to this


BETWEEN = "must lie between 1e-10 and 1e10, since its square is computed with; it is "
BOUNDS = {
    "tau too large": (lambda: tb.to_bayesian(nn.Linear(2, 1), tau=1e30), f"`tau` (=1e+30) {BETWEEN}"),
    "tau too small": (lambda: tb.to_bayesian(nn.Linear(2, 1), tau=1e-50), f"`tau` (=1e-50) {BETWEEN}"),
    "prior": (lambda: tb.Prior(scale=1e-30), f"`scale` (=1e-30) {BETWEEN}a standard deviation, such as 1.0."),
    "prior by weight": (
        lambda: tb.Prior(scale=torch.tensor([1.0, 1e-30])),
        f"`scale` (=1.0000000031710769e-30 at (1,), 1 of 2 entries) {BETWEEN}a standard deviation.",
    ),
    "noise": (lambda: tb.Gaussian(noise=1e-30), f"`noise` (=1e-30) {BETWEEN}"),
    "kl_weight": (lambda: elbo(kl_weight=1e38), "`kl_weight` (=1e+38) must be at most 1e+06; 1.0 is the evidence"),
}


@pytest.mark.parametrize("case", BOUNDS)
def test_numbers_that_would_overflow_are_refused(case: str) -> None:
    make, text = BOUNDS[case]
    with pytest.raises(ValueError, match="^" + re.escape(text)):
        make()


def test_of_steps_that_were_looked_at_only_numbers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor for each would take half a kilobyte of a GPU per step, for as long as a training lasts."""
    monkeypatch.setattr(ledger, "_STEPS_BETWEEN_LOOKS", 3)
    model = bayesian("MLP")
    step = tb.TrainingStep(model, elbo(), sgd(model))
    book, told, alive = ledger.Ledger(step), [], []
    for batch in batches(7):
        row = book.add(step(*batch))
        told.append(row.tolist())
        alive.append(weakref.ref(row))
    del row
    assert [one() is not None for one in alive] == [False] * 6 + [True]
    history = book.history()
    assert [list(row) for row in zip(history.loss, history.nll, history.kl, strict=True)] == told
