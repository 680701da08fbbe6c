"""The objective is the paper's L_VI^k to the digit, in value and in gradient."""

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import bayesian, inputs_of
from tests.oracle import paper

DATA_SIZE, KL_WEIGHT, PRIOR_LOC, PRIOR_SCALE = 40, 0.1, 0.2, 0.7
LABELS = torch.tensor([0, 1, 1])


def model_and_inputs() -> tuple[tb.BayesianModule, Tensor]:
    prior = tb.Prior(loc=PRIOR_LOC, scale=PRIOR_SCALE)
    model = bayesian("Linear", rho={"weight": -0.3, "bias": 0.2}, prior=prior)
    return model, inputs_of("Linear")


def under_seed(function: Callable[[], object]) -> object:
    torch.manual_seed(3)
    return function()


def papers_loss(model: tb.BayesianModule, inputs: Tensor, weights: dict[str, Tensor]) -> float:
    """L_VI^k of a linear classifier, spelled out: −1/m Σ ln f(x_i; w)_{y_i} + ν Σ_j KL_j."""
    matrix, bias = (weights[name].detach().numpy() for name in ("weight", "bias"))
    log_likelihood = 0.0
    for x, y in zip(inputs.numpy(), LABELS.tolist(), strict=True):
        scores = np.exp(matrix @ x + bias)
        log_likelihood += math.log(scores[y] / sum(scores))
    divergence = sum(
        paper.kl(mean.detach().numpy().ravel(), delta.item(), gamma.item(), PRIOR_LOC, PRIOR_SCALE)
        for (_, mean), delta, gamma in zip(model.means(), model.family.delta, model.family.gamma, strict=True)
    )
    return -log_likelihood / len(LABELS) + KL_WEIGHT / DATA_SIZE * divergence


def test_the_loss_is_the_papers() -> None:
    model, inputs = model_and_inputs()
    elbo = tb.ELBO(tb.Categorical(), data_size=DATA_SIZE, kl_weight=KL_WEIGHT)
    terms = under_seed(lambda: elbo(model, inputs, LABELS))
    weights = under_seed(model.sample_weights)
    assert terms.loss.item() == pytest.approx(papers_loss(model, inputs, weights), rel=1e-13)
    assert torch.equal(terms.outputs, model.apply_weights(weights, inputs))
    torch.testing.assert_close(terms.kl, tb.kl(model), rtol=1e-14, atol=0)  # by the passes of the draw
    assert torch.equal(terms.loss, terms.nll + KL_WEIGHT / DATA_SIZE * terms.kl)


def test_its_gradient_is_that_of_the_likelihood_at_the_draw_and_the_papers_divergence() -> None:
    model, inputs = model_and_inputs()
    elbo = tb.ELBO(tb.Categorical(), data_size=DATA_SIZE, kl_weight=KL_WEIGHT)
    under_seed(lambda: elbo(model, inputs, LABELS)).loss.backward()
    weights = under_seed(model.sample_weights)
    nll = nn.functional.cross_entropy(model.apply_weights(weights, inputs), LABELS)
    learned = [*dict(model.means()).values(), model.family.delta, model.family.gamma]
    by_likelihood = torch.autograd.grad(nll, learned)
    for index, (_, mean) in enumerate(model.means()):
        m = mean.detach().numpy().ravel()
        delta, gamma = model.family.delta[index].item(), model.family.gamma[index].item()
        by_m, by_delta, by_gamma = paper.kl_gradient(m, delta, gamma, PRIOR_LOC, PRIOR_SCALE)
        nu = KL_WEIGHT / DATA_SIZE
        expected = by_likelihood[index] + nu * torch.tensor(by_m).reshape(mean.shape)
        torch.testing.assert_close(mean.grad, expected, rtol=1e-12, atol=1e-14)
        for grad, likelihood, divergence in (
            (model.family.delta.grad, by_likelihood[-2], by_delta),
            (model.family.gamma.grad, by_likelihood[-1], by_gamma),
        ):
            assert grad[index].item() == pytest.approx(likelihood[index].item() + nu * divergence, rel=1e-11)


def test_several_samples_are_averaged() -> None:
    model, inputs = model_and_inputs()
    elbo = tb.ELBO(tb.Categorical(), data_size=DATA_SIZE, kl_weight=1.0, samples=3)
    terms = under_seed(lambda: elbo(model, inputs, LABELS))
    draws = under_seed(lambda: [model.sample_weights() for _ in range(3)])
    outputs = torch.stack([model.apply_weights(weights, inputs) for weights in draws])
    nll = torch.stack([nn.functional.cross_entropy(output, LABELS) for output in outputs]).mean()
    assert torch.equal(terms.outputs, outputs)
    torch.testing.assert_close(terms.nll, nll, rtol=1e-14, atol=0)
    torch.testing.assert_close(terms.loss, nll + model.kl() / DATA_SIZE, rtol=1e-14, atol=0)


