"""Choosing an estimator, and the antithetic one: draws in pairs that mirror each other at the means."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tribayes as tb
from tests.networks import any_family, any_network, bayesian, inputs_of, left_as_it_was
from tribayes.inference.estimator import ESTIMATORS, sampled_outputs
from tribayes.nn.calling import arguments_of
from tribayes.nn.stage import ModelDraw, Stage

LABELS = torch.tensor([0, 1, 1])


class Overheard(Stage):
    """A stage that notes the draws it runs the model under."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.draws: list[ModelDraw] = []

    def run(self, draws: ModelDraw, *arguments: object) -> Tensor:
        self.draws.append(draws)
        return super().run(draws, *arguments)


def antithetic_draws(model: nn.Module, samples: int, inputs: Tensor) -> list[ModelDraw]:
    stage = Overheard(model)
    sampled_outputs(stage, arguments_of(inputs), "antithetic", samples, None)
    return stage.draws


@any_family
@any_network
def test_antithetic_draws_mirror_each_other_at_the_means(name: str, family: str) -> None:
    model = bayesian(name, family=family)
    draws = [draw[0] for draw in antithetic_draws(model, 4, inputs_of(name))]
    assert len(draws) == 4
    for key, mean in model.means():
        for one, other in ((0, 1), (2, 3)):
            torch.testing.assert_close(draws[one][key] + draws[other][key], 2 * mean, rtol=1e-14, atol=1e-14)
        assert not torch.equal(draws[0][key], draws[2][key])


def test_what_is_linear_in_the_weights_has_no_variance_left() -> None:
    model, inputs = bayesian("Linear"), inputs_of("Linear")
    elbo = tb.ELBO(tb.Categorical(), data_size=9, samples=2, estimator="antithetic")
    outputs = elbo(model, inputs, LABELS).outputs
    assert (outputs[0] - outputs[1]).abs().min() > 1e-3
    torch.testing.assert_close(outputs.mean(0), model.apply_weights({}, inputs), rtol=1e-13, atol=1e-14)


@any_family
def test_its_gradient_is_the_mean_of_two_draws_with_opposite_normals(family: str) -> None:
    model, inputs = bayesian("MLP", family=family), inputs_of("MLP")
    elbo = tb.ELBO(tb.Categorical(), data_size=9, kl_weight=0, samples=2, estimator="antithetic")
    torch.manual_seed(3)
    ours = torch.autograd.grad(elbo(model, inputs, LABELS).loss, list(model.parameters()))
    torch.manual_seed(3)
    drawn = model.sample_weights()
    noise = {name: drawn[name] - mean for name, mean in model.means()}  # linear in the normals
    losses = []
    for sign in (1, -1):
        weights = {name: mean + sign * noise[name] for name, mean in model.means()}
        losses.append(F.cross_entropy(model.apply_weights(weights, inputs), LABELS))
    theirs = torch.autograd.grad(sum(losses) / 2, list(model.parameters()))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-14)


def test_a_model_of_several_modules_mirrors_them_all() -> None:
    net = nn.Sequential(tb.nn.Linear(4, 3), nn.Identity(), tb.nn.Linear(3, 2, bias=False)).double()
    one, other = antithetic_draws(net, 2, torch.ones(1, 4, dtype=torch.float64))
    for module, first, second in zip((net[0], net[2]), one, other, strict=True):
        for name, mean in module.means():
            torch.testing.assert_close(first[name] + second[name], 2 * mean, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_model_is_left_as_it_was(estimator: str) -> None:
    model = nn.Sequential(bayesian("Linear"), nn.Identity())
    elbo = tb.ELBO(tb.Categorical(), data_size=9, samples=2, estimator=estimator)
    with left_as_it_was(model):
        elbo(model, inputs_of("Linear"), LABELS)
    assert not torch.equal(model(inputs_of("Linear")), model(inputs_of("Linear")))  # draws anew


def terms_of(estimator: str, model: nn.Module, generator: int | torch.Generator | None) -> tb.ELBOTerms:
    elbo = tb.ELBO(tb.Categorical(), data_size=9, samples=2, estimator=estimator)
    return elbo(model, inputs_of("MLP"), LABELS, generator=generator)


@any_family
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_seed_decides_the_draws_and_leaves_torchs_generator_alone(estimator: str, family: str) -> None:
    model = bayesian("MLP", family=family)
    state = torch.get_rng_state()
    outputs = [terms_of(estimator, model, seed).outputs for seed in (7, 7, 8)]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(outputs[0], outputs[1])
    assert (outputs[0] != outputs[2]).all()
    assert (outputs[0][0] != outputs[0][1]).all()  # the samples of one seed are no copies


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_generator_goes_on_from_call_to_call(estimator: str) -> None:
    model = bayesian("MLP")
    source, again = (torch.Generator().manual_seed(7) for _ in range(2))
    first, second = (terms_of(estimator, model, source).outputs for _ in range(2))
    assert (first != second).all()
    assert torch.equal(terms_of(estimator, model, again).outputs, first)
    assert torch.equal(terms_of(estimator, model, again).outputs, second)


def test_the_modules_and_samples_of_a_seed_share_no_numbers() -> None:
    layer = tb.nn.Linear(4, 4)
    net = nn.Sequential(layer, tb.nn.Linear(4, 4))
    net[1].load_state_dict(layer.state_dict())
    stage = Overheard(net)
    sampled_outputs(stage, arguments_of(torch.ones(1, 4)), "plain", 2, 3)
    weights = [draw["weight"] for draws in stage.draws for draw in draws]
    assert len(weights) == 4
    assert all((one != other).all() for place, one in enumerate(weights) for other in weights[:place])


REFUSED = [
    (
        {"estimator": "flipout"},
        "`estimator` (='flipout') must be one of ['plain', 'local', 'antithetic']; correct the word.",
    ),
    (
        {"estimator": "antithetic"},
        '`samples` (=1) must be even for estimator="antithetic"; pass samples=2: a draw and its mirror image.',
    ),
    (
        {"estimator": "antithetic", "samples": 3},
        '`samples` (=3) must be even for estimator="antithetic"; pass samples=2: a draw and its mirror image.',
    ),
]


@pytest.mark.parametrize(("options", "text"), REFUSED)
def test_bad_choices_are_refused_in_words(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        tb.ELBO(tb.Categorical(), data_size=9, **options)


@pytest.mark.parametrize("estimator", ["local", "antithetic"])
def test_plain_draws_are_not_taken_beside_others(estimator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's own forward pass, which would draw once more, is not what runs."""
    model = bayesian("Linear")
    monkeypatch.setattr(type(model), "forward", lambda *_: pytest.fail("drew by itself"))
    assert terms_are_finite(tb.ELBO(tb.Categorical(), data_size=9, samples=2, estimator=estimator), model)


def terms_are_finite(elbo: tb.ELBO, model: nn.Module) -> bool:
    return all(bool(term.isfinite().all()) for term in elbo(model, inputs_of("Linear"), LABELS))
