"""Every bad argument of a prediction is refused in words: argument, value, requirement, remedy."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.prediction.models import classifier, inputs, predict, predictive, refused, regressor, seeded

NAN, INF = math.nan, math.inf


def asked(**options: Any) -> Callable[[], object]:
    arguments = {"model": classifier(), "inputs": inputs(), "samples": 3, **options}
    return lambda: predict(**arguments)


SAMPLES = "must name at least one sample, counting from 0 up without gaps; pass e.g. samples=200, or range(0, 100)."
SAMPLES_TYPE = 'must be a number, a range or "auto"; pass e.g. samples=200.'
LEVEL = "must lie strictly between 0 and 1; pass e.g. 0.95 for a 95 % interval."
COUNTS = "must be a whole number, at least 1; it counts examples."
EMPTY = "must hold at least one example; the tensor or loader is empty."
LOADER = "must yield tensors, or (inputs, labels); adapt the loader's collate function."
KINDS = "must be a tensor, a tuple of tensors or a loader of batches; pass x, (x1, x2) or a DataLoader."

VALUES: dict[str, tuple[Callable[[], object], str]] = {
    "zero samples": (asked(samples=0), f"`samples` (=0) {SAMPLES}"),
    "fewer than zero": (asked(samples=-2), f"`samples` (=-2) {SAMPLES}"),
    "empty range": (asked(samples=range(5, 5)), f"`samples` (=range(5, 5)) {SAMPLES}"),
    "negative range": (asked(samples=range(-2, 5)), f"`samples` (=range(-2, 5)) {SAMPLES}"),
    "range with gaps": (asked(samples=range(0, 9, 2)), f"`samples` (=range(0, 9, 2)) {SAMPLES}"),
    "level one": (asked(levels=(0.95, 1.0)), f"`level` (=1.0) {LEVEL}"),
    "level in per cent": (asked(levels=(95,)), f"`level` (=95) {LEVEL}"),
    "batch size": (asked(batch_size=0), f"`batch_size` (=0) {COUNTS}"),
    "batch size no number": (asked(batch_size=2.0), f"`batch_size` (=2.0) {COUNTS}"),
    "chunk size": (asked(chunk_size=-1), f"`chunk_size` (=-1) {COUNTS}"),
    "chunk size true": (asked(chunk_size=True), f"`chunk_size` (=True) {COUNTS}"),
    "empty tensor": (asked(inputs=inputs()[:0]), f"`inputs` (=tensor of shape (0, 4), torch.float64) {EMPTY}"),
    "empty loader": (asked(inputs=[]), f"`inputs` (=[]) {EMPTY}"),
    "empty tuple": (asked(inputs=()), f"`inputs` (=()) {EMPTY}"),
    "loader of empty batches": (
        asked(inputs=[inputs()[:0]]), f"`inputs` (=[tensor([], size=(0, 4), dtype=torch.float64)]) {EMPTY}",
    ),
    "scalar": (
        asked(inputs=torch.tensor(3.0)),
        "`inputs` (=3.0) must have an axis of examples; pass x.unsqueeze(0) for a single example.",
    ),
    "arguments of different lengths": (
        asked(inputs=(inputs(3), inputs(2))),
        "`inputs` (=[3, 2]) must have as many examples in each tensor; a tuple holds several arguments.",
    ),
    "arguments of different lengths in a loader": (
        asked(inputs=[((inputs(3), inputs(2)), 0)]),
        "`inputs` (=[3, 2]) must have as many examples in each tensor; a tuple holds several arguments.",
    ),
    "nothing Bayesian": (
        asked(model=nn.Linear(4, 3)),
        "`model` (='Linear') must contain a BayesianModule; convert it first: tribayes.to_bayesian(net).",
    ),
    "one class": (
        asked(model=regressor()),
        "`outputs` (=tensor of shape (15, 1), torch.float64) must have the shape (N, C) with at least two classes; "
        "see tb.Bernoulli.",
    ),
    "many answers": (
        asked(likelihood=tb.Bernoulli()),
        "`outputs` (=tensor of shape (15, 3), torch.float64) must be one logit an example, (N,) or (N, 1); "
        "predict one answer at a time.",
    ),
}  # fmt: skip

TYPES: dict[str, tuple[Callable[[], object], str]] = {
    "samples a word": (asked(samples="many"), f"`samples` (='many') {SAMPLES_TYPE}"),
    "samples a float": (asked(samples=20.0), f"`samples` (=20.0) {SAMPLES_TYPE}"),
    "samples true": (asked(samples=True), f"`samples` (=True) {SAMPLES_TYPE}"),
    "level a word": (asked(levels=("0.95",)), "`level` (='0.95') must be a number; pass e.g. 0.95."),
    "seed": (asked(seed=0.5), "`seed` (=0.5) must be a whole number; pass e.g. seed=0."),
    "seed true": (asked(seed=True), "`seed` (=True) must be a whole number; pass e.g. seed=0."),
    "likelihood": (
        asked(likelihood="gaussian"), "`likelihood` (='gaussian') must be a Likelihood; pass e.g. tb.Categorical().",
    ),
    "inputs a number": (asked(inputs=3), f"`inputs` (=3) {KINDS}"),
    "inputs a word": (asked(inputs="x"), f"`inputs` (='x') {KINDS}"),
    "inputs a dict": (asked(inputs={"x": 1}), f"`inputs` (={{'x': 1}}) {KINDS}"),
    "loader of words": (asked(inputs=["x"]), f"`inputs` (='x') {LOADER}"),
    "loader of nothing": (asked(inputs=[()]), f"`inputs` (=()) {LOADER}"),
    "loader of scalars": (asked(inputs=[torch.tensor(1.0)]), f"`inputs` (=1.0) {LOADER}"),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_bad_values_are_refused(case: str) -> None:
    call, text = VALUES[case]
    with refused(text):
        call()


@pytest.mark.parametrize("case", TYPES)
def test_bad_types_are_refused(case: str) -> None:
    call, text = TYPES[case]
    with refused(text, TypeError):
        call()


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95, NAN])
def test_levels_outside_are_refused(level: float) -> None:
    pred = predict(classifier(), inputs(), 3)
    regression = predict(regressor(), inputs(), 3, likelihood=tb.Gaussian())
    questions = (
        pred.interval, pred.certain, pred.monte_carlo_error, regression.interval, regression.observation_interval,
        lambda level: pred.summary(pred.label, (level,)), lambda level: regression.summary(regression.mean, (level,)),
    )  # fmt: skip
    for question in questions:
        with refused(f"`level` (={level}) {LEVEL}"):
            question(level)


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_inputs_that_are_not_finite_are_named(bad: float) -> None:
    x = inputs()
    x[11, 2] = bad
    text = "`inputs` (='example 11') must be finite, but holds NaN or infinity; clean the data."
    for form in (x, list(x.split(4)), (x,)):
        with refused(text):
            predict(classifier(), form, 3, batch_size=4)


class Explodes(nn.Module):
    """The logarithm of a weight that a draw may turn negative; only where an input asks for it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0]))

    def forward(self, x: Tensor) -> Tensor:
        risky = torch.where(x[:, :1] > 100, self.weight.log(), self.weight)
        return torch.cat([risky, -risky], dim=1)


