"""Figures of a trained network, against the prediction they come from."""

from __future__ import annotations

import json

import pytest
import torch

import tribayes as tb
from tribayes.data import load
from tribayes.posterior import Stream
from tribayes.recipes.examples import prepare
from tribayes.recipes.experiments import experiment
from tribayes.recipes.recipe_trainer import RecipeTrainer
from tribayes.runs.batches import Examples
from tribayes.runs.evaluation import LEVELS, evaluate

SAMPLES = 30


def trained(name: str, steps: int = 250) -> tuple[RecipeTrainer, Examples]:
    train, test = prepare("digits", load("digits"), torch.device("cpu"))
    trainer = RecipeTrainer(experiment(name), train, seed=0)
    trainer.advance(steps)
    return trainer, test


@pytest.fixture(scope="module")
def bayesian() -> tuple[RecipeTrainer, Examples]:
    return trained("digits")


@pytest.fixture(scope="module")
def frequentist() -> tuple[RecipeTrainer, Examples]:
    return trained("digits-frequentist")


def test_figures_are_those_of_the_prediction(bayesian: tuple[RecipeTrainer, Examples]) -> None:
    trainer, test = bayesian
    found = evaluate(trainer.model, test, seed=0, samples=SAMPLES, progress=False)
    pred = tb.predict(trainer.model, test.inputs, SAMPLES, seed=Stream((0, 4)).number, progress=False)
    summary = pred.summary(test.targets)
    assert found["error"] == summary.error > 0
    assert found["nll"] == pytest.approx(summary.nll, rel=1e-5)
    assert found["brier"] == pytest.approx(summary.brier, rel=1e-5)
    assert found["ece"] == pytest.approx(summary.ece, rel=1e-4)
    assert found["auroc_errors"] == pytest.approx(summary.error_auroc, rel=1e-5)
    assert found["samples"] == SAMPLES
    assert found["examples_tested"] == len(test)
    for level in LEVELS:
        assert found["certain"][str(level)] == vars(summary.counts[level])
    mean = trainer.model.apply_weights({}, test.inputs).argmax(-1)
    assert found["mean_network_error"] == pytest.approx(float((mean != test.targets).double().mean()))


def test_the_posterior_is_the_models(bayesian: tuple[RecipeTrainer, Examples]) -> None:
    trainer, test = bayesian
    found = evaluate(trainer.model, test, seed=0, samples=2, progress=False)["posterior"]
    table = trainer.model.posterior().as_dict()
    assert [row["name"] for row in found] == list(table)
    for row in found:
        assert row["K"] == table[row["name"]]["K"]
        assert row["tau"] == pytest.approx(table[row["name"]]["tau"], rel=1e-6)
        assert row["rho"] == pytest.approx(table[row["name"]]["rho"], rel=1e-6)
    assert any(row["rho"] < -0.05 for row in found)


def test_confidently_wrong_are_wrong_and_certain(bayesian: tuple[RecipeTrainer, Examples]) -> None:
    trainer, test = bayesian
    found = evaluate(trainer.model, test, seed=0, samples=SAMPLES, progress=False)
    pred = tb.predict(trainer.model, test.inputs, SAMPLES, seed=Stream((0, 4)).number, progress=False)
    numbers = found["confidently_wrong"]["index"]
    wanted = (~pred.correct(test.targets) & pred.certain(0.95)).nonzero().flatten().tolist()
    assert sorted(numbers) == wanted
    assert len(wanted) == found["certain"]["0.95"]["wrong_certain"] > 1
    assert found["confidently_wrong"]["true"] == test.targets[numbers].tolist()
    assert found["confidently_wrong"]["predicted"] == pred.label[numbers].tolist()
    confidence = pred.confidence[numbers]
    assert torch.equal(confidence, confidence.sort(descending=True).values)


def test_a_seed_decides_the_draws(bayesian: tuple[RecipeTrainer, Examples]) -> None:
    trainer, test = bayesian
    one, again, other = (evaluate(trainer.model, test, seed, SAMPLES, progress=False)["nll"] for seed in (0, 0, 1))
    assert one == again != other


def test_a_frequentist_network_is_judged_by_its_softmax(frequentist: tuple[RecipeTrainer, Examples]) -> None:
    trainer, test = frequentist
    found = evaluate(trainer.model, test, seed=0, progress=False)
    with torch.no_grad():
        outputs = trainer.model.eval()(test.inputs)
    assert set(found) == {"examples_tested", "error", "nll", "brier", "ece", "auroc_errors"}
    assert found["error"] == pytest.approx(float((outputs.argmax(-1) != test.targets).double().mean()))
    assert found["nll"] == pytest.approx(float(torch.nn.functional.cross_entropy(outputs, test.targets)), rel=1e-5)


def test_dropout_is_off_and_the_mode_stays() -> None:
    setting = experiment("mnist-lenet100-frequentist")
    images = Examples(torch.rand(64, 1, 28, 28), torch.randint(0, 10, (64,)))
    trainer = RecipeTrainer(setting, images, seed=0)
    one, two = (evaluate(trainer.model, images, seed=0, progress=False) for _ in range(2))
    assert one == two
    assert trainer.model.training


def test_a_regression_is_judged_elsewhere(bayesian: tuple[RecipeTrainer, Examples]) -> None:
    trainer, test = bayesian
    with pytest.raises(
        ValueError, match=r"`test` .* must have classes for targets, .*; judge a regression by tribayes"
    ):
        evaluate(trainer.model, Examples(test.inputs, torch.rand(len(test), 1)), seed=0)


def test_a_network_that_was_read_again_is_a_classifier_without_a_word() -> None:
    """Elsewhere a model filled from a state_dict is warned of, for it may be of anything."""
    model = tb.to_bayesian(torch.nn.Linear(2, 3))
    model.load_state_dict(model.state_dict())
    test = Examples(torch.randn(12, 2), torch.arange(12) % 3)
    assert evaluate(model, test, seed=0, samples=5, progress=False)["examples_tested"] == 12


def test_the_evaluation_is_plain_json(bayesian: tuple[RecipeTrainer, Examples]) -> None:
    trainer, test = bayesian
    found = evaluate(trainer.model, test, seed=0, samples=2, progress=False)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
