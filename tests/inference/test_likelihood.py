"""Likelihoods against torch.distributions."""

import inspect
import math

import pytest
import torch
import torch.distributions as D
import torch.nn.functional as F

import tribayes as tb
from tests.inference.answers import LABELS, MAP_LABELS, YES, normals
from tribayes import inference

STUDENT = tb.StudentT(df=2.5, scale=0.5).double()

# likelihood, outputs, targets, and the law of one example by torch.distributions
EXAMPLES = {
    "Categorical": [
        (tb.Categorical(), normals(5, 3), LABELS, lambda f: D.Categorical(logits=f)),
        (
            tb.Categorical(),
            normals(5, 3, 2, 2),
            MAP_LABELS,
            lambda f: D.Independent(D.Categorical(logits=f.movedim(1, -1)), 2),
        ),
        (
            tb.Categorical(class_axis=-1),
            normals(5, 2, 2, 3),
            MAP_LABELS,
            lambda f: D.Independent(D.Categorical(logits=f), 2),
        ),
    ],
    "Gaussian": [
        (tb.Gaussian(), normals(5), normals(5, seed=1), lambda f: D.Normal(f, 1.0)),
        (tb.Gaussian(), normals(5, 4), normals(5, 4, seed=1), lambda f: D.Independent(D.Normal(f, 1.0), 1)),
        (
            tb.Gaussian(noise=0.25).double(),
            normals(5, 2, 3),
            normals(5, 2, 3, seed=1),
            lambda f: D.Independent(D.Normal(f, tb.Gaussian(noise=0.25).double().noise), 2),
        ),
    ],
    "Bernoulli": [
        (tb.Bernoulli(), normals(5), YES[:, 0], lambda f: D.Bernoulli(logits=f)),
        (tb.Bernoulli(), normals(5, 2), YES, lambda f: D.Independent(D.Bernoulli(logits=f), 1)),
    ],
    "MultiLabel": [
        (tb.MultiLabel(), normals(5, 2), YES, lambda f: D.Independent(D.Bernoulli(logits=f), 1)),
    ],
    "HeteroscedasticGaussian": [
        (
            tb.HeteroscedasticGaussian(smallest=0.01).double(),
            normals(5, 4),
            normals(5, 2, seed=1),
            lambda f: D.Independent(D.Normal(f[:, :2], 0.01 + F.softplus(f[:, 2:])), 1),
        ),
        (
            tb.HeteroscedasticGaussian().double(),
            normals(5, 2),
            normals(5, seed=1),
            lambda f: D.Normal(f[:, 0], 1e-6 + F.softplus(f[:, 1])),
        ),
    ],
    "StudentT": [
        (
            tb.StudentT(df=2.5, scale=0.5).double(),
            normals(5, 2),
            normals(5, 2, seed=1),
            lambda f: D.Independent(D.StudentT(STUDENT.df, f, STUDENT.scale), 1),
        ),
    ],
    "Poisson": [
        (
            tb.Poisson(),
            normals(5, 2),
            torch.arange(10).reshape(5, 2),
            lambda f: D.Independent(D.Poisson(f.exp()), 1),
        ),
    ],
}
CASES = [(name, index) for name, cases in EXAMPLES.items() for index in range(len(cases))]


def test_every_likelihood_is_in_the_table() -> None:
    public = {name for name in inference.__all__ if inspect.isclass(getattr(inference, name))}
    kinds = {name for name in public if issubclass(getattr(inference, name), tb.Likelihood)}
    assert kinds - {"Likelihood"} == EXAMPLES.keys()


@pytest.mark.parametrize(("name", "index"), CASES)
def test_one_value_per_example_is_minus_the_log_density(name: str, index: int) -> None:
    likelihood, outputs, targets, law = EXAMPLES[name][index]
    expected = -law(outputs).log_prob(targets.double())
    nll = likelihood.nll(outputs, targets)
    assert nll.shape == (5,)
    torch.testing.assert_close(nll, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("name", "index"), CASES)
