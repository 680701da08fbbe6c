"""Pixels, tokens and several questions: each position is what (N, C) would say of it alone."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.prediction.models import cut_chunks, predict, predictive, refused, seeded
from tribayes.prediction.classification import confidently_wrong
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import Kept, quantiles

N, C, H, W, T = 5, 3, 2, 4, 6
IGNORED = -100


def images(count: int = N, seed: int = 1) -> Tensor:
    return torch.randn(count, 2, H, W, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def words(count: int = N, seed: int = 1) -> Tensor:
    return torch.randint(7, (count, T), generator=torch.Generator().manual_seed(seed))


def segmenter() -> tb.BayesianModule:
    """(N, 2, H, W) → (N, C, H, W)."""
    return tb.to_bayesian(seeded(lambda: nn.Conv2d(2, C, 3, padding=1)), tau=0.5, generator=0)


def tagger() -> tb.BayesianModule:
    """(N, T) → (N, T, C)."""
    return tb.to_bayesian(seeded(lambda: nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, C))), tau=0.5, generator=0)


CASES = {
    "pixels": (segmenter, images, tb.Categorical(ignore_index=IGNORED)),
    "tokens": (tagger, words, tb.Categorical(class_axis=-1, ignore_index=IGNORED)),
}


def labels(pred: tb.ClassPredictive) -> Tensor:
    """Some truth, partly ignored."""
    truth = torch.arange(pred.label.numel()).reshape(pred.label.shape) % C
    return truth.where(truth.cumsum(-1) % 5 != 0, IGNORED)


@pytest.mark.parametrize("name", CASES)
class TestPositions:
    """The same as a table with one row per position."""

    def _both(self, name: str, samples: int = 12) -> tuple[tb.ClassPredictive, tb.ClassPredictive]:
        model, asked, likelihood = CASES[name]
        pred = predict(model(), asked(), samples, likelihood=likelihood)
        last = pred.samples.movedim(2 if likelihood.class_axis == 1 else -1, -1)
        return pred, predictive(last.reshape(samples, -1, C))

    def test_shapes_are_those_of_the_logits(self, name: str) -> None:
        pred, _ = self._both(name)
        shape, space = ((N, C, H, W), (N, H, W)) if name == "pixels" else ((N, T, C), (N, T))
        assert pred.mean.shape == pred.std.shape == pred.interval()[0].shape == shape
        assert pred.samples.shape == (12, *shape)
        assert pred.monte_carlo_error().lower.shape == shape
        for one in (pred.label, pred.certain(0.95), pred.entropy, pred.aleatoric, pred.epistemic, pred.confidence):
            assert one.shape == space
        torch.testing.assert_close(pred.mean.sum(pred.class_axis), torch.ones(space, dtype=torch.float64))
        extent = "5 examples of 2 × 4, 3 classes" if name == "pixels" else "5 examples of 6, 3 classes"
        assert repr(pred) == f"ClassPredictive({extent}, 12 sampled networks)"

    def test_every_position_is_answered_as_an_example(self, name: str) -> None:
        pred, table = self._both(name)
        for question in ("label", "confidence", "entropy", "aleatoric", "epistemic"):
            torch.testing.assert_close(getattr(pred, question).flatten(), getattr(table, question))
        assert torch.equal(pred.certain(0.9).flatten(), table.certain(0.9))
        assert 0 < int(pred.certain(0.9).sum()) < pred.label.numel()
        for score in ("std", "confidence"):
            torch.testing.assert_close(pred.uncertainty(score).flatten(), table.uncertainty(score))

    def test_the_summary_is_over_all_positions_but_the_ignored(self, name: str) -> None:
        pred, table = self._both(name)
        truth = labels(pred)
        seen = (truth != IGNORED).flatten()
        assert 0 < int(seen.sum()) < len(seen)
        expected = predictive(table.samples[:, seen]).summary(truth.flatten()[seen])
        found = pred.summary(truth)
        assert found.examples == int(seen.sum())
        assert found.counts == expected.counts
        assert found.nll == pytest.approx(expected.nll)
        assert found.error == expected.error
        assert not pred.correct(truth)[truth == IGNORED].any()

    def test_chunks_and_dropped_samples_change_nothing(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model, asked, likelihood = CASES[name]
        pred, _ = self._both(name)
        cut_chunks(monkeypatch, 2, 12, width=pred.mean[0].numel())
        dropped = predict(model(), asked(), 12, likelihood=likelihood, keep_samples=False)
        torch.testing.assert_close(dropped.mean, pred.mean, rtol=1e-12, atol=1e-15)
        torch.testing.assert_close(dropped.interval()[1], pred.interval()[1], rtol=1e-12, atol=1e-15)
        assert torch.equal(dropped.certain(), pred.certain())
        torch.testing.assert_close(dropped.aleatoric, pred.aleatoric, rtol=1e-12, atol=1e-15)

    def test_parts_are_put_together(self, name: str) -> None:
        model, asked, likelihood = CASES[name]
        pred, _ = self._both(name)
        parts = [predict(model(), asked(), numbers, likelihood=likelihood) for numbers in (range(5), range(5, 12))]
        assert torch.equal(tb.Predictive.merge(parts).samples, pred.samples)
        halves = [predict(model(), part, 12, likelihood=likelihood) for part in asked().split(3)]
        torch.testing.assert_close(tb.Predictive.merge(halves, along="examples").mean, pred.mean)

    def test_as_many_samples_as_it_takes(self, name: str) -> None:
        model, asked, likelihood = CASES[name]
        pred = predict(model(), asked(), tb.AutoSamples(tolerance=0.5, cap=100), likelihood=likelihood)
        assert pred.sample_count in (50, 100)

    def test_it_learns(self, name: str) -> None:
        make, ask, likelihood = CASES[name]
        model, x = make(), ask(40)
        y = torch.cat([x, -x.sum(1, keepdim=True)], dim=1).argmax(1) if name == "pixels" else x % C
        optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.1))
        hidden = y.clone()
        hidden[::5] = IGNORED
        step = tb.TrainingStep(model, tb.ELBO(likelihood, data_size=40), optimizer)
        for _ in range(120):
            step(x, hidden)
        pred = predict(model, x, 20)
        assert isinstance(pred, tb.ClassPredictive)
        assert pred.summary(y).error < 0.1

    def test_calibration_weighs_examples_by_what_is_judged_of_them(self, name: str) -> None:
        make, ask, likelihood = CASES[name]
        model, x = make(), ask(30)
        pred = predict(model, x, 5, likelihood=likelihood)
        truth = labels(pred)
        found = tb.calibrate(model, x, truth, likelihood, samples=5, progress=False)
        chosen = pred.class_last.gather(-1, truth.clamp(min=0).unsqueeze(-1)).squeeze(-1).log()
        seen = (truth != IGNORED).reshape(30, -1)
        expected = (-(chosen.reshape(30, -1) * seen).sum(1) / seen.sum(1)).mean()
        assert found.before == pytest.approx(float(expected))
        assert found.after <= found.before

    def test_what_is_for_one_label_is_refused(self, name: str) -> None:
        pred, _ = self._both(name)
        remedy = "see pred.label, pred.certain and pred.summary for every position."
        with refused(f"`pred` (={pred!r}) must have one label per example, (N, C), for conformal scores; {remedy}"):
            tb.conformalise(pred, labels(pred))
        with pytest.raises(ValueError, match="must have one label per example"):
            confidently_wrong(pred, labels(pred))

    def test_targets_of_another_form_are_refused(self, name: str) -> None:
        pred, _ = self._both(name)
        shape, axis = tuple(pred.mean.shape), pred.class_axis
        requirement = (
            f"have the shape {tuple(pred.label.shape)} for probabilities {shape} with the classes on axis {axis}"
        )
        with refused(
            f"`targets` (=tensor of shape (5,), torch.int64) must {requirement}; check the order of the data."
        ):
            pred.summary(torch.zeros(5, dtype=torch.int64))
        with pytest.raises(ValueError, match=r"must lie in \[0, 3\)"):
            pred.summary(torch.full(pred.label.shape, C))
        with pytest.raises(ValueError, match="must hold other labels than -100, which is ignored"):
            pred.summary(torch.full(pred.label.shape, IGNORED))


def test_moments_answer_small_texts_and_refuse_large_pictures() -> None:
    net = seeded(lambda: nn.Sequential(nn.Linear(4, 2 * C), nn.Unflatten(1, (2, C))))
    model, x = tb.to_bayesian(net, tau=0.1, generator=0), torch.randn(4, 4).double()
    likelihood = tb.Categorical(class_axis=-1)
    by_moments, many = (predict(model, x, who, likelihood=likelihood) for who in (tb.Moments(), 2000))
    # 24 means of 2,000 networks, one linear layer: off by more than 6 standard errors and 0.003 with probability < 1e-6
    assert ((by_moments.mean - many.mean).abs() < 6 * many.std / 2000**0.5 + 0.003).all()
    wide = tb.to_bayesian(nn.Conv2d(1, 3, 1))
    text = (
        "`samples` (='Moments()') must come with at most 1,024 outputs per example, but the model has 3,072; "
        "draw networks instead, e.g. samples=200."
    )
    with refused(text):
        predict(wide, torch.zeros(1, 1, 32, 32), tb.Moments())


def test_moments_of_a_small_picture_are_those_of_its_convolution() -> None:
    """Var y = τ² (m² x² + b²) at every pixel, at ρ = 0; pixels are taken for independent."""
    net = seeded(lambda: nn.Conv2d(1, 2, 1))
    model, x = tb.to_bayesian(net, tau=0.1, generator=0), torch.randn(4, 1, 3, 3).double()
    pred = predict(model, x, tb.Moments(), likelihood=tb.Gaussian())
    weight, bias = net.weight.flatten()[:, None, None], net.bias[:, None, None]
    variance = 0.01 * ((weight * x).square() + bias.square())
    torch.testing.assert_close(pred.mean, (weight * x + bias).flatten(1).detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(pred.samples.var(0, correction=1), variance.flatten(1).detach(), rtol=1e-6, atol=1e-9)


def test_values_of_pixels_are_compared_with_a_picture() -> None:
    model, x = tb.to_bayesian(seeded(lambda: nn.Conv2d(1, 1, 1)), generator=0), torch.randn(4, 1, 3, 3).double()
    pred, truth = predict(model, x, 5, likelihood=tb.Gaussian()), torch.randn(4, 1, 3, 3)
    assert pred.summary(truth).as_dict() == pred.summary(truth.flatten(1)).as_dict()
    assert torch.equal(pred.log_density(truth), pred.log_density(truth.flatten(1)))
    with refused(
        "`targets` (=tensor of shape (4, 3, 3, 2), torch.float32) must have the shape (4, 9), one row per "
        "example; check the data."
    ):
        pred.summary(torch.zeros(4, 3, 3, 2))


def test_quantiles_of_one_large_example_are_sorted_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = torch.rand(10, 2, 3, 4, dtype=torch.float64)
    whole = quantiles(samples, (0.1, 0.77))
    assert whole.shape == (2, 2, 3, 4)
    torch.testing.assert_close(whole[1], samples.quantile(0.77, dim=0))
    import tribayes.prediction.source as source

    monkeypatch.setattr(source, "_ENTRIES_AT_ONCE", 30)
    torch.testing.assert_close(quantiles(samples, (0.1, 0.77)), whole, rtol=1e-15, atol=0)


class TestLabels:
    """Several answers yes or no for each example."""

    def _pred(self) -> tb.LabelPredictive:
        model = tb.to_bayesian(seeded(lambda: nn.Linear(2, 4)), tau=0.5, generator=0)
        x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0)).double()
        return predict(model, x, 12, likelihood=tb.MultiLabel())

    def test_an_answer_is_that_of_a_bernoulli_alone(self) -> None:
        pred = self._pred()
        assert repr(pred) == "LabelPredictive(20 examples, 4 labels, 12 sampled networks)"
        for label in range(4):
            chances = pred.samples[..., label]
            alone = predictive(torch.stack([1 - chances, chances], dim=-1))
            torch.testing.assert_close(pred.mean[:, label], alone.mean[:, 1])
            torch.testing.assert_close(pred.interval(0.9)[0][:, label], alone.interval(0.9)[0][:, 1])
            assert torch.equal(pred.label[:, label], alone.label)
            assert torch.equal(pred.certain(0.9)[:, label], alone.certain(0.9))
            for question in ("entropy", "aleatoric", "epistemic", "confidence"):
                torch.testing.assert_close(getattr(pred, question)[:, label], getattr(alone, question))

    def test_certain_is_to_be_on_one_side_of_one_half(self) -> None:
        pred = self._pred()
        lower, upper = pred.interval(0.9)
        assert torch.equal(pred.certain(0.9), (lower > 0.5) | (upper < 0.5))
        assert 0 < int(pred.certain(0.9).sum()) < 80

    def test_the_summary_counts_all_answers(self) -> None:
        pred = self._pred()
        truth = torch.arange(80).reshape(20, 4) % 2
        summary = pred.summary(truth)
        assert summary.examples == 80
        assert summary.error == float(((pred.mean > 0.5) != truth.bool()).double().mean())
        own = pred.mean.where(truth.bool(), 1 - pred.mean)
        assert summary.nll == pytest.approx(-float(own.log().mean()))
        assert pred.summary(truth.bool()) == pred.summary(truth.double()) == summary

    def test_it_is_asked_in_every_way(self) -> None:
        model = tb.to_bayesian(seeded(lambda: nn.Linear(2, 4)), tau=0.2, generator=0)
        x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0)).double()
        ask = partial(predict, model, x, likelihood=tb.MultiLabel())
        whole, dropped = ask(12), ask(12, keep_samples=False)
        assert torch.equal(dropped.interval()[0], whole.interval()[0])
        assert torch.equal(tb.Predictive.merge([ask(range(4)), ask(range(4, 12))]).mean, whole.mean)
        assert ask(tb.AutoSamples(tolerance=0.5, cap=100)).sample_count in (50, 100)
        many = ask(1000)
        # 80 means of 1,000 networks: off by more than 6 standard errors and 0.003 with probability below 1e-6
        assert ((ask(tb.Moments()).mean - many.mean).abs() < 6 * many.std / 1000**0.5 + 0.003).all()
        truth = torch.arange(160).reshape(40, 4) % 2
        found = tb.calibrate(model, torch.cat([x, -x]), truth, tb.MultiLabel(), samples=5, progress=False)
        assert found.after < found.before
        with pytest.raises(ValueError, match="must have one label per example"):
            tb.conformalise(whole, truth[:20])

    def test_targets_that_are_no_answers_are_refused(self) -> None:
        pred = self._pred()
        with refused("`targets` (=2 at (0, 0), 80 of 80 entries) must be 0 or 1; 1 is yes."):
            pred.summary(torch.full((20, 4), 2))
        with refused(
            "`targets` (=tensor of shape (20,), torch.float32) must have the shape (20, 4), one answer per label; "
            "check the data."
        ):
            pred.summary(torch.zeros(20))
        with refused(
            "`outputs` (=tensor of shape (3,), torch.float32) must have the shape (N, L); "
            "see tb.Bernoulli for one answer per example."
        ):
            tb.MultiLabel().response(torch.zeros(3))


def test_a_table_is_answered_bit_by_bit_as_by_softmax() -> None:
    """What (N, C) was before there were other shapes: softmax, float64 mean, order statistics, entropies."""
    samples = torch.randn(9, 7, 3, generator=torch.Generator().manual_seed(0)).softmax(-1)
    pred = tb.ClassPredictive(Kept(samples), Drawn(0, tuple(range(9))))
    assert pred.samples is samples
    assert torch.equal(pred.mean, samples.double().mean(0).float())
    ordered = samples.sort(0).values
    assert torch.equal(pred.interval(0.5)[0], ordered[2])
    assert torch.equal(pred.std, samples.std(0))
    assert torch.equal(pred.aleatoric, torch.special.entr(samples).sum(-1).mean(0))
    logits = torch.randn(7, 3)
    assert torch.equal(tb.Categorical().response(logits), logits.softmax(-1))
    assert math.isfinite(pred.summary(pred.label).nll)