def test_the_weight_may_be_a_schedule_of_the_step() -> None:
    model, inputs = model_and_inputs()
    elbo = tb.ELBO(tb.Categorical(), data_size=DATA_SIZE, kl_weight=lambda step: min(1.0, step / 10))
    for step, weight in ((0, 0.0), (5, 0.5), (20, 1.0)):
        terms = elbo(model, inputs, LABELS, step=step)
        assert elbo.nu(step) == weight / DATA_SIZE
        assert torch.equal(terms.loss, terms.nll + weight / DATA_SIZE * terms.kl)


def test_a_weight_of_one_is_the_bound_and_zero_leaves_the_likelihood() -> None:
    model, inputs = model_and_inputs()
    assert tb.ELBO(tb.Categorical(), data_size=DATA_SIZE, kl_weight=1.0).nu() == 1 / DATA_SIZE
    terms = tb.ELBO(tb.Categorical(), data_size=DATA_SIZE, kl_weight=0)(model, inputs, LABELS)
    assert torch.equal(terms.loss, terms.nll)


@pytest.mark.parametrize(("data_size", "weight"), [(150, 1.0), (15, 0.1), (1500, 1.0), (3, 0.02)])
def test_by_itself_the_weight_follows_from_examples_and_weights(data_size: int, weight: float) -> None:
    """min(1, 0.1 N / K), here with K = 15."""
    elbo = tb.ELBO(tb.Categorical(), data_size=data_size)
    terms = elbo(tb.to_bayesian(nn.Linear(4, 3)), torch.randn(3, 4), torch.tensor([0, 1, 2]))
    assert elbo.weight() == pytest.approx(weight)
    assert elbo.nu() == pytest.approx(weight / data_size)
    assert terms.loss.item() == pytest.approx(terms.nll.item() + weight / data_size * terms.kl.item(), rel=1e-5)
    assert elbo.extra_repr().startswith(f"data_size={data_size}, kl_weight='auto' ({weight:.3g} for 15 weights)")


def test_the_weights_of_a_training_step_count_too() -> None:
    net = nn.Sequential(nn.Linear(2, 3), tb.nn.Linear(3, 2), tb.nn.Linear(2, 2))  # 8 + 6 are random
    elbo = tb.ELBO(tb.Categorical(), data_size=14)
    tb.TrainingStep(net, elbo, torch.optim.SGD(tb.parameter_groups(net, lr=0.1)))
    assert elbo.weight() == pytest.approx(0.1)


def test_without_a_model_the_automatic_weight_is_not_known() -> None:
    elbo = tb.ELBO(tb.Categorical(), data_size=9)
    assert elbo.extra_repr() == "data_size=9, kl_weight='auto', samples=1, estimator='plain'"
    with pytest.raises(ValueError, match=r"`kl_weight` \(='auto'\) must know the model, .*; make a TrainingStep"):
        elbo.nu()


def test_an_automatic_weight_is_of_one_model() -> None:
    elbo = tb.ELBO(tb.Categorical(), data_size=9)
    elbo.stage(tb.to_bayesian(nn.Linear(4, 3)))
    elbo.stage(tb.to_bayesian(nn.Linear(4, 3)))
    with pytest.raises(ValueError, match=r"this one has 12 random weights and the last had 15; make an ELBO"):
        elbo.stage(tb.to_bayesian(nn.Linear(5, 2)))


def test_a_network_may_take_several_inputs() -> None:
    model = tb.to_bayesian(nn.Bilinear(2, 3, 1))
    inputs = (torch.randn(4, 2), torch.randn(4, 3))
    elbo = tb.ELBO(tb.Gaussian(), data_size=4)
    terms = under_seed(lambda: elbo(model, inputs, torch.zeros(4, 1)))
    assert torch.equal(terms.outputs, under_seed(lambda: model(*inputs)))


def test_a_partly_bayesian_model_sums_its_divergences_once() -> None:
    layer = tb.nn.Linear(3, 3)
    model = nn.Sequential(nn.Linear(4, 3), layer, nn.Tanh(), layer, tb.nn.Linear(3, 1))
    terms = tb.ELBO(tb.Gaussian(), data_size=5)(model, torch.randn(5, 4), torch.zeros(5, 1))
    torch.testing.assert_close(terms.kl, layer.kl() + model[4].kl())


def test_the_objective_prints_what_it_is_made_of() -> None:
    elbo = tb.ELBO(tb.Categorical(), data_size=60_000, kl_weight=0.01, samples=2)
    assert elbo.extra_repr() == "data_size=60000, kl_weight=0.01, samples=2, estimator='plain'"


