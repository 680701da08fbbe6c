"""`--set key=value`: by the type of the field; what cannot be a training is refused before it begins."""

import re
from typing import Any

import pytest

from tribayes.recipes.experiments import EXPERIMENTS, experiment
from tribayes.recipes.setting import parse_changes


def test_values_by_type() -> None:
    words = ["batch=32", "learning_rate=1e-3", "xavier=true", "policy=cosine", 'prior_scale={"fc*": 1, "*": 0.5}']
    found = parse_changes(words)
    assert found == {
        "batch": 32,
        "learning_rate": 0.001,
        "xavier": True,
        "policy": "cosine",
        "prior_scale": {"fc*": 1.0, "*": 0.5},
    }
    assert type(found["batch"]) is int
    assert parse_changes(["xavier=false", "compiled=true"]) == {"xavier": False, "compiled": True}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["batch"], "`--set` (='batch') must have the form key=value; write e.g. --set learning_rate=0.02."),
        (["bacth=3"], "`--set` (='bacth') must name a field of a setting: data, network,"),
        (["name=x"], "`--set` (='name') must name a field of a setting: "),
        (["batch=3", "batch=3"], "`--set` (='batch=3') must give 'batch' only once; remove one of the two."),
        (["batch=3.5"], "`--set batch` (='3.5') must be a whole number; write e.g. --set 'batch=1'."),
        (["tau=small"], "`--set tau` (='small') must be a finite number; write e.g. --set 'tau=0.5'."),
        (["tau=nan"], "`--set tau` (='nan') must be a finite number; "),
        (["tau=NaN"], "`--set tau` (='NaN') must be a finite number; "),
        (["tau=1e999"], "`--set tau` (='1e999') must be a finite number; "),
        (["batch=true"], "`--set batch` (='true') must be a whole number; "),
        (["compiled=null"], "`--set compiled` (='null') must be true or false; "),
        (["xavier=1"], "`--set xavier` (='1') must be true or false; write e.g. --set 'xavier=true'."),
        (["prior_scale=0.5"], "`--set prior_scale` (='0.5') must be a JSON object of pattern and finite number; "),
        (["prior_scale={'a': 1}"], """`--set prior_scale` (="{'a': 1}") must be a JSON object of pattern"""),
        (['prior_scale={"a": true}'], "must be a JSON object of pattern and finite number; "),
        (['prior_scale={"*": NaN}'], "must be a JSON object of pattern and finite number; "),
        (["sampler=fused"], "`--set` (='sampler') must name a field of a setting: "),
    ],
)
def test_bad_words(words: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_changes(words)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_whole_catalogue_can_be_trained(name: str) -> None:
    assert EXPERIMENTS[name].changed() == EXPERIMENTS[name]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"family": "wide"}, "`family` (='wide') must be one of frequentist, tridiagonal, diagonal, mean_field; "),
        ({"data": "letters"}, "`data` (='letters') must be one of mnist, fashion-mnist, cifar-10, digits; "),
        ({"network": "big"}, "`network` (='big') must be one of lenet-100, lenet-250, cifar10-full, digits; "),
        (
            {"data": "mnist"},
            "`network` (='digits') must take the images of 'mnist', but it takes 1×8×8; choose lenet-100 or lenet-250.",
        ),
        ({"guards": "none"}, "`guards` (='none') must be one of closed_form, paper; "),
        ({"policy": "linear"}, "`policy` (='linear') must be one of inverse, fixed, cosine; correct the word."),
        ({"iterations": 0}, "`iterations` (=0) must be at least 1; change the value."),
        ({"batch": 0}, "`batch` (=0) must be positive; change the value."),
        ({"learning_rate": -0.1}, "`learning_rate` (=-0.1) must be positive; "),
        ({"tau": 0.0}, "`tau` (=0.0) must be positive; "),
        ({"validation": -1}, "`validation` (=-1) must be at least 0; "),
        ({"kl_weight": -1.0}, "`kl_weight` (=-1.0) must be at least 0; "),
        ({"momentum": 1.0}, "`momentum` (=1.0) must lie in [0, 1); "),
        ({"dropout": -0.5}, "`dropout` (=-0.5) must lie in [0, 1); "),
    ],
)
def test_bad_settings(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        experiment("digits").changed(**changes)
