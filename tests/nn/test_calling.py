"""Which arguments inputs stand for, where they are put, and how a batch is taken apart."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

import tribayes as tb
from tests.prediction.models import refused
from tribayes.nn.calling import Arguments, Home, arguments_of, inputs_and_targets

X, Y = torch.zeros(3, 2), torch.ones(3, 4)
HOME = Home(torch.device("cpu"), torch.float32)


@dataclass(frozen=True)
class Pair:
    x: Any
    y: Any


class Named(NamedTuple):
    x: Any
    y: Any


FORMS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "a tensor": (X, (X,), {}),
    "a tuple": ((X, Y), (X, Y), {}),
    "a list": ([X, Y], (X, Y), {}),
    "a named tuple": (Named(X, Y), (X, Y), {}),
    "a dict": ({"x": X, "y": Y}, (), {"x": X, "y": Y}),
    "another Mapping": (UserDict(x=X, y=Y), (), {"x": X, "y": Y}),
    "a dataclass": (Pair(X, Y), (), {"x": X, "y": Y}),
    "a dataclass as one argument": ((Pair(X, Y),), (Pair(X, Y),), {}),
    "inputs that are whole": (tb.Whole((X, Y)), (X, Y), {}),
    "arguments": (Arguments((X,), {"y": Y}), (X,), {"y": Y}),
    "a flag beside a tensor": ({"x": X, "flag": False}, (), {"x": X, "flag": False}),
}


@pytest.mark.parametrize("form", FORMS)
def test_inputs_stand_for_arguments(form: str) -> None:
    inputs, args, kwargs = FORMS[form]
    found = arguments_of(inputs)
    assert len(found.args) == len(args)
    assert all(one is other or one == other for one, other in zip(found.args, args, strict=True))
    assert found.kwargs.keys() == kwargs.keys()
    assert all(found.kwargs[name] is value for name, value in kwargs.items())
    assert type(found.kwargs) is dict


def test_a_packed_sequence_is_one_argument_though_it_is_a_tuple() -> None:
    packed = pack_sequence([torch.zeros(2, 3), torch.zeros(1, 3)])
    (found,), kwargs = HOME.arguments(packed)
    assert isinstance(found, PackedSequence)
    assert kwargs == {}


def test_what_is_placed_keeps_its_form() -> None:
    array = np.arange(4.0)
    nested = {"d": Named(array, 2), "e": UserDict(f=array)}
    found = HOME.place("inputs", {"a": [array, (X, 1)], "b": Pair(array, "text"), "c": None, **nested})
    assert found["c"] is None
    assert found["a"][1] == (X, 1)
    assert found["a"][1][0] is X
    assert found["b"].y == "text"
    assert isinstance(found["d"], Named)
    assert isinstance(nested["e"]["f"], np.ndarray)  # what was given is left alone
    for tensor in (found["a"][0], found["b"].x, found["d"].x, found["e"]["f"]):
        assert torch.equal(tensor, torch.arange(4.0))
        assert tensor.dtype == torch.float32


def test_home_is_where_and_in_what_a_network_computes() -> None:
    assert Home.of(nn.Linear(2, 1, dtype=torch.float64)) == Home(torch.device("cpu"), torch.float64)
    whole = nn.Parameter(torch.zeros(2, dtype=torch.int8), requires_grad=False)
    mixed = nn.ParameterList([whole, torch.zeros(1).half()])
    assert Home.of(mixed).dtype == torch.float16
    assert Home.of(nn.Linear(2, 1, device="meta")).place("inputs", X).device.type == "meta"


@pytest.mark.parametrize("name", ["labels", "label", "targets"])
@pytest.mark.parametrize("kind", [dict, UserDict])
def test_targets_are_taken_out_of_a_mapping(name: str, kind: type) -> None:
    inputs, targets = inputs_and_targets(kind({"x": X, name: Y}))
    assert inputs == {"x": X}
    assert targets is Y


def test_a_batch_is_a_pair_or_a_dataclass_with_targets() -> None:
    @dataclass
    class Labelled:
        x: Tensor
        labels: Tensor

    assert inputs_and_targets(Labelled(X, Y)) == ({"x": X}, Y)
    for pair in ((X, Y), [X, Y], Named(X, Y)):
        assert inputs_and_targets(pair) == (X, Y)
    named = {"x": X, "labels": X}
    assert inputs_and_targets((named, Y)) == (named, Y)  # targets are given: nothing is taken out


ONE_NAME = (
    "must have its targets under exactly one of the names labels, label, targets; "
    "rename the key, or yield (inputs, targets)."
)
PAIR = (
    "must yield (inputs, targets), or a Mapping with labels; "
    "for a network of several arguments yield ((x1, x2), targets)."
)
BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "no targets": ({"x": X, "y": Y}, ValueError, f"`batches` (=['x', 'y']) {ONE_NAME}"),
    "two kinds of them": (
        {"x": X, "label": Y, "labels": Y}, ValueError, f"`batches` (=['label', 'labels', 'x']) {ONE_NAME}",
    ),
    "three parts": (
        (X, X, Y), TypeError, f"`batches` (='tuple of tensor (3, 2), tensor (3, 2), tensor (3, 4)') {PAIR}",
    ),
    "inputs alone": (X, TypeError, f"`batches` (='tensor (3, 2)') {PAIR}"),
    "a word": ("xy", TypeError, f"`batches` (='str') {PAIR}"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_batch_that_cannot_be_taken_apart_is_described(case: str) -> None:
    batch, kind, text = BAD[case]
    with refused(text, kind):
        inputs_and_targets(batch)
