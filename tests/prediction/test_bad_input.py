"""Every bad argument of a prediction is refused in words: argument, value, requirement, remedy."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.prediction.models import classifier, cut_chunks, inputs, predict, predictive, refused, regressor, seeded

NAN, INF = math.nan, math.inf


def asked(**options: Any) -> Callable[[], object]:
    arguments = {"model": classifier(), "inputs": inputs(), "samples": 3, **options}
    return lambda: predict(**arguments)


SAMPLES = "must name at least one sample, counting from 0 up without gaps; pass e.g. samples=200, or range(0, 100)."
SAMPLES_TYPE = (
    "must be a number, a range, an AutoSamples or a Moments; pass e.g. samples=200, tb.AutoSamples() or tb.Moments()."
)
MODEL_TYPE = "must be a Bayesian model; convert a network first: tb.to_bayesian(net)."
LEVELS_TYPE = "must be a sequence of levels; pass e.g. levels=(0.95,)."
PATTERNS = 'must be a name pattern or several; pass e.g. where="*.weight".'
POINTS = "must be an even whole number, at least 2; 512 is the default."
LEVEL = "must lie strictly between 0 and 1; pass e.g. 0.95 for a 95 % interval."
COUNTS = "must be at least 1; it counts examples."
EMPTY = "must hold at least one example; the tensor or loader is empty."
LOADER = "must yield tensors, named tensors, or (inputs, labels); adapt the loader's collate function."
KINDS = (
    "must be a tensor, several of them or a loader of batches; "
    "pass x, (x1, x2), {name: x} or a DataLoader, or tb.Whole(...) for what must not be cut."
)
LENGTHS = (
    "must have as many examples in each tensor; "
    "a tuple holds several arguments, and tb.Whole(...) what must not be cut, such as a graph."
)
TENSORS = "must hold tensors; pass tensors with a row per example, or tb.Whole(...) for what must not be cut."
ROWS = "check its forward method, and which part of its answer counts (`output`); a single example is x.unsqueeze(0)."

VALUES: dict[str, tuple[Callable[[], object], str]] = {
    "zero samples": (asked(samples=0), f"`samples` (=0) {SAMPLES}"),
    "fewer than zero": (asked(samples=-2), f"`samples` (=-2) {SAMPLES}"),
    "empty range": (asked(samples=range(5, 5)), f"`samples` (=range(5, 5)) {SAMPLES}"),
    "negative range": (asked(samples=range(-2, 5)), f"`samples` (=range(-2, 5)) {SAMPLES}"),
    "range with gaps": (asked(samples=range(0, 9, 2)), f"`samples` (=range(0, 9, 2)) {SAMPLES}"),
    "level one": (asked(levels=(0.95, 1.0)), f"`level` (=1.0) {LEVEL}"),
    "level in per cent": (asked(levels=(95,)), f"`level` (=95) {LEVEL}"),
    "batch size": (asked(batch_size=0), f"`batch_size` (=0) {COUNTS}"),
    "batch size below zero": (asked(batch_size=-1), f"`batch_size` (=-1) {COUNTS}"),
    "range downwards": (asked(samples=range(5, 0, -1)), f"`samples` (=range(5, 0, -1)) {SAMPLES}"),
    "level zero": (asked(levels=[0]), f"`level` (=0) {LEVEL}"),
    "level NaN": (asked(levels=(NAN,)), f"`level` (=nan) {LEVEL}"),
    "no points": (lambda: tb.Moments(0), f"`points` (=0) {POINTS}"),
    "an odd number of points": (lambda: tb.Moments(511), f"`points` (=511) {POINTS}"),
    "half a point": (lambda: tb.Moments(2.5), f"`points` (=2.5) {POINTS}"),
    "points true": (lambda: tb.Moments(True), f"`points` (=True) {POINTS}"),
    "precision": (
        asked(precision=torch.float64),
        "`precision` (=torch.float64) must be torch.bfloat16 or torch.float16; "
        "leave it out to compute as the model is.",
    ),
    "no pattern": (
        asked(where=()), "`where` (=()) must name at least one pattern; leave it out to draw every random tensor.",
    ),
    "a pattern without a match": (
        asked(where="conv*"),
        "`where` (='conv*') must match a random tensor of the model; "
        "choose among 0.weight, 0.bias, 2.weight, 2.bias.",
    ),
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
        f"`inputs` (=[3, 2]) {LENGTHS}",
    ),
    "arguments of different lengths in a loader": (
        asked(inputs=[((inputs(3), inputs(2)), 0)]),
        f"`inputs` (=[3, 2]) {LENGTHS}",
    ),
    "nothing Bayesian": (
        asked(model=nn.Linear(4, 3)),
        "`model` (='Linear') must contain a BayesianModule; convert it first: tribayes.to_bayesian(net).",
    ),
    "one class": (
        asked(model=regressor()),
        "`outputs` (=tensor of shape (15, 1), torch.float64) must have the shape (N, C, …) with at least two classes "
        "on axis 1; see tb.Bernoulli for one logit, or say what they are: likelihood=tb.Gaussian(...).",
    ),
    "many answers": (
        asked(likelihood=tb.Bernoulli()),
        "`outputs` (=tensor of shape (15, 3), torch.float64) must be one logit per example, (N,) or (N, 1); "
        "pass likelihood=tb.MultiLabel() for several answers.",
    ),
}  # fmt: skip

TYPES: dict[str, tuple[Callable[[], object], str]] = {
    "no model": (asked(model=None), f"`model` (=None) {MODEL_TYPE}"),
    "model a class": (asked(model=nn.Linear), f"`model` (=<class 'torch.nn.modules.linear.Linear'>) {MODEL_TYPE}"),
    "samples auto": (asked(samples="auto"), f"`samples` (='auto') {SAMPLES_TYPE}"),
    "samples moments": (asked(samples="moments"), f"`samples` (='moments') {SAMPLES_TYPE}"),
    "samples a class": (
        asked(samples=tb.Moments), f"`samples` (=<class 'tribayes.prediction.samples.Moments'>) {SAMPLES_TYPE}",
    ),
    "samples a list": (asked(samples=[0, 1]), f"`samples` (=[0, 1]) {SAMPLES_TYPE}"),
    "no samples": (asked(samples=None), f"`samples` (=None) {SAMPLES_TYPE}"),
    "levels a number": (asked(levels=0.95), f"`levels` (=0.95) {LEVELS_TYPE}"),
    "levels a word": (asked(levels="0.95"), f"`levels` (='0.95') {LEVELS_TYPE}"),
    "no levels": (asked(levels=None), f"`levels` (=None) {LEVELS_TYPE}"),
    "level true": (asked(levels=(True,)), "`level` (=True) must be a number; pass e.g. 0.95."),
    "batch size": (asked(batch_size=2.0), "`batch_size` (=2.0) must be a whole number; it counts examples."),
    "batch size true": (asked(batch_size=True), "`batch_size` (=True) must be a whole number; it counts examples."),
    "no seed": (asked(seed=None), "`seed` (=None) must be a whole number; pass e.g. seed=0."),
    "likelihood a class": (
        asked(likelihood=tb.Bernoulli),
        "`likelihood` (=<class 'tribayes.inference.likelihood.Bernoulli'>) must be a Likelihood; "
        "pass e.g. tb.Categorical().",
    ),
    "no inputs": (asked(inputs=None), f"`inputs` (=None) {KINDS}"),
    "where a number": (asked(where=3), f"`where` (=3) {PATTERNS}"),
    "where of numbers": (asked(where=["0.*", 3]), f"`where` (=['0.*', 3]) {PATTERNS}"),
    "where bytes": (asked(where=b"0.*"), f"`where` (=b'0.*') {PATTERNS}"),
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
    "inputs a dict": (asked(inputs={"x": 1}), f"`inputs` (='dict of x: int') {TENSORS}"),
    "inputs labels alone": (asked(inputs={"labels": inputs()}), f"`inputs` (='dict of nothing') {TENSORS}"),
    "inputs numbered": (
        asked(inputs={0: inputs()}),
        "`inputs` (=[0]) must have strings for keys; use the names of the arguments of the network's forward.",
    ),
    "loader of words": (asked(inputs=["x"]), f"`inputs` (='x') {LOADER}"),
    "loader of nothing": (asked(inputs=[()]), f"`inputs` (='tuple of nothing') {TENSORS}"),
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


@pytest.mark.parametrize("name", ["method", "at_once", "captured", "chunk_size", "sampler"])
def test_an_argument_it_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        predict(classifier(), inputs(), 3, **{name: 1})


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
def test_outputs_that_are_not_finite_are_named(
    monkeypatch: pytest.MonkeyPatch, chunk_size: int | None, keep_samples: bool
) -> None:
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
    auto = tb.AutoSamples(cap=50)
    for samples, count in ((50, 50), (range(bad - 1, bad + 3), 4), (auto, auto.cap)):
        cut_chunks(monkeypatch, chunk_size, count, width=2)
        with refused(text):
            predict(model, x, samples, keep_samples=keep_samples)


class Returns(nn.Module):
    """A network with an answer of any form."""

    def __init__(self, answer: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.layer, self.answer = nn.Linear(4, 3), answer

    def forward(self, x: Tensor) -> object:
        return self.answer(self.layer(x))


SOMEWHERE = 'must answer with a tensor somewhere; choose a part by output="name", output=0 or output=function.'
ANSWERS: dict[str, tuple[Callable[[Tensor], object], type[Exception], str]] = {
    "nothing": (lambda _: None, TypeError, f"`model` (='NoneType') {SOMEWHERE}"),
    "numbers": (lambda _: {"y": [1.0, "a"]}, TypeError, f"`model` (='dict of y: list of float, str') {SOMEWHERE}"),
    "too many rows": (
        lambda y: torch.cat([y, y]), ValueError,
        "`model` (=(30, 3)) must return one row for each of its 15 inputs; " + ROWS,
    ),
    "a scalar": (
        lambda y: y.sum(), ValueError,
        "`model` (=()) must return one row for each of its 15 inputs; " + ROWS,
    ),
    "classes on another axis": (
        lambda y: y.unsqueeze(1), ValueError,
        "`outputs` (=tensor of shape (15, 1, 3), torch.float64) must have the shape (N, C, …) with at least two "
        "classes on axis 1; see tb.Bernoulli for one logit, or say what they are: likelihood=tb.Gaussian(...).",
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
    with refused(f"`model` (=(1, 3)) must return one row for each of its 5 inputs; {ROWS}"):
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
        torch.arange(15), ValueError,
        "`targets` (=3 at (3,), 12 of 15 entries) must lie in [0, 3); the network has 3 classes.",
    ),
    "negative": (
        torch.arange(15).flip(0).clamp(max=2) - torch.eye(15, dtype=torch.long)[14], ValueError,
        "`targets` (=-1 at (14,), 1 of 15 entries) must lie in [0, 3); the network has 3 classes.",
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