@pytest.mark.parametrize("chunk_size", [None, 4])
@pytest.mark.parametrize("keep_samples", [True, False])
def test_outputs_that_are_not_finite_are_named(chunk_size: int | None, keep_samples: bool) -> None:
    """The first draw that turns the weight negative, and the first example that takes its logarithm."""
    model = tb.to_bayesian(seeded(Explodes), tau=1.0)
    x = inputs()
    x[9:11, 0] = 200
    finite = predict(model, inputs(), 50, likelihood=tb.Gaussian()).samples[:, 0, 0]
    bad = int((finite < 0).nonzero()[0])
    assert bad > 0
    text = (
        f"`model` (='example 9, sample {bad}') must give finite outputs, but gave NaN or infinity; "
        "check the trained weights."
    )
    for samples in (50, range(bad - 1, bad + 3), "auto"):
        with refused(text):
            predict(model, x, samples, chunk_size=chunk_size, keep_samples=keep_samples)


class Returns(nn.Module):
    """A network with an answer of any form."""

    def __init__(self, answer: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.layer, self.answer = nn.Linear(4, 3), answer

    def forward(self, x: Tensor) -> object:
        return self.answer(self.layer(x))


ALONE = "must return a tensor; wrap it to return the logits alone."
ANSWERS: dict[str, tuple[Callable[[Tensor], object], type[Exception], str]] = {
    "a tuple": (lambda y: (y, y), TypeError, f"`model` (='tuple') {ALONE}"),
    "a dict": (lambda y: {"y": y}, TypeError, f"`model` (='dict') {ALONE}"),
    "too many rows": (
        lambda y: torch.cat([y, y]), ValueError,
        "`model` (=(30, 3)) must return one row for each of its 15 inputs; check its forward method.",
    ),
    "a scalar": (
        lambda y: y.sum(), ValueError,
        "`model` (=()) must return one row for each of its 15 inputs; check its forward method.",
    ),
    "an image": (
        lambda y: y.unsqueeze(-1), ValueError,
        "`outputs` (=tensor of shape (15, 3, 1), torch.float64) must have the shape (N, C) with at least two classes; "
        "see tb.Bernoulli.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ANSWERS)
def test_answers_of_another_form_are_refused(case: str) -> None:
    answer, kind, text = ANSWERS[case]
    with refused(text, kind):
        predict(tb.to_bayesian(seeded(lambda: Returns(answer))), inputs(), 3)


def test_rows_that_get_lost_in_a_batch_are_noticed() -> None:
    """Of several examples only the first is answered."""
    model = tb.to_bayesian(seeded(lambda: Returns(lambda y: y[:1])))
    with refused("`model` (=(1, 3)) must return one row for each of its 5 inputs; check its forward method."):
        predict(model, inputs(), 3, batch_size=5)


LABELS: dict[str, tuple[object, type[Exception], str]] = {
    "too short": (
        torch.zeros(14, dtype=torch.long), ValueError,
        "`targets` (=tensor of shape (14,), torch.int64) must have the shape (15,), one per example; "
        "check the order of the data.",
    ),
    "one-hot": (
        torch.zeros(15, 3, dtype=torch.long), ValueError,
        "`targets` (=tensor of shape (15, 3), torch.int64) must have the shape (15,), one per example; "
        "check the order of the data.",
    ),
    "too large": (
        torch.arange(15), ValueError, "`targets` (='3 at 3') must lie in [0, 3); the network has 3 classes.",
    ),
    "negative": (
        torch.arange(15).flip(0).clamp(max=2) - torch.eye(15, dtype=torch.long)[14], ValueError,
        "`targets` (='-1 at 14') must lie in [0, 3); the network has 3 classes.",
    ),
    "floats": (
        torch.zeros(15), TypeError,
        "`targets` (=tensor of shape (15,), torch.float32) must be a tensor of class indices; "
        "convert it with torch.tensor(y).",
    ),
    "a list": (
        [0], TypeError, "`targets` (=[0]) must be a tensor of class indices; convert it with torch.tensor(y).",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LABELS)
def test_bad_labels_are_refused(case: str) -> None:
    targets, kind, text = LABELS[case]
    pred = predictive(torch.full((2, 15, 3), 1 / 3))
    for question in (pred.summary, pred.correct):
        with refused(text, kind):
            question(targets)
