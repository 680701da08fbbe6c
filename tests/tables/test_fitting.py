"""From rows to a network whose intervals hold: each part of the rows does its own work and no other."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tribayes.posterior import Stream
from tribayes.tables import FittedTable, Recipe, fit_table, fitting
from tribayes.tables.fitting import ENOUGH, FEWEST, MOST, _parted, _widen

SHORT = Recipe(steps=20, samples=5)


@pytest.fixture(scope="module")
def rows() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(160, 3, generator=generator, dtype=torch.float64)
    return x, 50 + 10 * x[:, 0] + torch.randn(160, generator=generator, dtype=torch.float64)


@pytest.fixture(scope="module")
def fitted(rows: tuple[Tensor, Tensor]) -> FittedTable:
    return fit_table(*rows, recipe=SHORT)


def state(fitted: FittedTable) -> dict[str, Tensor]:
    return fitted.model.state_dict()


def test_units_do_not_matter(rows: tuple[Tensor, Tensor], fitted: FittedTable) -> None:
    x, y = rows
    other = fit_table(x * 1024 - 3, y * 64 + 1000, recipe=SHORT)
    for bound, moved in zip(fitted.intervals(x[:5]), other.intervals(x[:5] * 1024 - 3), strict=True):
        torch.testing.assert_close(bound * 64 + 1000, moved, rtol=1e-6, atol=0)
    _, std = fitted.mean_and_std(x[:5])
    torch.testing.assert_close(other.mean_and_std(x[:5] * 1024 - 3)[1], std * 64, rtol=1e-6, atol=0)


def test_rows_kept_aside_teach_the_guarantee_and_nothing_else(rows: tuple[Tensor, Tensor], fitted: FittedTable) -> None:
    x, y = rows
    aside, _ = _parted(len(x), Stream((0, "table")).generator(torch.device("cpu")))
    changed, moved = y.clone(), x.clone()
    changed[aside] += 1000.0
    moved[aside] *= 1.5
    other = fit_table(moved, changed, recipe=SHORT)
    assert all(torch.equal(value, state(other)[name]) for name, value in state(fitted).items())
    assert torch.equal(fitted.mean_and_std(x)[0], other.mean_and_std(x)[0])
    assert other.conformal is not None
    assert fitted.conformal is not None
    assert other.conformal.threshold(0.95) > 10 * fitted.conformal.threshold(0.95)


@pytest.mark.parametrize(("total", "count"), [(120, 39), (200, 39), (201, 59), (442, 99), (100_000, 1999)])
def test_a_part_is_a_fifth_that_fits_the_levels(total: int, count: int) -> None:
    part, others = _parted(total, torch.Generator())
    assert len(part) == count
    assert FEWEST <= count + 1 <= MOST
    assert math.isclose(math.ceil((count + 1) * 0.95 - 1e-9) / (count + 1), 0.95)  # a rank that promises 95 % exactly
    assert sorted([*part.tolist(), *others.tolist()]) == list(range(total))


@pytest.mark.parametrize(("losses", "winner"), [((1.0, 2.0, 3.0), 0.5), ((3.0, 1.0, 2.0), 1.0), ((1.0, 1.0, 0.5), 0.1)])
def test_the_weight_with_the_least_loss_after_calibration_is_used(
    monkeypatch: pytest.MonkeyPatch, rows: tuple[Tensor, Tensor], losses: tuple[float, ...], winner: float
) -> None:
    left = iter(losses)

    def judged(*args: Any, **options: Any) -> tb.Calibration:
        return replace(tb.calibrate(*args, **options), after=next(left), noise_factor=3.0)

    monkeypatch.setattr(fitting, "calibrate", judged)
    fitted = fit_table(*rows, recipe=replace(SHORT, kl_weights=(0.5, 1.0, 0.1)))
    assert fitted.kl_weight == winner
    assert fitted.trials == dict(zip((0.5, 1.0, 0.1), losses, strict=True))
    unchanged = fit_table(*rows, recipe=replace(SHORT, kl_weights=(winner,), calibrate=False))
    x, _ = rows
    assert fitted.predict(x).noise > 2 * unchanged.predict(x).noise  # it got the change of widths, too


def test_the_change_of_widths_goes_over_to_another_network() -> None:
    torch.manual_seed(0)
    likelihood = tb.Gaussian(0.1, learned=True)
    model = tb.to_bayesian(nn.Linear(3, 1))
    tb.ELBO(likelihood, data_size=50).stage(model)  # so that the model knows its likelihood
    other = copy.deepcopy(model)
    x, y = torch.randn(50, 3), torch.randn(50, 1)
    calibration = tb.calibrate(model, x, y, progress=False)
    assert calibration.noise_factor > 2
    _widen(other, calibration)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value)
    ours, theirs = (tb.predict(one, x, 5, progress=False) for one in (model, other))
    torch.testing.assert_close(ours.std, theirs.std)


def test_the_density_is_that_of_the_mixture_in_units_of_the_targets(
    rows: tuple[Tensor, Tensor], fitted: FittedTable
) -> None:
    x, y = rows
    assert fitted.targets is not None
    pred = fitted.predict(x)
    places = fitted.targets.back(pred.samples)[:, :, 0]
    law = torch.distributions.Normal(places, pred.noise * fitted.targets.spread)
    expected = law.log_prob(y).logsumexp(0) - math.log(len(places))
    torch.testing.assert_close(fitted.log_density(x, y), expected)


def test_several_values_at_once(rows: tuple[Tensor, Tensor]) -> None:
    x, y = rows
    fitted = fit_table(x, torch.stack([y, -3 * y], dim=1), recipe=SHORT)
    lower, upper = fitted.intervals(x, 0.9)
    assert lower.shape == upper.shape == (160, 2)
    assert (lower < upper).all()
    assert fitted.log_density(x, torch.stack([y, -3 * y], dim=1)).shape == (160,)


def test_classes_have_sets(rows: tuple[Tensor, Tensor]) -> None:
    x, _ = rows
    labels = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    fitted = fit_table(x, labels, recipe=SHORT)
    assert fitted.conformal is not None
    assert torch.equal(fitted.sets(x, 0.9), fitted.conformal.sets(fitted.predict(x), 0.9))
    plain = fit_table(x, labels, classes=4, recipe=Recipe(steps=20, samples=5, calibrate=False))
    sets, shares = plain.sets(x, 0.9), plain.predict(x).mean
    assert sets.shape == (160, 4)
    gathered = (shares * sets).sum(1)
    smallest = torch.where(sets, shares, 1.0).amin(1)
    assert (gathered >= 0.9).all()
    assert (gathered - smallest < 0.9).all()
    with pytest.raises(ValueError, match="asked for values, but classes were learned"):
        plain.intervals(x)


def test_without_held_out_rows_the_posterior_answers(rows: tuple[Tensor, Tensor]) -> None:
    x, y = rows
    plain = fit_table(x, y, recipe=Recipe(steps=20, samples=5, calibrate=False))
    assert (plain.rows, plain.conformal, plain.kl_weight) == (160, None, 1.0)
    assert plain.targets is not None
    own = plain.predict(x).observation_interval(0.9)
    for bound, expected in zip(plain.intervals(x, 0.9), own, strict=True):
        torch.testing.assert_close(bound, plain.targets.back(expected))
    with pytest.raises(ValueError, match="asked for their classes, but values were learned"):
        plain.sets(x)


def test_few_rows_are_said_to_be_few(rows: tuple[Tensor, Tensor]) -> None:
    x, y = (part[: ENOUGH - 1] for part in rows)
    with pytest.warns(UserWarning, match=r"119 rows are too few .* 120 rows would do; calibrate=False says that you"):
        fitted = fit_table(x, y, recipe=SHORT)
    assert fitted.conformal is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_table(x, y, recipe=Recipe(steps=20, samples=5, calibrate=False))


def test_a_seed_decides_everything_and_nothing_else_is_touched(
    rows: tuple[Tensor, Tensor], fitted: FittedTable
) -> None:
    before = torch.random.get_rng_state()
    again, other = fit_table(*rows, recipe=SHORT), fit_table(*rows, recipe=SHORT, seed=1)
    assert torch.equal(torch.random.get_rng_state(), before)
    x, _ = rows
    assert torch.equal(again.mean_and_std(x)[0], fitted.mean_and_std(x)[0])
    assert not torch.equal(other.mean_and_std(x)[0], fitted.mean_and_std(x)[0])


def test_a_row_is_answered_alike_in_any_company(rows: tuple[Tensor, Tensor], fitted: FittedTable) -> None:
    x, _ = rows
    torch.testing.assert_close(fitted.mean_and_std(x[:1])[0], fitted.mean_and_std(x)[0][:1], rtol=1e-12, atol=0)
    kept = pickle.loads(pickle.dumps(fitted))
    assert torch.equal(kept.intervals(x)[1], fitted.intervals(x)[1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"network": nn.Linear(3, 1)}, "`network` .* must be a function of the numbers of inputs and outputs; pass"),
        ({"kl_weights": ()}, r"`kl_weights` \(=\(\)\) must have at least one"),
        ({"steps": 0}, r"`steps` \(=0\) must be at least 1"),
        ({"samples": 1}, r"`samples` \(=1\) must be at least 2"),
        ({"lr": -1.0}, r"`lr` \(=-1.0\) must be finite and positive"),
        ({"device": "gpu"}, r"`device` \(='gpu'\) must be one that torch knows; pass"),
        ({"device": None}, r"`device` \(=None\) must be text"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        Recipe(**change)


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"`device` \(='cuda:0'\) must be there, but torch sees no GPU"):
        Recipe(device="cuda:0")


def test_a_table_that_cannot_be_is_refused(rows: tuple[Tensor, Tensor]) -> None:
    x, y = rows
    with pytest.raises(ValueError, match=r"`inputs` .* must have the shape \(N, d\) with N = 159"):
        fit_table(x, y[1:])
    with pytest.raises(ValueError, match=r"`targets` \(=nan at \(0,\), 1 of 160 entries\) must be finite; fill in"):
        fit_table(x, y.where(torch.arange(160) > 0, torch.nan))
    with pytest.raises(TypeError, match=r"`inputs` .* must be a tensor"):
        fit_table(x.tolist(), y)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ValueError, match=r"`targets` .* must have rows"):
        fit_table(x, y[:0])
    with pytest.raises(ValueError, match=r"`targets` \(=0\.5 at \(1,\), .+ must be whole numbers where they are"):
        fit_table(x, torch.arange(160) % 5 / 2, classes=3)  # 0.5 became class 0
    for labels, classes in ((torch.arange(160) * 1000, None), (torch.arange(160), 10**30)):
        with pytest.raises(ValueError, match=r"`classes` \(=1\d+\) must be at most 10,000; number the classes from 0"):
            fit_table(x, labels, classes=classes)


def test_rows_that_were_computed_from_what_learns_are_taken_as_numbers(rows: tuple[Tensor, Tensor]) -> None:
    x, y = rows
    recipe = Recipe(steps=3, samples=2, calibrate=False)
    for given in ((x * torch.ones((), requires_grad=True), y), (x, y * torch.ones((), requires_grad=True))):
        assert fit_table(*given, recipe=recipe).predict(x[:3]).mean.isfinite().all()
    assert fit_table(x, (torch.arange(160) % 3).to(torch.uint16), recipe=recipe).predict(x[:3]).mean.shape == (3, 3)
