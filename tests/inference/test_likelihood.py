"""Likelihoods against torch.distributions, and the shapes they refuse."""

import inspect
import math
import re

import pytest
import torch
import torch.distributions as D
from torch import Tensor

import tribayes as tb
from tribayes import inference


def normals(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


LABELS = torch.tensor([2, 0, 1, 1, 2])
MAP_LABELS = torch.arange(5 * 2 * 2).reshape(5, 2, 2) % 3
YES = torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])

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


BATCH = "must have one entry for each of the 5 examples; check the batch."
REFUSED = {
    "classes for another batch": (
        tb.Categorical(),
        normals(5, 3),
        LABELS[:4],
        f"`targets` (=tensor of shape (4,), torch.int64) {BATCH}",
        ValueError,
    ),
    "one-hot integers": (
        tb.Categorical(),
        normals(5, 3),
        torch.eye(3, dtype=torch.int64)[LABELS],
        "`targets` (=tensor of shape (5, 3), torch.int64) must have the shape (5,) for logits (5, 3); "
        "give one class index per example.",
        ValueError,
    ),
    "no axis of classes": (
        tb.Categorical(),
        normals(5),
        LABELS,
        "`outputs` (=tensor of shape (5,), torch.float64) must have the shape (N, C, …); give one logit per class.",
        ValueError,
    ),
    "classes as floats": (
        tb.Categorical(),
        normals(5, 3),
        LABELS.float(),
        "`targets` (=tensor of shape (5,), torch.float32) must have the outputs' shape (5, 3); "
        "pass class indices as integers, or one probability per class.",
        ValueError,
    ),
    "classes as booleans": (
        tb.Categorical(),
        normals(5, 2),
        LABELS > 0,
        "`targets` (=tensor of shape (5,), torch.bool) must be class indices; convert them with targets.long().",
        TypeError,
    ),
    "a column against a row": (
        tb.Gaussian(),
        normals(5, 1),
        normals(5),
        "`targets` (=tensor of shape (5,), torch.float64) must have the outputs' shape (5, 1); "
        "reshape one of them: (N, 1) against (N,) would broadcast to (N, N).",
        ValueError,
    ),
    "too few answers": (
        tb.Bernoulli(),
        normals(5, 2),
        YES[:, 0],
        "`targets` (=tensor of shape (5,), torch.float32) must have the outputs' shape (5, 2); "
        "give one target per logit.",
        ValueError,
    ),
    "outputs that are no tensor": (
        tb.Gaussian(),
        (1.0, 2.0),
        normals(5),
        "`outputs` (=(1.0, 2.0)) must be a tensor; a network that returns more needs its own likelihood.",
        TypeError,
    ),
    "targets that are no tensor": (
        tb.Gaussian(),
        normals(2),
        [1.0, 2.0],
        "`targets` (=[1.0, 2.0]) must be a tensor; a network that returns more needs its own likelihood.",
        TypeError,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_shapes_and_types_that_do_not_fit_are_refused(case: str) -> None:
    likelihood, outputs, targets, text, kind = REFUSED[case]
    with pytest.raises(kind, match="^" + re.escape(text) + "$"):
        likelihood.nll(outputs, targets)


@pytest.mark.parametrize("noise", [0.0, -1.0, math.inf, math.nan])
def test_noise_that_is_not_positive_is_refused(noise: float) -> None:
    text = f"`noise` (={noise}) must be finite and positive; it is the standard deviation of the observation noise."
    with pytest.raises(ValueError, match=re.escape(text)):
        tb.Gaussian(noise=noise)
