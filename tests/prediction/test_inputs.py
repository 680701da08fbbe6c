"""Inputs of every form are asked about alike, and what counts of an answer is what counted in training."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.libraries import library
from tests.prediction.models import (
    CLASSES,
    FEATURES,
    classifier,
    cut_chunks,
    inputs,
    predict,
    refused,
    regressor,
    seeded,
)


class Two(nn.Module):
    """Two arguments, and a flag that says which sign the second has."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, one: Tensor, other: Tensor, minus: bool = False) -> dict[str, Tensor]:
        once = self.layer(one - other if minus else one + other)
        return {"loss": one.sum(), "twice": 2 * once, "once": once}


@dataclass
class Pair:
    one: Any
    other: Any


def model() -> tb.BayesianModule:
    return tb.to_bayesian(seeded(Two), tau=0.5, generator=0)


X, Y = inputs(7), inputs(7, seed=2)
LABELS = torch.arange(7) % 3


def _frame(tensor: Tensor) -> Any:
    return library("pandas").DataFrame(tensor.numpy(), index=list(range(len(tensor)))[::-1])


FORMS: dict[str, Callable[[], Any]] = {
    "a dict": lambda: {"one": X, "other": Y},
    "in another order": lambda: {"other": Y, "one": X},
    "another Mapping": lambda: UserDict(one=X, other=Y),
    "a dataclass": lambda: Pair(X, Y),
    "with labels": lambda: {"one": X, "other": Y, "labels": LABELS},
    "with a flag": lambda: {"one": X, "other": -Y, "minus": True},
    "arrays": lambda: (X.numpy(), Y.numpy()),
    "arrays of less": lambda: {"one": X.numpy(), "other": Y},
    "tables": lambda: (_frame(X), _frame(Y)),
    "whole": lambda: tb.Whole((X, Y)),
    "whole and named": lambda: tb.Whole({"one": X, "other": Y, "targets": LABELS}),
    "loader of dicts": lambda: [{"one": a, "other": b} for a, b in zip(X.split(2), Y.split(2), strict=True)],
    "loader of dicts with labels": lambda: [
        {"one": a, "other": b, "label": 0} for a, b in zip(X.split(2), Y.split(2), strict=True)
    ],
    "loader of dataclasses": lambda: [Pair(X[:3], Y[:3]), Pair(X[3:], Y[3:])],
    "loader of pairs of dicts": lambda: [({"one": X, "other": Y}, LABELS)],
    "loader of arrays": lambda: [((X[:3].numpy(), Y[:3].numpy()), LABELS[:3]), [[X[3:], Y[3:]], LABELS[3:]]],
    "loader of wholes": lambda: [tb.Whole((X[:3], Y[:3])), (tb.Whole((X[3:], Y[3:])), LABELS[3:])],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk", [None, 2])
def test_every_form_gets_the_answer_of_tensors(form: str, chunk: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = predict(model(), (X, Y), 5).samples
    cut_chunks(monkeypatch, chunk, 5)
    found = predict(model(), FORMS[form](), 5, batch_size=3).samples
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


def test_an_encoding_of_transformers_is_a_mapping() -> None:
    encoding = library("transformers").BatchEncoding({"one": X, "other": Y})
    assert torch.equal(predict(model(), encoding, 3).samples, predict(model(), (X, Y), 3).samples)


def test_arrays_of_float64_become_what_the_network_computes_in() -> None:
    net = tb.to_bayesian(nn.Linear(4, 3), generator=0)
    array = np.random.default_rng(0).normal(size=(5, 4))
    expected = predict(net, torch.tensor(array).float(), 3).samples
    assert torch.equal(predict(net, array, 3).samples, expected)
    assert torch.equal(predict(net, _frame(torch.tensor(array)), 3).samples, expected)


def test_the_first_tensor_with_an_axis_counts_or_what_is_chosen() -> None:
    net = model()
    assert torch.equal(predict(net, (X, Y), 3).samples, predict(net, (X, Y), 3, output="twice").samples)
    once = predict(net, (X, Y), 3, output="once").samples
    assert torch.equal(predict(net, (X, Y), 3, output=2).samples, once)
    assert torch.equal(predict(net, (X, Y), 3, output=lambda answer: answer["twice"] / 2).samples, once)
    assert not torch.equal(predict(net, (X, Y), 3).samples, once)
    # standard errors of 2,000 networks are below 0.5 / √2000: 4.5 of them, 21 times, fail in 1.4e-4 of all seeds
    moments = predict(net, (X, Y), tb.Moments(), output="once")
    torch.testing.assert_close(moments.mean, predict(net, (X, Y), 2000, output="once").mean, rtol=0, atol=0.05)


@pytest.mark.parametrize("wrap", [lambda net: net, nn.Sequential, lambda net: torch.compile(net, backend="eager")])
def test_what_counted_in_training_counts_in_a_prediction(wrap: Callable[[nn.Module], nn.Module]) -> None:
    class One(Two):
        def forward(self, one: Tensor) -> dict[str, Tensor]:
            return super().forward(one, one)

    net = tb.to_bayesian(seeded(One), tau=0.5, generator=0)
    expected = predict(net, X, 3, output="once").samples
    outer = wrap(net)
    tb.ELBO(tb.Categorical(), data_size=7, output="once").stage(outer)
    torch.testing.assert_close(predict(outer, X, 3).samples, expected, rtol=0, atol=1e-14)
    assert torch.equal(predict(net, X, 3, output="twice").samples, predict(net, X, 3, output=1).samples)
    tb.ELBO(tb.Categorical(), data_size=7).stage(net)  # the last training counts
    assert not torch.equal(predict(net, X, 3).samples, expected)


class Graph(nn.Module):
    """A row for each node; edges are no examples."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self.layer(x.index_add(0, edges[1], x[edges[0]]))


@pytest.mark.parametrize("chunk", [None, 2])
def test_a_graph_is_asked_about_as_a_whole(chunk: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    net = tb.to_bayesian(seeded(Graph), tau=0.5, generator=0)
    edges = torch.tensor([[0, 6, 3], [6, 0, 0]])
    cut_chunks(monkeypatch, chunk, 4)
    pred = predict(net, tb.Whole((X, edges)), 4, batch_size=2)
    x = X.index_add(0, edges[1], X[edges[0]])
    expected = predict(tb.to_bayesian(seeded(lambda: nn.Linear(4, 3)), tau=0.5, generator=0), x, 4).samples
    torch.testing.assert_close(pred.samples, expected, rtol=0, atol=1e-14)
    two = predict(net, [tb.Whole((X, edges)), tb.Whole({"x": X[:2], "edges": edges[:, :0]})], 4)
    assert two.samples.shape == (4, 9, 3)
    torch.testing.assert_close(two.samples[:, :7], expected, rtol=0, atol=1e-14)
    with refused(
        "`inputs` (='dict of x: tensor (7, 4), edges: tensor (2, 3)') must have as many examples in each tensor; "
        "a tuple holds several arguments, and tb.Whole(...) what must not be cut, such as a graph."
    ):
        predict(net, {"x": X, "edges": edges}, 4)


def test_a_batch_of_three_parts_is_refused_as_in_training() -> None:
    """Else the second argument would be taken for labels, and the network asked without it."""
    with refused(
        "`inputs` (='list of tensor (7, 4), tensor (7, 4), tensor (7,)') must yield inputs, or (inputs, labels); "
        "for a network of several arguments yield ((x1, x2), targets).",
        TypeError,
    ):
        predict(model(), [[X, Y, LABELS]], 3)


@pytest.mark.parametrize("chunk", [None, 3])  # in one chunk, and in several
@pytest.mark.parametrize("keep", [True, False])
def test_texts_of_several_lengths_are_not_put_together(
    chunk: int | None, keep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = tb.to_bayesian(nn.Linear(4, 3))
    cut_chunks(monkeypatch, chunk, 4)
    batches, likelihood = [torch.randn(3, 5, 4), torch.randn(3, 2, 4)], tb.Categorical(class_axis=-1)
    words = r"must lead to answers of one shape per example; pad the inputs to one length, or ask about each length by"
    for samples in (4, tb.Moments()):
        with pytest.raises(ValueError, match=words):
            tb.predict(net, batches, samples, likelihood, keep_samples=keep, progress=False)
    with pytest.raises(ValueError, match=words):
        tb.Ensemble(net, 4, likelihood=likelihood).predict(batches, keep_samples=keep)


def test_truth_may_be_an_array_or_a_column() -> None:
    labels, pandas = torch.arange(15) % 3, library("pandas")
    pred = predict(classifier(), inputs(), 20)
    for truth in (labels.numpy(), pandas.Series(labels.numpy(), index=range(15, 0, -1))):
        assert pred.summary(truth).as_dict() == pred.summary(labels).as_dict()
        assert tb.metrics.negative_log_likelihood(pred.mean, truth) == pytest.approx(pred.summary(labels).nll)
    values = inputs()[:, :1]
    regression = predict(regressor(), inputs(), 20, likelihood=tb.Gaussian())
    for truth in (values.numpy(), pandas.Series(values[:, 0].numpy()), pandas.DataFrame(values.numpy())):
        assert regression.summary(truth).rmse == regression.summary(values).rmse


def test_truth_of_pixels_and_of_several_labels_may_be_an_array() -> None:
    answers = (inputs(15) > 0)[:, :3].long()
    labels = predict(classifier(), inputs(), 5, likelihood=tb.MultiLabel())
    assert torch.equal(labels.checked_targets(answers.numpy()), labels.checked_targets(answers))
    pixels = tb.to_bayesian(seeded(lambda: nn.Conv2d(1, 3, 1)), generator=0)
    pred = predict(pixels, inputs(15).reshape(15, 1, 2, 2), 5, likelihood=tb.Categorical(ignore_index=9))
    truth = answers[:, :1, None].expand(15, 2, 2).clone()
    assert torch.equal(pred.checked_targets(truth.numpy()), pred.checked_targets(truth))


def test_a_calibration_takes_arrays_and_named_inputs() -> None:
    x, y = inputs(40), inputs(40, seed=3)
    labels = torch.arange(40) % 3
    found = [
        tb.calibrate(model(), given, truth, samples=5, progress=False).tau_factor
        for given, truth in (((x, y), labels), ({"one": x.numpy(), "other": y}, labels.numpy()))
    ]
    assert found[0] == found[1]


class OnAGraph(nn.Module):
    """Averages over neighbours by an adjacency matrix of any layout."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        return adjacency @ self.head(x)


@pytest.mark.filterwarnings("ignore:Sparse CS")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_what_is_sparse_is_asked_about_as_a_whole(layout: torch.layout) -> None:
    model, x = tb.to_bayesian(seeded(OnAGraph), tau=0.5), inputs()
    adjacency = (torch.rand(len(x), len(x), generator=torch.Generator().manual_seed(0)) < 0.3).double()
    expected = predict(model, tb.Whole((x, adjacency)), 3)
    sparse = adjacency.to_sparse(layout=layout)
    found = [predict(model, tb.Whole((x, sparse)), part) for part in (range(2), range(2, 3))]
    torch.testing.assert_close(tb.Predictive.merge(found).samples, expected.samples)
    sparse.values().fill_(torch.nan) if layout != torch.sparse_coo else sparse._values().fill_(torch.nan)
    with pytest.raises(ValueError, match=r"^`inputs` .* must be finite, but holds NaN or infinity"):
        predict(model, tb.Whole((x, sparse)), 3)


NO_PLAIN_TENSORS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "sparse": (Tensor.to_sparse, r"\(='tensor of the layout torch\.sparse_coo'\) must be dense, where it is cut"),
    "nested": (lambda x: torch.nested.nested_tensor([x, x], layout=torch.jagged), ".* must be dense, where it is cut"),
    "without memory": (lambda x: x.to("meta"), r"\(='tensor of torch\.float64 on meta'\) must hold plain numbers"),
    "quantized": (
        lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8),
        r"\(='tensor of torch\.qint8 on cpu'\) must hold plain numbers",
    ),
}


@pytest.mark.filterwarnings("ignore:.*quantize")
@pytest.mark.parametrize("kind", NO_PLAIN_TENSORS)
def test_what_is_no_plain_tensor_is_refused(kind: str) -> None:
    make, words = NO_PLAIN_TENSORS[kind]
    with pytest.raises(ValueError, match=f"^`inputs` {words}"):
        predict(classifier(), make(inputs()), 2)


def test_views_of_conjugates_are_taken() -> None:
    pairs = torch.view_as_complex(torch.stack([inputs(), inputs()], -1))
    assert torch.equal(predict(classifier(), pairs.conj().imag, 2).samples, predict(classifier(), -inputs(), 2).samples)