SIZE = "pass the number of training examples, len(dataset)"
SAMPLES = "pass the number of weight draws per step"
WEIGHT = "must be finite and not negative; 1.0 is the evidence lower bound."
REFUSED = [
    ({"data_size": 0}, ValueError, f"`data_size` (=0) must be at least 1; {SIZE}."),
    ({"data_size": -5}, ValueError, f"`data_size` (=-5) must be at least 1; {SIZE}."),
    ({"data_size": 10.0}, TypeError, f"`data_size` (=10.0) must be a whole number; {SIZE}."),
    ({"data_size": True}, TypeError, f"`data_size` (=True) must be a whole number; {SIZE}."),
    ({}, ValueError, f"`data_size` (=None) must be given; {SIZE}."),
    ({"data_size": 9, "samples": 0}, ValueError, f"`samples` (=0) must be at least 1; {SAMPLES}."),
    ({"data_size": 9, "samples": 1.5}, TypeError, f"`samples` (=1.5) must be a whole number; {SAMPLES}."),
    ({"data_size": 9, "kl_weight": -1}, ValueError, f"`kl_weight` (=-1) {WEIGHT}"),
    ({"data_size": 9, "kl_weight": math.nan}, ValueError, f"`kl_weight` (=nan) {WEIGHT}"),
    (
        {"data_size": 9, "kl_weight": "1"},
        TypeError,
        "`kl_weight` (='1') must be \"auto\", a number or a function of the step; pass e.g. 1.0.",
    ),
]


@pytest.mark.parametrize(("options", "kind", "text"), REFUSED)
def test_bad_arguments_are_refused_in_words(options: dict[str, object], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match="^" + re.escape(text) + "$"):
        tb.ELBO(tb.Categorical(), **options)


def test_a_likelihood_must_be_one() -> None:
    loss = nn.CrossEntropyLoss()
    text = "`likelihood` (=CrossEntropyLoss()) must be a Likelihood; pass e.g. tb.Categorical()."
    with pytest.raises(TypeError, match=re.escape(text)):
        tb.ELBO(loss, data_size=9)


def test_a_schedule_needs_the_step() -> None:
    model, inputs = model_and_inputs()
    elbo = tb.ELBO(tb.Categorical(), data_size=DATA_SIZE, kl_weight=lambda step: 1.0 / (step + 1))
    text = "`step` (=None) must be given when `kl_weight` is a schedule; call elbo(model, x, y, step=i)."
    with pytest.raises(ValueError, match=re.escape(text)):
        elbo(model, inputs, LABELS)


@pytest.mark.parametrize("step", [0, 7])
def test_what_a_schedule_returns_is_checked(step: int) -> None:
    elbo = tb.ELBO(tb.Categorical(), data_size=DATA_SIZE, kl_weight=lambda step: -1.0 - step)
    with pytest.raises(ValueError, match=re.escape(f"`kl_weight` (={-1.0 - step}) {WEIGHT}")):
        elbo.nu(step)


def test_a_plain_network_has_no_divergence() -> None:
    text = "`model` (='Linear') must contain a BayesianModule; convert it first: tribayes.to_bayesian(net)."
    with pytest.raises(ValueError, match=re.escape(text)):
        tb.ELBO(tb.Categorical(), data_size=9)(nn.Linear(4, 2), torch.zeros(3, 4), LABELS)


def test_a_batch_with_more_examples_than_the_data_is_warned_of() -> None:
    """`data_size=len(loader)`, which counts batches, would weigh the prior by the size of a batch too much."""
    model, x, y = tb.to_bayesian(nn.Linear(4, 3)), torch.randn(9, 4), torch.arange(9) % 3
    tb.ELBO(tb.Categorical(), data_size=9)(model, x, y)  # a warning would be an error
    text = (
        "`data_size` (=4) is fewer than the 9 examples of one batch: it counts examples, not batches, and sets how "
        "much the prior weighs; pass len(dataset), or len(loader.dataset)."
    )
    with pytest.warns(UserWarning, match="^" + re.escape(text) + "$"):
        tb.ELBO(tb.Categorical(), data_size=4)(model, x, y)


def test_numbers_may_be_numpy_s() -> None:
    model, x = tb.to_bayesian(nn.Linear(4, 3), tau=np.float32(0.25), generator=np.int64(1)), torch.randn(5, 4)
    assert model.posterior().as_dict()["weight"]["tau"] == pytest.approx(0.25)
    objective = tb.ELBO(tb.Categorical(), data_size=np.int64(40), samples=np.int32(2), kl_weight=np.float64(0.5))
    assert (type(objective.data_size), type(objective.samples)) == (int, int)
    expected = tb.predict(model, x, 3, seed=7, progress=False)
    found = tb.predict(model, x, np.int64(3), seed=np.int64(7), batch_size=np.int64(2), progress=False)
    torch.testing.assert_close(found.samples, expected.samples)
    assert found.origin == expected.origin
    assert torch.equal(tb.Ensemble(model, np.int64(3), seed=np.int64(7))(x), tb.Ensemble(model, 3, seed=7)(x))
    with pytest.raises(TypeError, match=r"`data_size` \(=np\.True_\) must be a whole number"):
        tb.ELBO(tb.Categorical(), data_size=np.bool_(True))
