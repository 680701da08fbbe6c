"""What a likelihood does not take, and with which words: shapes, targets, options, and laws of one's own."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.inference.answers import LABELS, MAP_LABELS, YES, normals

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
