"""Foreign images are told apart by uncertainty, against the definition of the AUROC."""

from __future__ import annotations

import pytest
import torch

import tribayes as tb
from reproduction.training.foreign_images import out_of_distribution
from tests.runs.test_evaluation import SAMPLES, trained
from tribayes.posterior import Stream
from tribayes.recipes.recipe_trainer import RecipeTrainer
from tribayes.runs.batches import Examples
from tribayes.runs.evaluation import LEVELS


@pytest.fixture(scope="module")
def bayesian() -> tuple[RecipeTrainer, Examples]:
    return trained("digits")


@pytest.fixture(scope="module")
def frequentist() -> tuple[RecipeTrainer, Examples]:
    return trained("digits-frequentist")


def test_foreign_images_are_told_apart(bayesian: tuple[RecipeTrainer, Examples]) -> None:
    trainer, test = bayesian
    outside = Examples(torch.rand(50, 1, 8, 8, generator=torch.Generator().manual_seed(0)), test.targets[:50])
    found = out_of_distribution(trainer.model, test, outside, seed=0, samples=SAMPLES, progress=False)
    known, foreign = (
        tb.predict(trainer.model, each.inputs, SAMPLES, seed=Stream((0, 4)).number, progress=False)
        for each in (test, outside)
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


def test_a_frequentist_network_has_only_entropy(frequentist: tuple[RecipeTrainer, Examples]) -> None:
    trainer, test = frequentist
    outside = Examples(torch.rand(50, 1, 8, 8, generator=torch.Generator().manual_seed(0)), test.targets[:50])
    found = out_of_distribution(trainer.model, test, outside, seed=0)
    assert 0.6 < found.pop("auroc_entropy") <= 1
    assert found == {"auroc_mutual_information": None, "certain_inside": {}, "certain_outside": {}}
