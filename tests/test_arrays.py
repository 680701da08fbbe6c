"""Arrays and tables of other libraries as tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.libraries import library
from tests.prediction.models import refused
from tribayes._arrays import is_array, tensor_of


def test_arrays_come_with_their_numbers_in_memory_of_their_own() -> None:
    array = np.arange(6.0).reshape(2, 3)
    tensor = tensor_of("x", array)
    assert torch.equal(tensor, torch.arange(6.0, dtype=torch.float64).reshape(2, 3))
    array[0, 0] = 7
    assert tensor[0, 0] == 0


KINDS = [(np.float64, torch.float32), (np.float16, torch.float32), (np.int64, torch.int64), (bool, torch.bool)]


@pytest.mark.parametrize(("kind", "expected"), KINDS)
def test_real_numbers_come_in_the_dtype_asked_for_and_others_in_their_own(kind: type, expected: torch.dtype) -> None:
    assert tensor_of("x", np.ones(3, dtype=kind), torch.float32).dtype == expected


def test_views_that_torch_would_not_take_are_taken() -> None:
    array = np.arange(6.0)
    array.flags.writeable = False
    assert tensor_of("x", array[::-2]).tolist() == [5.0, 3.0, 1.0]
    assert tensor_of("x", np.float32(3.0)).item() == 3.0


def test_numbers_with_their_bytes_the_other_way_round_are_taken() -> None:
    for kind in (">f4", ">i8", "<f8", ">u2"):
        assert tensor_of("x", np.arange(3).astype(kind)).tolist() == [0, 1, 2]


def test_what_is_masked_is_missing_and_no_number() -> None:
    array = np.ma.masked_array(np.arange(6.0).reshape(2, 3), mask=False)
    assert tensor_of("x", array).sum() == 15
    array[0, 1] = np.ma.masked
    remedy = "fill them, as by .filled(0), or drop their rows"
    with refused(f"`x` (='1 of 6 entries masked') must have no missing values; {remedy}."):
        tensor_of("x", array)
    assert tensor_of("x", array.filled(0)).sum() == 14


def test_tables_and_columns_are_arrays() -> None:
    table = library("pandas").DataFrame({"a": [1.0, 2.0], "b": [3, 4]}, index=[7, 3])
    assert torch.equal(tensor_of("x", table, torch.float32), torch.tensor([[1.0, 3.0], [2.0, 4.0]]))
    assert tensor_of("x", table["b"]).tolist() == [3, 4]


def test_what_is_no_array_stays() -> None:
    for value in ("text", [1.0], {"a": 1}, None, 3, np.ndarray, torch.ones(2)):
        assert not is_array(value)
        assert tensor_of("x", value) is value


REMEDY = "encode words and dates first, and make all columns of one kind, e.g. by .astype('float32')"


def test_a_table_of_words_is_refused_by_its_columns() -> None:
    pandas = library("pandas")
    table = pandas.DataFrame({"a": [1.0, 2.0], "b": pandas.Series(["x", "y"], dtype=object)})
    found = "DataFrame of shape (2, 2) with columns of float64, object"
    with refused(f"`inputs` (={found!r}) must hold numbers alone; {REMEDY}.", TypeError):
        tensor_of("inputs", table)
    with refused(f"`y` (='ndarray of shape (1,) with columns of <U1') must hold numbers alone; {REMEDY}.", TypeError):
        tensor_of("y", np.array(["x"]))
