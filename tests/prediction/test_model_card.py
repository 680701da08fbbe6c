"""A model card says what can be read off the model, takes what only its makers know, and shows what is missing."""

from pathlib import Path

import torch
from torch import nn

import tribayes as tb
from tribayes.inference.memory import remember


def model() -> tb.BayesianModule:
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))
    priors = {"0.*": tb.Prior(scale=0.5), "3.*": tb.RelativePrior()}
    return tb.to_bayesian(net, tau={"0.weight": 0.25}, rho={"0.weight": 0.125}, prior=priors)


def test_what_the_model_is() -> None:
    made = model()
    remember(made, tb.Gaussian(noise=0.25))
    card = tb.model_card(torch.compile(made))
    assert card.startswith("# Sequential\n\n*To be filled in: `description=`")
    assert "51 weights in 4 tensors are random, 12 are not." in card
    assert "| 0.weight | 6×4 | 24 | N(0, 0.5²) | 0.25 | 0.125 |\n" in card
    assert "| 3.bias | 3 | 3 | relative to the weight | 0.05 | 0 |\n" in card
    assert "Likelihood: `Gaussian(noise=0.25, learned=False)`." in card
    assert f"tribayes {tb.__version__}, torch {torch.__version__}." in card


def test_what_its_makers_say(tmp_path: Path) -> None:
    words = {name: f"About {name}." for name in ("description", "intended_use", "limitations", "training_data")}
    card = tb.model_card(model(), tmp_path / "card.md", title="Irises", data_size=12_000, evaluation="Good.", **words)
    assert "To be filled in" not in card
    assert card.startswith("# Irises\n\nAbout description.\n\n## Intended use\n\nAbout intended_use.\n")
    assert "About training_data.\n\nExamples: 12,000.\n" in card
    assert "## Evaluation\n\nGood.\n" in card
    assert (tmp_path / "card.md").read_text() == card


def test_an_evaluation_is_a_summary_or_numbers() -> None:
    made, x, y = model(), torch.randn(60, 4), torch.randint(3, (60,))
    summary = tb.predict(made, x, 5, progress=False).summary(y)
    assert str(summary) in tb.model_card(made, evaluation=summary)
    assert "| error | 0.125 |\n" in tb.model_card(made, evaluation={"error": 0.125})


def test_calibrations_and_several_parts() -> None:
    made = nn.Sequential(tb.nn.Linear(4, 6), nn.Tanh(), tb.nn.Linear(6, 3))
    assert "None after training." in tb.model_card(made)
    tb.calibrate(made, torch.randn(40, 4), torch.randint(3, (40,)), samples=3, progress=False)
    card = tb.model_card(made)
    assert "on 40 held-out examples" in card
    assert "| 2.bias | 3 |" in card
