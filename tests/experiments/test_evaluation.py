"""Figures of a trained network, against the prediction they come from."""

from __future__ import annotations

import json

import pytest
import torch

import tribayes as tb
from tribayes.data import load
from tribayes.experiments.catalogue import experiment
from tribayes.experiments.evaluation import LEVELS, OUTPUT_UNIT, choose_examples, evaluate, out_of_distribution
from tribayes.experiments.inputs import prepare
from tribayes.experiments.trainer import Examples, Trainer
from tribayes.nn.holding import seed_of
from tribayes.prediction import ClassPredictive
from tribayes.prediction.source import Kept

SAMPLES = 30


def trained(name: str, steps: int = 250) -> tuple[Trainer, Examples]:
    train, test = prepare("digits", load("digits"), torch.device("cpu"))
    trainer = Trainer(experiment(name), train, seed=0)
    trainer.advance(steps)
    return trainer, test


@pytest.fixture(scope="module")
def bayesian() -> tuple[Trainer, Examples]:
    return trained("digits")


@pytest.fixture(scope="module")
def frequentist() -> tuple[Trainer, Examples]:
    return trained("digits-frequentist")


def test_figures_are_those_of_the_prediction(bayesian: tuple[Trainer, Examples]) -> None:
    trainer, test = bayesian
    found = evaluate(trainer.model, trainer.setting, test, seed=0, samples=SAMPLES, progress=False)
    pred = tb.predict(trainer.model, test.images, SAMPLES, seed=seed_of(0, 4), progress=False)
    summary = pred.summary(test.labels)
    assert found["error"] == summary.error > 0
    assert found["nll"] == pytest.approx(summary.nll, rel=1e-5)
    assert found["brier"] == pytest.approx(summary.brier, rel=1e-5)
    assert found["ece"] == pytest.approx(summary.ece, rel=1e-4)
    assert found["auroc_errors"] == pytest.approx(summary.error_auroc, rel=1e-5)
    assert found["samples"] == SAMPLES
    assert found["examples_tested"] == len(test)
    for level in LEVELS:
        assert found["certain"][str(level)] == vars(summary.counts[level])
    mean = trainer.model.apply_weights({}, test.images).argmax(-1)
    assert found["mean_network_error"] == pytest.approx(float((mean != test.labels).double().mean()))


def test_the_posterior_is_the_models(bayesian: tuple[Trainer, Examples]) -> None:
    trainer, test = bayesian
    found = evaluate(trainer.model, trainer.setting, test, seed=0, samples=2, progress=False)["posterior"]
    table = trainer.model.posterior().as_dict()
    assert [row["name"] for row in found] == list(table)
    for row in found:
        assert row["K"] == table[row["name"]]["K"]
        assert row["tau"] == pytest.approx(table[row["name"]]["tau"], rel=1e-6)
        assert row["rho"] == pytest.approx(table[row["name"]]["rho"], rel=1e-6)
    assert any(row["rho"] < -0.05 for row in found)


def test_the_examples_hold_what_the_networks_said(bayesian: tuple[Trainer, Examples]) -> None:
    trainer, test = bayesian
    found = evaluate(trainer.model, trainer.setting, test, seed=0, samples=SAMPLES, progress=False)
    pred = tb.predict(trainer.model, test.images, SAMPLES, seed=seed_of(0, 4), progress=False)
    assert {kind: each["index"] for kind, each in found["examples"].items()} == choose_examples(pred, test.labels)
    for each in found["examples"].values():
        outputs = torch.tensor(each["outputs"]) / OUTPUT_UNIT
        torch.testing.assert_close(outputs, pred.samples[:, each["index"]], rtol=0, atol=1e-4)
        assert each["true"] == int(test.labels[each["index"]])
        assert each["predicted"] == int(pred.label[each["index"]])


def test_confidently_wrong_are_wrong_and_certain(bayesian: tuple[Trainer, Examples]) -> None:
    trainer, test = bayesian
    found = evaluate(trainer.model, trainer.setting, test, seed=0, samples=SAMPLES, progress=False)
    pred = tb.predict(trainer.model, test.images, SAMPLES, seed=seed_of(0, 4), progress=False)
    numbers = found["confidently_wrong"]["index"]
    wanted = (~pred.correct(test.labels) & pred.certain(0.95)).nonzero().flatten().tolist()
    assert sorted(numbers) == wanted
    assert len(wanted) == found["certain"]["0.95"]["wrong_certain"] > 1
    assert found["confidently_wrong"]["true"] == test.labels[numbers].tolist()
    assert found["confidently_wrong"]["predicted"] == pred.label[numbers].tolist()
    confidence = pred.confidence[numbers]
    assert torch.equal(confidence, confidence.sort(descending=True).values)


def test_a_seed_decides_the_draws(bayesian: tuple[Trainer, Examples]) -> None:
    trainer, test = bayesian
    one, again, other = (
        evaluate(trainer.model, trainer.setting, test, seed, SAMPLES, progress=False)["nll"] for seed in (0, 0, 1)
    )
    assert one == again != other


