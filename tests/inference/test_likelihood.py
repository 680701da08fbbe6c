"""Likelihoods against torch.distributions, and the shapes they refuse."""

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributions as D
import torch.nn.functional as F
from torch import Tensor, nn

import tribayes as tb
from tribayes import inference


def normals(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


LABELS = torch.tensor([2, 0, 1, 1, 2])
MAP_LABELS = torch.arange(5 * 2 * 2).reshape(5, 2, 2) % 3
YES = torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])

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


NO_CLASS = (
    "must lie in [0, 3), for the network has 3 classes; correct the labels, or name the one that was not observed: "
    "tb.Categorical(ignore_index=-100)."
)
SHARES = "pass class indices, or one probability per class."
BATCH = "must have one entry for each of the 5 examples; check the batch."
REFUSED = {
    "torch's own ignored label": (
        tb.Categorical(),
        normals(5, 3),
        torch.tensor([2, 0, -100, 1, 2]),
        f"`targets` (=-100 at (2,), 1 of 5 entries) {NO_CLASS}",
        ValueError,
    ),
    "a class too many": (
        tb.Categorical(),
        normals(5, 3),
        torch.tensor([2, 0, 1, 3, 2]),
        f"`targets` (=3 at (3,), 1 of 5 entries) {NO_CLASS}",
        ValueError,
    ),
    "a class too many in a picture": (
        tb.Categorical(ignore_index=255),
        normals(5, 3, 2, 2),
        MAP_LABELS + 1,
        f"`targets` (=3 at (0, 1, 0), 6 of 20 entries) {NO_CLASS}",
        ValueError,
    ),
    "a negative probability": (
        tb.Categorical(),
        normals(1, 2),
        torch.tensor([[1.5, -0.5]]),
        f"`targets` (=-0.5 at (0, 1), 1 of 2 entries) must not be negative; {SHARES}",
        ValueError,
    ),
    "percentages": (
        tb.Categorical(),
        normals(1, 2),
        torch.tensor([[50.0, 50.0]]),
        f"`targets.sum(1)` (=100.0 at (0,), 1 of 1 entries) must be 1 over the classes of each example; {SHARES}",
        ValueError,
    ),
    "probabilities where one label is ignored": (
        tb.Categorical(ignore_index=0),
        normals(1, 2),
        torch.tensor([[0.5, 0.5]]),
        "`targets` (=tensor of shape (1, 2), torch.float32) must be class indices where one of them is ignored; "
        "pass class indices, or leave ignore_index out.",
        ValueError,
    ),
    "tokens with the classes last": (
        tb.Categorical(),
        normals(2, 4, 3),
        torch.zeros(2, 4, dtype=torch.int64),
        "`targets` (=tensor of shape (2, 4), torch.int64) must have the shape (2, 3) for logits (2, 4, 3) with the "
        "classes on axis 1; give one class index per position, or for (N, …, C) pass tb.Categorical(class_axis=-1).",
        ValueError,
    ),
    "an answer of five": (
        tb.Bernoulli(),
        normals(1),
        torch.tensor([5.0]),
        "`targets` (=5.0 at (0,), 1 of 1 entries) must lie in [0, 1]; pass 0 for no and 1 for yes, or a probability.",
        ValueError,
    ),
    "an empty batch": (
        tb.Categorical(),
        normals(0, 3),
        LABELS[:0],
        "`outputs` (=tensor of shape (0, 3), torch.float64) must hold at least one example; "
        "the batch is empty: its mean would be NaN.",
        ValueError,
    ),
    "half a count": (
        tb.Poisson(),
        normals(2),
        torch.tensor([1.0, 0.5]),
        "`targets` (=0.5 at (1,), 1 of 2 entries) must be whole numbers, not negative; pass counts.",
        ValueError,
    ),
    "means without scales": (
        tb.HeteroscedasticGaussian(),
        normals(5, 3),
        normals(5, 3),
        "`outputs` (=tensor of shape (5, 3), torch.float64) must have the shape (N, 2D); "
        "give D means, then D raw scales: a last layer with twice as many outputs.",
        ValueError,
    ),
    "as many values as outputs": (
        tb.HeteroscedasticGaussian(),
        normals(5, 2),
        normals(5, 2),
        "`targets` (=tensor of shape (5, 2), torch.float64) must have the shape (5, 1) for outputs (5, 2), two per "
        "value; reshape them.",
        ValueError,
    ),
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
        "`targets` (=[1.0, 2.0]) must be a tensor; convert them with torch.tensor(targets).",
        TypeError,
    ),
    "a data set in the place of its loader": (
        tb.Categorical(),
        normals(3),
        torch.tensor(2),
        "`targets` (=2) must have an axis of examples, but are a single number; batch single examples first: "
        "a DataLoader in the place of its dataset, x.unsqueeze(0) for x.",
        ValueError,
    ),
    "a loss instead of logits": (
        tb.Categorical(),
        torch.tensor(2.5),
        LABELS,
        "`outputs` (=2.5) must have one row per example, but are a single number; "
        "choose the part of the network's answer that counts: output=..., of the objective.",
        ValueError,
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


def test_noise_that_rounds_to_nothing_is_refused() -> None:
    text = "`noise` (=1e-46) must lie between 1e-10 and 1e10, since its square is computed with; it is the standard"
    with pytest.raises(ValueError, match="^" + re.escape(text)):
        tb.Gaussian(noise=1e-46)


OPTIONS = {
    "label_smoothing": (1.0, "`label_smoothing` (=1.0) must lie in [0, 1); 0.1 is usual."),
    "class_axis": (2, "`class_axis` (=2) must be 1 or -1; move the classes there: outputs.movedim(axis, 1)."),
    "class_weights": (
        [1.0, -1.0],
        "`class_weights` (=tensor of shape (2,), torch.float32) must be numbers, one per class, finite and not "
        "negative; pass e.g. the inverse of each class's share.",
    ),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_options_that_make_no_sense_are_refused(option: str) -> None:
    value, text = OPTIONS[option]
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        tb.Categorical(**{option: value})


def test_weights_that_no_float_holds_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^`class_weights` \(=\[1000.* one per class, finite and not negative; pass e\.g\."
    ):
        tb.Categorical(class_weights=[10**400, 1])


def test_weights_for_other_classes_are_refused() -> None:
    text = (
        "`class_weights` (=tensor of shape (2,), torch.float32) must have one for each of the 3 classes; "
        "check the network's last layer."
    )
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        tb.Categorical(class_weights=[1.0, 2.0]).nll(normals(5, 3), LABELS)


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


class Squares(tb.Likelihood):
    """One of someone's own, which takes the squared errors together in its own way."""

    def __init__(self, together: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.together = together

    def nll(self, outputs: Tensor, targets: Tensor) -> Any:
        return self.together((outputs - targets).square())

    def response(self, outputs: Tensor) -> Tensor:
        return outputs


SUM = "sum over an example's own entries, not over examples: .flatten(1).sum(1); see that no two broadcast."
NOT_ONE_EACH = {
    "their mean": (Tensor.mean, 3, 3, r"`nll` \(=[\d.]+\) must be \(N,\), one number per example, where Squares"),
    "none together": (lambda each: each, 3, 3, r"`nll` \(=tensor of shape \(5, 3\), torch.float64\) must be \(N,\)"),
    "broadcast": (lambda each: each, 1, None, r"`nll` \(=tensor of shape \(5, 5\), torch.float64\) must be \(N,\)"),
}


@pytest.mark.parametrize("objective", ["ELBO", "AlphaELBO"])
@pytest.mark.parametrize("case", NOT_ONE_EACH)
def test_a_likelihood_of_ones_own_has_one_number_per_example(case: str, objective: str) -> None:
    """A mean over what should have been summed would weigh the data less, and nobody would see it."""
    together, width, values, words = NOT_ONE_EACH[case]
    model = tb.to_bayesian(nn.Linear(4, width).double())
    elbo = getattr(tb, objective)(Squares(together), data_size=5)
    with pytest.raises(ValueError, match=words + ".*" + re.escape(SUM)):
        elbo(model, normals(5, 4), normals(5, values) if values else normals(5))


def test_what_such_a_likelihood_returns_is_a_tensor() -> None:
    likelihood = Squares(lambda each: float(each.sum()))
    with pytest.raises(TypeError, match=r"`nll` \(=[\d.]+\) must be a tensor where Squares returns it; compute it by"):
        likelihood.mean_nll(normals(5, 3), normals(5, 3, seed=1))


def test_of_one_value_the_axis_may_stay() -> None:
    each = (normals(5, 1) - normals(5, 1, seed=1)).square()
    assert Squares(lambda each: each).mean_nll(normals(5, 1), normals(5, 1, seed=1)) == each.mean()


LIKELIHOODS = {
    name: getattr(tb, name)
    for name in ("Bernoulli", "Categorical", "Gaussian", "HeteroscedasticGaussian", "MultiLabel", "Poisson", "StudentT")
}
KINDS = {  # of tensors, with which torch does not compute as with numbers
    "complex": lambda x: x.to(torch.complex64),
    "sparse": Tensor.to_sparse,
    "meta": lambda x: x.to("meta"),
    "float8": lambda x: x.to(torch.float8_e4m3fn),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_targets_of_other_kinds_are_refused(name: str, kind: str) -> None:
    """Complex labels lost their imaginary part; the rest ended in torch's words."""
    likelihood = LIKELIHOODS[name]
    outputs = torch.zeros(4, 2)
    targets = torch.tensor([0, 1, 1, 0]) if name == "Categorical" and kind != "float8" else torch.ones(4, 2)
    if name == "HeteroscedasticGaussian":
        targets = targets[:, :1]
    text = r"`targets` \(=tensor of shape .*, torch\.\w+\) must be real numbers, dense and in memory; convert it from"
    with pytest.raises(TypeError, match=text):
        likelihood().nll(outputs, KINDS[kind](targets))