def test_what_a_step_descends_is_their_mean(name: str, index: int) -> None:
    likelihood, outputs, targets, _ = EXAMPLES[name][index]
    leaves = [outputs.clone().requires_grad_() for _ in range(2)]
    ours, theirs = likelihood.mean_nll(leaves[0], targets), likelihood.nll(leaves[1], targets).mean()
    torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=0)
    gradients = [torch.autograd.grad(value, leaf)[0] for value, leaf in zip((ours, theirs), leaves, strict=True)]
    torch.testing.assert_close(*gradients, rtol=1e-13, atol=1e-16)


def test_the_euclidean_loss_is_the_gaussian_with_unit_noise() -> None:
    outputs, targets = normals(5, 4), normals(5, 4, seed=1)
    euclidean = 0.5 * (targets - outputs).square().sum(1)
    expected = euclidean + 4 / 2 * math.log(2 * math.pi)
    torch.testing.assert_close(tb.Gaussian().nll(outputs, targets), expected, rtol=1e-15, atol=1e-14)
    assert tb.Gaussian().noise.item() == 1.0


@pytest.mark.parametrize("noise", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("learned", [True, False])
def test_the_noise_starts_where_it_is_told(noise: float, learned: bool) -> None:
    likelihood = tb.Gaussian(noise=noise, learned=learned)
    assert likelihood.noise.item() == pytest.approx(noise, rel=1e-6)
    assert len(list(likelihood.parameters())) == learned
    assert str(likelihood) == f"Gaussian(noise={noise:.4g}, learned={learned})"


def test_learned_noise_has_the_gradient_of_the_density() -> None:
    likelihood = tb.Gaussian(noise=0.5, learned=True).double()
    outputs, targets = normals(5, 2), normals(5, 2, seed=1)
    likelihood.nll(outputs, targets).sum().backward()
    noise = likelihood.noise.detach()
    by_noise = (1 / noise - (targets - outputs).square() / noise**3).sum()
    slope = torch.sigmoid(likelihood.raw_noise.detach())  # of softplus
    torch.testing.assert_close(likelihood.raw_noise.grad, by_noise * slope, rtol=1e-12, atol=0)


def test_learned_noise_is_optimal_at_the_root_mean_square_residual() -> None:
    outputs, targets = normals(50), normals(50, seed=1)
    residual = (targets - outputs).square().mean().sqrt().item()
    likelihood = tb.Gaussian(noise=residual, learned=True).double()
    likelihood.nll(outputs, targets).mean().backward()
    assert abs(likelihood.raw_noise.grad.item()) < 1e-6  # the noise is kept in float32 until .double()


def test_soft_labels_are_an_average_of_hard_ones() -> None:
    outputs = normals(5, 3)
    shares = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    hard = [tb.Categorical().nll(outputs, torch.full((5,), label)) for label in range(3)]
    expected = sum(share * nll for share, nll in zip(shares, hard, strict=True))
    torch.testing.assert_close(tb.Categorical().nll(outputs, shares.expand(5, 3)), expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_labels_may_be_any_integers(dtype: torch.dtype) -> None:
    outputs = normals(5, 3)
    assert torch.equal(tb.Categorical().nll(outputs, LABELS.to(dtype)), tb.Categorical().nll(outputs, LABELS))


def test_targets_of_a_bernoulli_may_be_booleans() -> None:
    outputs = normals(5, 2)
    assert torch.equal(tb.Bernoulli().nll(outputs, YES.bool()), tb.Bernoulli().nll(outputs, YES.double()))


def test_weights_are_factors_on_the_examples_of_a_class() -> None:
    outputs, weights = normals(5, 3), torch.tensor([1.0, 2.0, 0.5])
    expected = weights[LABELS] * tb.Categorical().nll(outputs, LABELS)
    weighted = tb.Categorical(class_weights=weights)
    torch.testing.assert_close(weighted.nll(outputs, LABELS), expected)
    torch.testing.assert_close(weighted.mean_nll(outputs, LABELS), expected.mean())
    assert str(weighted) == "Categorical(class_weights=3 of them)"


@pytest.mark.parametrize("axis", [1, -1])
def test_a_smoothed_label_is_a_mixture_of_labels(axis: int) -> None:
    outputs = normals(5, 3, 2, 2) if axis == 1 else normals(5, 2, 2, 3)
    soft = 0.9 * F.one_hot(MAP_LABELS, 3) + 0.1 / 3
    soft = soft.movedim(-1, axis)
    smooth = tb.Categorical(label_smoothing=0.1, class_axis=axis)
    expected = tb.Categorical(class_axis=axis).nll(outputs, soft.double())
    torch.testing.assert_close(smooth.nll(outputs, MAP_LABELS), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(5,), (5, 2, 2)])
def test_what_is_ignored_adds_nothing_to_an_example(shape: tuple[int, ...]) -> None:
    labels = LABELS if shape == (5,) else MAP_LABELS
    outputs = normals(shape[0], 3, *shape[1:])
    hidden = labels.where(labels != 1, -100)
    each = F.cross_entropy(outputs, labels, reduction="none") * (labels != 1)
    expected = each.reshape(5, -1).sum(1)
    likelihood = tb.Categorical(ignore_index=-100)
    torch.testing.assert_close(likelihood.nll(outputs, hidden), expected, rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(likelihood.mean_nll(outputs, hidden), expected.mean(), rtol=1e-14, atol=0)


def test_nothing_observed_is_no_nan() -> None:
    likelihood = tb.Categorical(ignore_index=-100)
    assert likelihood.mean_nll(normals(5, 3), torch.full((5,), -100)).item() == 0.0


def test_degrees_of_freedom_can_be_learned() -> None:
    likelihood = tb.StudentT(df=3.0, scale=2.0, learned=True, df_learned=True)
    likelihood.nll(normals(5).float(), normals(5, seed=1).float()).sum().backward()
    assert all(parameter.grad.abs() > 0 for parameter in likelihood.parameters())
    assert str(likelihood) == "StudentT(df=3, scale=2, learned=True, df_learned=True)"


def test_a_likelihood_is_widened_in_place() -> None:
    gaussian, student, own = tb.Gaussian(0.5), tb.StudentT(scale=0.5), tb.HeteroscedasticGaussian()
    for likelihood in (gaussian, student, own):
        likelihood.widen_(3.0)
    assert float(gaussian.noise) == pytest.approx(1.5)
    assert float(student.scale) == pytest.approx(1.5)
    assert own.noise_law().factor == 3.0


def test_values_are_not_looked_at_while_torch_maps() -> None:
    outputs, targets = normals(4, 3), normals(4, 3).sigmoid()
    mapped = torch.func.vmap(lambda f, y: tb.Bernoulli().nll(f[None], y[None])[0])(outputs, targets)
    torch.testing.assert_close(mapped, tb.Bernoulli().nll(outputs, targets))


@pytest.mark.parametrize(
    ("likelihood", "width"),
    [(tb.Gaussian(noise=0.1), 1), (tb.StudentT(scale=0.1), 1), (tb.Poisson(), 1), (tb.HeteroscedasticGaussian(), 2)],
    ids=lambda value: type(value).__name__,
)
def test_values_are_judged_in_single_precision(likelihood: tb.Likelihood, width: int) -> None:
    """Whatever a network computes in: bfloat16 has no 0.1, and takes 257 counts for 256."""
    outputs = torch.linspace(-2, 5, 4 * width, dtype=torch.bfloat16).reshape(4, width)
    counts = torch.full((4, 1), 257)
    found = likelihood.nll(outputs, counts)
    assert found.dtype == torch.float32
    assert torch.equal(found, likelihood.nll(outputs.float(), counts.float()))


@pytest.mark.parametrize("df", [1e4, 1e5, 1e7])
def test_students_law_of_many_degrees_of_freedom_is_normal(df: float) -> None:
    """Up to 1/df, where the logarithms of Γ have lost all their digits in float32; so has the gradient of df."""
    likelihood, errors = tb.StudentT(df=df, df_learned=True), torch.linspace(-1, 1, 5)
    found = likelihood.nll(torch.zeros(5), errors)
    torch.testing.assert_close(found, tb.Gaussian().nll(torch.zeros(5), errors), rtol=0, atol=1 / df + 1e-6)
    if df < 1e5:  # beyond, the rest of the density is too flat for float32
        (gradient,) = torch.autograd.grad(likelihood.nll(torch.zeros(1), torch.zeros(1)).sum(), likelihood.raw_df)
        assert gradient.item() == pytest.approx(-1 / (4 * df**2), rel=0.05)