def test_a_frequentist_network_is_judged_by_its_softmax(frequentist: tuple[Trainer, Examples]) -> None:
    trainer, test = frequentist
    found = evaluate(trainer.model, trainer.setting, test, seed=0, progress=False)
    with torch.no_grad():
        outputs = trainer.model.eval()(test.images)
    assert set(found) == {"examples_tested", "error", "nll", "brier", "ece", "auroc_errors"}
    assert found["error"] == pytest.approx(float((outputs.argmax(-1) != test.labels).double().mean()))
    assert found["nll"] == pytest.approx(float(torch.nn.functional.cross_entropy(outputs, test.labels)), rel=1e-5)


def test_dropout_is_off_and_the_mode_stays() -> None:
    setting = experiment("mnist-lenet100-frequentist")
    images = Examples(torch.rand(64, 1, 28, 28), torch.randint(0, 10, (64,)))
    trainer = Trainer(setting, images, seed=0)
    one, two = (evaluate(trainer.model, setting, images, seed=0, progress=False) for _ in range(2))
    assert one == two
    assert trainer.model.training


def test_a_model_of_another_family_is_refused(frequentist: tuple[Trainer, Examples]) -> None:
    trainer, test = frequentist
    with pytest.raises(ValueError, match=r"`model` .* must be of the family 'tridiagonal'; pass the model"):
        evaluate(trainer.model, experiment("digits"), test, seed=0)


def test_the_evaluation_is_plain_json(bayesian: tuple[Trainer, Examples]) -> None:
    trainer, test = bayesian
    found = evaluate(trainer.model, trainer.setting, test, seed=0, samples=2, progress=False)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def predictive(rows: list[list[float]], spread: list[float]) -> ClassPredictive:
    """Two networks a row's probabilities apart by ± its spread, between the first two classes."""
    mean, apart = torch.tensor(rows), torch.tensor(spread).unsqueeze(-1) * torch.tensor([1.0, -1.0, 0.0])
    return ClassPredictive(Kept(torch.stack([mean + apart, mean - apart])), 0, range(2))


def test_examples_are_chosen_by_the_rule() -> None:
    pred = predictive(
        [
            [0.97, 0.02, 0.01],  # right, sure, smallest entropy
            [0.90, 0.05, 0.05],  # right, sure, the median
            [0.80, 0.10, 0.10],  # right, sure, largest entropy
            [0.50, 0.45, 0.05],  # wrong, uncertain: the true class has most probability of all wrong ones
            [0.36, 0.34, 0.30],  # wrong, uncertain, largest entropy
            [0.35, 0.32, 0.33],  # wrong but certain: not an example, for all its entropy
        ],
        [0.0, 0.0, 0.0, 0.2, 0.2, 0.0],
    )
    targets = torch.tensor([0, 0, 0, 1, 2, 1])
    assert choose_examples(pred, targets) == {"sure": 1, "two-way": 3, "hopeless": 4}
    assert choose_examples(pred, torch.tensor([0, 0, 0, 1, 0, 0])) == {"sure": 2, "two-way": 3}
    assert choose_examples(pred, torch.tensor([1, 1, 1, 0, 0, 0])) == {"sure": 5}


def test_foreign_images_are_told_apart(bayesian: tuple[Trainer, Examples]) -> None:
    trainer, test = bayesian
    outside = Examples(torch.rand(50, 1, 8, 8, generator=torch.Generator().manual_seed(0)), test.labels[:50])
    found = out_of_distribution(trainer.model, test, outside, seed=0, samples=SAMPLES, progress=False)
    known, foreign = (
        tb.predict(trainer.model, each.images, SAMPLES, seed=seed_of(0, 4), progress=False) for each in (test, outside)
    )
    assert found["auroc_entropy"] == pytest.approx(auroc(known.entropy, foreign.entropy), abs=1e-4)
    assert found["auroc_mutual_information"] == pytest.approx(auroc(known.epistemic, foreign.epistemic), abs=1e-4)
    assert found["auroc_entropy"] > 0.7
    for level in LEVELS:
        assert found["certain_outside"][str(level)] == pytest.approx(float(foreign.certain(level).double().mean()))
        assert found["certain_inside"][str(level)] == pytest.approx(float(known.certain(level).double().mean()))
    assert found["certain_outside"]["0.95"] < found["certain_inside"]["0.95"]


def auroc(inside: torch.Tensor, outside: torch.Tensor) -> float:
    """By its definition: the share of pairs in which the foreign one is more uncertain."""
    larger = (outside.unsqueeze(0) > inside.unsqueeze(1)).double()
    equal = (outside.unsqueeze(0) == inside.unsqueeze(1)).double()
    return float((larger + equal / 2).mean())


def test_a_frequentist_network_has_only_entropy(frequentist: tuple[Trainer, Examples]) -> None:
    trainer, test = frequentist
    outside = Examples(torch.rand(50, 1, 8, 8, generator=torch.Generator().manual_seed(0)), test.labels[:50])
    found = out_of_distribution(trainer.model, test, outside, seed=0)
    assert 0.6 < found.pop("auroc_entropy") <= 1
    assert found == {"auroc_mutual_information": None, "certain_inside": {}, "certain_outside": {}}
