"""Which tensor of an answer counts: what was said, else the logits, else the first with an axis."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.libraries import library
from tests.prediction.models import refused
from tribayes.nn.answer import check_output, counted, remember_output, remembered_output

LOSS, X, Y = torch.tensor(1.0), torch.zeros(3, 2), torch.ones(3, 4)


@dataclass
class Record:
    loss: Tensor | None
    hidden: Tensor
    logits: Tensor | None = None


class Named(NamedTuple):
    hidden: Tensor
    logits: Tensor


class Own:
    """An answer of a kind of its own."""

    def __init__(self) -> None:
        self.logits = Y


ANSWERS: dict[str, tuple[Any, Any, Tensor]] = {
    "a tensor": (X, None, X),
    "a tuple": ((X, Y), None, X),
    "a loss before": ((LOSS, Y), None, Y),
    "nested": ([(None, LOSS), {"a": [Y]}, X], None, Y),
    "logits of a dict": ({"hidden": X, "logits": Y}, None, Y),
    "logits of a dataclass": (Record(LOSS, X, Y), None, Y),
    "a dataclass without": (Record(LOSS, X), None, X),
    "logits of a named tuple": (Named(X, Y), None, Y),
    "logits of an object": (Own(), None, Y),
    "by name": (OrderedDict(a=X, b=Y), "b", Y),
    "by name, of a dataclass": (Record(LOSS, X, Y), "hidden", X),
    "by name, of a named tuple": (Named(X, Y), "hidden", X),
    "by name, of an object": (Own(), "logits", Y),
    "by index": ((X, Y), 1, Y),
    "from the end": ([LOSS, X, Y], -2, X),
    "by index, of a dict": ({"a": X, "b": Y}, 1, Y),
    "by index, of a tensor": (X, 0, X),
    "by a function": ({"a": {"b": Y}}, lambda answer: answer["a"]["b"], Y),
}  # fmt: skip


@pytest.mark.parametrize("case", ANSWERS)
def test_the_tensor_that_counts(case: str) -> None:
    answer, output, expected = ANSWERS[case]
    assert counted(answer, output) is expected


def test_the_outputs_of_transformers_have_logits() -> None:
    output = library("transformers.modeling_outputs").SequenceClassifierOutput(loss=LOSS, logits=Y)
    assert counted(output) is Y
    assert counted(output, "loss") is LOSS
    assert counted(output, 1) is Y


KIND = "dict of a: tensor (3, 2), b: NoneType"
BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "unknown": (
        "c", ValueError,
        f"`output` (='c') must name a part of the network's answer, {KIND}; correct the name.",
    ),
    "beyond": (
        2, ValueError, f"`output` (=2) must count the parts of the network's answer, {KIND}; choose from 0 to 1.",
    ),
    "no tensor": (
        "b", TypeError,
        f"`output` (='b') must lead to a tensor, but led to NoneType; the network answered with {KIND}.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_choice_is_told_what_there_is(case: str) -> None:
    output, kind, text = BAD[case]
    with refused(text, kind):
        counted({"a": X, "b": None}, output)


@pytest.mark.parametrize("output", [True, 1.5, ["logits"]])
def test_what_says_nothing_about_an_answer_is_refused(output: object) -> None:
    text = (
        f"`output` (={output!r}) must be a name, an index or a function of the network's answer; "
        'pass e.g. output="logits", output=0 or output=lambda answer: answer.logits[:, -1].'
    )
    for call in (check_output, lambda one: tb.ELBO(tb.Categorical(), data_size=1, output=one)):
        with refused(text, TypeError):
            call(output)


def test_what_counted_is_no_part_of_the_models_state() -> None:
    model = tb.to_bayesian(nn.Linear(2, 1))
    names, parameters = list(model.state_dict()), len(list(model.parameters()))
    head = nn.Linear(1, 1)
    remember_output(nn.Sequential(model), head)
    assert remembered_output(model) is head
    assert list(model.state_dict()) == names
    assert len(list(model.parameters())) == parameters
