"""Metrics against loops over examples and pairs, and against scikit-learn."""

import itertools
import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from tests.prediction import brute
from tests.prediction.models import dirichlet, predictive, refused
from tribayes import metrics


def numbers(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def coins(count: int, seed: int = 1) -> Tensor:
    return numbers(count, seed) > 0.5


PROBABILITIES = dirichlet(1, 60, 4)[0]
TARGETS = torch.arange(60) % 4
RIGHT = (PROBABILITIES.argmax(-1) == TARGETS).tolist()


class TestProbabilities:
    def test_negative_log_likelihood(self) -> None:
        expected = brute.negative_log_likelihood(PROBABILITIES.numpy(), TARGETS.tolist())
        assert metrics.negative_log_likelihood(PROBABILITIES, TARGETS) == pytest.approx(expected, rel=1e-13)

    def test_an_impossible_truth_is_not_infinitely_surprising(self) -> None:
        """A float32 that underflowed counts as the smallest normal one, 2⁻¹²⁶."""
        nll = metrics.negative_log_likelihood(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        assert nll == pytest.approx(126 * math.log(2), rel=1e-12)

    def test_brier_score(self) -> None:
        expected = brute.brier(PROBABILITIES.numpy(), TARGETS.tolist())
        assert metrics.brier_score(PROBABILITIES, TARGETS) == pytest.approx(expected, rel=1e-13)

    def test_brier_score_ranges_from_0_to_2(self) -> None:
        assert metrics.brier_score(torch.eye(3), torch.tensor([0, 1, 2])) == 0
        assert metrics.brier_score(torch.eye(3), torch.tensor([1, 2, 0])) == 2

    @pytest.mark.parametrize("bins", [1, 7, 15])
    def test_calibration_error(self, bins: int) -> None:
        confidence = PROBABILITIES.max(-1).values.tolist()
        expected = brute.calibration_error(confidence, RIGHT, bins)
        assert metrics.calibration_error(PROBABILITIES, TARGETS, bins) == pytest.approx(expected, rel=1e-6)

    def test_calibration_error_counts_full_confidence(self) -> None:
        sure = torch.eye(2).repeat(2, 1)
        assert metrics.calibration_error(sure, torch.tensor([0, 1, 0, 0])) == pytest.approx(0.25)


class TestReliability:
    @pytest.mark.parametrize("bins", [1, 7, 15])
    def test_bins_are_the_brute_force_ones(self, bins: int) -> None:
        found = metrics.reliability(PROBABILITIES, TARGETS, bins)
        rows = brute.calibration(PROBABILITIES.max(-1).values.tolist(), RIGHT, bins)
        count, confidence, accuracy = zip(*rows, strict=True)
        assert found.count.tolist() == list(count)
        np.testing.assert_allclose(found.confidence, confidence, rtol=1e-12)  # NaN where there is nobody
        np.testing.assert_allclose(found.accuracy, accuracy, rtol=1e-12)
        np.testing.assert_allclose(found.edges, [b / bins for b in range(bins + 1)], rtol=1e-15)

    def test_everyone_is_in_one_bin(self) -> None:
        found = metrics.reliability(PROBABILITIES, TARGETS)
        there = found.count > 0
        assert found.count.sum() == 60
        assert (found.confidence * found.count)[there].sum() == pytest.approx(PROBABILITIES.max(-1).values.sum())
        assert (found.accuracy * found.count)[there].sum() == pytest.approx(sum(RIGHT))
        assert torch.isnan(found.accuracy[~there]).all()

    def test_a_bin_includes_its_upper_edge(self) -> None:
        found = metrics.reliability(torch.tensor([[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]]), torch.tensor([0, 0, 0]), 4)
        assert found.count.tolist() == [0, 1, 1, 1]

    def test_it_holds_the_calibration_error(self) -> None:
        found = metrics.reliability(PROBABILITIES, TARGETS)
        gaps = ((found.confidence - found.accuracy).abs() * found.count).nansum() / 60
        assert metrics.calibration_error(PROBABILITIES, TARGETS) == pytest.approx(float(gaps), rel=1e-6)

    def test_calibrated_predictions_have_a_small_error(self) -> None:
        """Labels drawn from the probabilities themselves. The error is at most Σ_b √(n_b/4)/N ≤ √(B/4N) on average;
        three times that fails less than once in 1e6 seeds by McDiarmid's inequality, N = 20,000.
        """
        probabilities = dirichlet(1, 20_000, 3)[0]
        uniform = torch.rand(20_000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        targets = (probabilities.cumsum(-1) < uniform).sum(-1).clamp(max=2)
        assert metrics.calibration_error(probabilities, targets) < 3 * math.sqrt(15 / (4 * 20_000))
        overconfident = (4 * probabilities.log()).softmax(-1)
        assert metrics.calibration_error(overconfident, targets) > 0.1


class TestAuroc:
    @pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12])
    def test_scores_of_any_size(self, scale: float) -> None:
        score, positive = numbers(40) * scale, coins(40)
        found = metrics.auroc(score, positive)
        assert found == pytest.approx(brute.auroc(score.tolist(), positive.tolist()), abs=1e-12)
        assert found == pytest.approx(roc_auc_score(positive, score), abs=1e-12)

    def test_ties_count_half(self) -> None:
        score, positive = (numbers(40) * 1.5).round(), coins(40)
        assert len(score.unique()) < 10
        expected = brute.auroc(score.tolist(), positive.tolist())
        assert metrics.auroc(score, positive) == pytest.approx(expected, abs=1e-12)

    def test_scores_that_differ_in_the_last_digit_are_no_ties(self) -> None:
        score = 1 + torch.arange(4, dtype=torch.float64) * 2**-52
        assert metrics.auroc(score, torch.tensor([False, False, True, True])) == 1

    def test_perfect_reversed_and_blind_scores(self) -> None:
        positive = torch.tensor([False, True, True])
        assert metrics.auroc(torch.tensor([-5.0, 3.0, 7.0]), positive) == 1
        assert metrics.auroc(torch.tensor([9.0, 3.0, 7.0]), positive) == 0
        assert metrics.auroc(torch.zeros(3), positive) == 0.5

    @pytest.mark.parametrize("positives", [1, 3, 9])
    def test_a_constant_score_tells_nothing(self, positives: int) -> None:
        assert metrics.auroc(torch.full((10,), 0.3), torch.arange(10) < positives) == 0.5

    def test_values_known_from_counting_pairs(self) -> None:
        """Four wins and two ties in six pairs; then two wins and two ties in four."""
        score, positive = torch.tensor([1.0, 2, 2, 3, 2]), torch.tensor([False, True, False, True, False])
        assert metrics.auroc(score, positive) == pytest.approx((1 + 0.5 + 0.5 + 3) / 6)
        score, positive = torch.tensor([5, 5, 7, 5]), torch.tensor([True, False, True, False])
        assert metrics.auroc(score, positive) == pytest.approx((0.5 + 0.5 + 2) / 4)

    @pytest.mark.parametrize("seed", range(20))
    def test_every_mixture_of_ties_is_the_double_loop(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        score = torch.randint(0, 1 + seed, (30,), generator=generator)
        positive = torch.rand(30, generator=generator) < 0.3
        expected = brute.auroc(score.tolist(), positive.tolist())
        for dtype in (torch.int64, torch.float16, torch.float64):
            assert metrics.auroc(score.to(dtype), positive) == pytest.approx(expected, abs=1e-14)

    def test_whole_numbers_beyond_a_floats_digits_are_told_apart(self) -> None:
        score = torch.tensor([2**53, 2**53 + 1])
        assert metrics.auroc(score, torch.tensor([False, True])) == 1

    def test_wrong_against_right_by_every_score(self) -> None:
        pred = predictive(dirichlet(20, 60, 4))
        wrong = ~pred.correct(TARGETS)
        for name in ("entropy", "aleatoric", "epistemic", "confidence", "std"):
            score = pred.uncertainty(name)
            assert metrics.auroc(score, wrong) == pytest.approx(roc_auc_score(wrong, score), abs=1e-6)

    def test_foreign_against_familiar(self) -> None:
        inside, outside = numbers(30), numbers(20, seed=2) + 1
        truth = [False] * 30 + [True] * 20
        expected = brute.auroc([*inside.tolist(), *outside.tolist()], truth)
        assert metrics.out_of_distribution_auroc(inside, outside) == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize("kind", [True, False])
    def test_one_kind_alone_cannot_be_told_apart(self, kind: bool) -> None:
        positive = torch.full((4,), kind)
        assert metrics.auroc_or_none(numbers(4), positive) is None
        with refused(
            f"`positive` (='{4 * kind} of 4') must hold both kinds; there is nothing to tell apart.",
        ):
            metrics.auroc(numbers(4), positive)


class TestRiskCoverage:
    @pytest.mark.parametrize("uncertainty", [[0.3, 0.1, 0.5, 0.2, 0.4], [1, 1, 2, 0, 2], [3, 3, 3, 3, 3]])
    def test_curve_is_the_mean_over_all_orders(self, uncertainty: list[float]) -> None:
        for wrong in itertools.product([False, True], repeat=5):
            curve = metrics.risk_coverage(torch.tensor(uncertainty).double(), torch.tensor(wrong))
            expected = brute.risk_curve(uncertainty, wrong)
            np.testing.assert_allclose(curve.risk, expected, rtol=1e-13, atol=1e-15)
            np.testing.assert_allclose(curve.coverage, [0.2, 0.4, 0.6, 0.8, 1.0])
            assert curve.area == pytest.approx(sum(expected) / 5, abs=1e-15)

    def test_the_order_of_the_data_does_not_matter(self) -> None:
        uncertainty, wrong = numbers(200).round(decimals=1), coins(200)
        shuffle = torch.randperm(200, generator=torch.Generator().manual_seed(0))
        one, other = (
            metrics.risk_coverage(uncertainty, wrong),
            metrics.risk_coverage(uncertainty[shuffle], wrong[shuffle]),
        )
        torch.testing.assert_close(one.risk, other.risk, rtol=1e-14, atol=0)

    def test_a_good_score_puts_errors_last(self) -> None:
        wrong = torch.tensor([False, False, True, True])
        good = metrics.risk_coverage(torch.tensor([0.0, 1.0, 2.0, 3.0]), wrong)
        bad = metrics.risk_coverage(torch.tensor([3.0, 2.0, 1.0, 0.0]), wrong)
        np.testing.assert_allclose(good.risk, [0, 0, 1 / 3, 1 / 2])
        np.testing.assert_allclose(bad.risk, [1, 1, 2 / 3, 1 / 2])
        assert good.area < bad.area

    def test_accuracy_at_a_coverage(self) -> None:
        uncertainty, wrong = torch.arange(10.0), torch.arange(10) >= 6
        accuracy = {c: metrics.accuracy_at_coverage(uncertainty, wrong, c) for c in (0.01, 0.5, 0.8, 1.0)}
        assert accuracy == pytest.approx({0.01: 1.0, 0.5: 1.0, 0.8: 6 / 8, 1.0: 6 / 10})

    @pytest.mark.parametrize("coverage", [0.0, -0.5, 1.5, math.nan, True, None])
    def test_a_coverage_outside_is_refused(self, coverage: float) -> None:
        with refused(f"`coverage` (={coverage}) must lie in (0, 1]; it is the share of examples that is kept."):
            metrics.accuracy_at_coverage(numbers(4), coins(4), coverage)


PAIRED = {"positive": metrics.auroc, "wrong": metrics.risk_coverage}
SCORE = {"positive": "score", "wrong": "uncertainty"}  # what the flags stand beside


@pytest.mark.parametrize("name", PAIRED)
class TestRefusedScores:
    def test_flags_that_are_no_bools(self, name: str) -> None:
        text = f"`{name}` (=tensor of shape (3,), torch.int64) must be a tensor of bools; pass {name}.bool()."
        with refused(text, TypeError):
            PAIRED[name](numbers(3), torch.tensor([0, 1, 0]))

    @pytest.mark.parametrize(("score", "flags"), [((3,), (4,)), ((0,), (0,)), ((3, 2), (3, 2))])
    def test_shapes(self, name: str, score: tuple[int, ...], flags: tuple[int, ...]) -> None:
        text = (
            f"`{name}` (=tensor of shape {flags}, torch.bool) must match the shape of `{SCORE[name]}`, {score}; "
            "check the data."
        )
        if score != (3,):
            text = (
                f"`{SCORE[name]}` (=tensor of shape {score}, torch.float32) must have the shape (N,) with N > 0; "
                "pass one number per example."
            )
        with refused(text):
            PAIRED[name](torch.zeros(score), torch.zeros(flags, dtype=torch.bool))

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_scores_that_are_not_finite(self, name: str, bad: float) -> None:
        text = f"`{SCORE[name]}` (={bad} at (1,), 1 of 2 entries) must be finite; check the prediction."
        with refused(text):
            PAIRED[name](torch.tensor([1.0, bad]), torch.tensor([True, False]))

    @pytest.mark.parametrize("bad", [[1.0, 2.0], torch.tensor([True, False]), torch.zeros(2, dtype=torch.complex64)])
    def test_scores_that_are_no_real_numbers(self, name: str, bad: object) -> None:
        with pytest.raises(
            TypeError, match=f"^`{SCORE[name]}` .* must be a tensor of real numbers; pass an uncertainty"
        ):
            PAIRED[name](bad, torch.tensor([True, False]))

    def test_flags_that_are_no_tensor(self, name: str) -> None:
        with refused(f"`{name}` (=[True, False]) must be a tensor of bools; pass {name}.bool().", TypeError):
            PAIRED[name](numbers(2), [True, False])


def test_foreign_scores_are_checked_by_their_own_names() -> None:
    with refused("`outside` (=nan at (0,), 1 of 2 entries) must be finite; check the prediction."):
        metrics.out_of_distribution_auroc(numbers(3), torch.tensor([math.nan, 0.0]))
    with refused(
        "`inside` (=tensor of shape (0,), torch.float32) must have the shape (N,) with N > 0; pass one number "
        "per example."
    ):
        metrics.out_of_distribution_auroc(torch.zeros(0), numbers(3))


LABELLED = [metrics.negative_log_likelihood, metrics.brier_score, metrics.calibration_error, metrics.reliability]


@pytest.mark.parametrize("metric", LABELLED, ids=lambda metric: metric.__name__)
class TestRefusedLabels:
    def test_out_of_range(self, metric) -> None:
        for bad in (-1, 4):
            targets = TARGETS.clone()
            targets[7] = bad
            with refused(f"`targets` (={bad} at (7,), 1 of 60 entries) must lie in [0, 4); the network has 4 classes."):
                metric(PROBABILITIES, targets)

    @pytest.mark.parametrize(
        "targets", [TARGETS[:59], TARGETS[:1], TARGETS.unsqueeze(1)], ids=["short", "one", "column"]
    )
    def test_of_another_shape(self, metric, targets: Tensor) -> None:
        value = f"tensor of shape {tuple(targets.shape)}, torch.int64" if len(targets) > 1 else "0"
        text = f"`targets` (={value}) must have the shape (60,), one per example; check the order of the data."
        with refused(text):
            metric(PROBABILITIES, targets)

    def test_that_are_no_indices(self, metric) -> None:
        text = (
            "`targets` (=tensor of shape (60,), torch.float32) must be a tensor of class indices; "
            "convert it with torch.tensor(y)."
        )
        with refused(text, TypeError):
            metric(PROBABILITIES, TARGETS.float())


@pytest.mark.parametrize("metric", [*LABELLED, metrics.class_indices], ids=lambda metric: metric.__name__)
class TestRefusedProbabilities:
    """What is no table of probabilities has no score, however well one could be computed."""

    def broken(self, value: float) -> Tensor:
        probabilities = PROBABILITIES.clone()
        probabilities[7, 2] = value
        return probabilities

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_not_finite(self, metric, bad: float) -> None:
        with refused(
            f"`probabilities` (={bad} at (7, 2), 1 of 240 entries) must be finite; check the network's outputs."
        ):
            metric(self.broken(bad), TARGETS)

    @pytest.mark.parametrize("bad", [-0.25, 1.5])
    def test_outside_the_unit_interval(self, metric, bad: float) -> None:
        with refused(
            f"`probabilities` (={bad} at (7, 2), 1 of 240 entries) must lie in [0, 1]; "
            "pass logits.softmax(-1) where the network returns logits."
        ):
            metric(self.broken(bad), TARGETS)

    def test_logits(self, metric) -> None:
        logits = 5 * torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        with pytest.raises(ValueError, match=r"^`probabilities` .* must lie in \[0, 1\]; pass logits\.softmax\(-1\)"):
            metric(logits, TARGETS)

    def test_rows_that_do_not_sum_to_one(self, metric) -> None:
        halved = PROBABILITIES.clone()
        halved[3:5] /= 2
        with refused(
            "`probabilities.sum(-1)` (=0.5 at (3,), 2 of 60 entries) must be 1 in every row; "
            "pass logits.softmax(-1) where the network returns logits."
        ):
            metric(halved, TARGETS)

    @pytest.mark.parametrize("shape", [(60,), (60, 4, 1), (0, 4), (60, 0)])
    def test_of_another_shape(self, metric, shape: tuple[int, ...]) -> None:
        with refused(
            f"`probabilities` (=tensor of shape {shape}, torch.float32) must have the shape (N, C), one row per "
            "example, and not be empty; check the data."
        ):
            metric(torch.zeros(shape), TARGETS)

    @pytest.mark.parametrize("bad", [[[0.5, 0.5]], torch.ones(60, 1, dtype=torch.int64)], ids=["list", "integers"])
    def test_that_are_no_real_numbers(self, metric, bad: object) -> None:
        with pytest.raises(
            TypeError, match=r"^`probabilities` .* must be a tensor of real numbers; pass class probabil"
        ):
            metric(bad, TARGETS)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_rounding_is_no_fault(self, metric, dtype: torch.dtype) -> None:
        probabilities = dirichlet(1, 500, 1000)[0].to(dtype)
        assert metric(probabilities, torch.arange(500)) is not None


@pytest.mark.parametrize("bins", [0, -1])
@pytest.mark.parametrize("metric", [metrics.calibration_error, metrics.reliability], ids=lambda metric: metric.__name__)
def test_bad_numbers_of_bins_are_refused(metric, bins: int) -> None:
    with refused(f"`bins` (={bins}) must be at least 1; 15 is usual."):
        metric(PROBABILITIES, TARGETS, bins)
