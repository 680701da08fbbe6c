"""Entropies and the other scores of a classification are their definitions."""

import math

import numpy as np
import pytest
import torch

from tests.prediction import brute
from tests.prediction.models import dirichlet, predictive, refused

SAMPLES = dirichlet(12, 9, 4, concentration=0.5)
PRED = predictive(SAMPLES)


def test_mean_and_standard_deviation() -> None:
    np.testing.assert_allclose(PRED.mean.numpy(), SAMPLES.numpy().mean(0), rtol=1e-13)
    np.testing.assert_allclose(PRED.std.numpy(), SAMPLES.numpy().std(0, ddof=1), rtol=1e-12)
    assert torch.equal(PRED.confidence, PRED.mean.max(-1).values)
    assert (PRED.sample_count, len(PRED)) == (12, 9)


def test_entropies_are_the_brute_force_ones() -> None:
    total, expected = brute.entropies(SAMPLES.numpy())
    np.testing.assert_allclose(PRED.entropy.numpy(), total, rtol=1e-13)
    np.testing.assert_allclose(PRED.aleatoric.numpy(), expected, rtol=1e-13)


def test_epistemic_uncertainty_is_the_mutual_information_of_label_and_weights() -> None:
    np.testing.assert_allclose(PRED.epistemic.numpy(), brute.information(SAMPLES.numpy()), rtol=1e-11)


def test_networks_that_agree_leave_no_epistemic_uncertainty() -> None:
    pred = predictive(SAMPLES[:1].expand(30, -1, -1))
    assert (pred.epistemic >= 0).all()
    assert pred.epistemic.max() < 1e-14


def test_networks_that_are_sure_and_disagree_leave_only_epistemic_uncertainty() -> None:
    """Zero probabilities count as 0 ln 0 = 0; two classes, half of the networks each: ln 2."""
    pred = predictive(torch.eye(2).repeat(5, 1).unsqueeze(1))
    assert pred.aleatoric.item() == 0
    assert pred.epistemic.item() == pred.entropy.item() == pytest.approx(math.log(2), rel=1e-7)


def test_uniform_probabilities_have_the_largest_entropy() -> None:
    pred = predictive(torch.full((3, 1, 5), 0.2, dtype=torch.float64))
    assert pred.entropy.item() == pytest.approx(math.log(5), rel=1e-14)


def test_one_sample_has_no_spread() -> None:
    pred = predictive(SAMPLES[:1])
    assert torch.equal(pred.std, torch.zeros_like(pred.mean))
    assert torch.equal(pred.mean, SAMPLES[0])


def test_scores_by_name() -> None:
    own = [(n, label) for n, label in enumerate(PRED.label.tolist())]
    assert torch.equal(PRED.uncertainty(), PRED.entropy)
    assert torch.equal(PRED.uncertainty("aleatoric"), PRED.aleatoric)
    assert torch.equal(PRED.uncertainty("epistemic"), PRED.epistemic)
    assert torch.equal(PRED.uncertainty("confidence"), 1 - PRED.confidence)
    assert PRED.uncertainty("std").tolist() == [PRED.std[place].item() for place in own]


def test_an_unknown_score_is_refused() -> None:
    text = (
        "`score` (='entropie') must be one of ['aleatoric', 'confidence', 'entropy', 'epistemic', 'std']; "
        "correct the word."
    )
    with refused(text):
        PRED.uncertainty("entropie")


def test_correct_compares_with_the_truth() -> None:
    truth = PRED.label.clone()
    truth[3] = (truth[3] + 1) % 4
    assert PRED.correct(truth).tolist() == [n != 3 for n in range(9)]
