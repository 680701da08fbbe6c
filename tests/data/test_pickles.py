"""A pickle can ask for any function to be run. These are read as data; what asks for more is refused by name."""

import os
import pickle
import warnings
from pathlib import Path

import pytest
import torch

from tests.data.samples import array_opcodes, python_batch
from tribayes.data import cifar_pickle

LABELS = bytes([3, 0, 9])
PIXELS = bytes(range(18))
SHAPE = (3, 7)
BINARY = bytes([3, *range(6), 0, *range(6, 12), 9, *range(12, 18)])


def refusal_of(content: bytes) -> str:
    with pytest.raises(ValueError) as caught:
        cifar_pickle.to_binary(bytearray(content), SHAPE, "data_batch_1")
    return str(caught.value).removeprefix("data_batch_1 is not a CIFAR-10 batch: ").partition("; replace it")[0]


def test_a_batch_becomes_binary_records() -> None:
    assert cifar_pickle.to_binary(bytearray(python_batch(LABELS, PIXELS)), SHAPE, "data_batch_1") == BINARY


def test_an_array_stored_by_columns() -> None:
    by_column = bytes(torch.arange(18).view(3, 6).T.flatten().tolist())
    content = python_batch(LABELS, by_column, by_column=True)
    assert cifar_pickle.to_binary(bytearray(content), SHAPE, "data_batch_1") == BINARY


def test_the_samples_are_what_numpy_reads() -> None:
    pytest.importorskip("numpy", reason="compares with numpy's own reading of the pickle")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # old pickles name numpy.core
        batch = pickle.loads(python_batch(LABELS, PIXELS), encoding="bytes")
    assert list(batch) == [b"batch_label", b"labels", b"data", b"filenames"]
    assert batch[b"labels"] == list(LABELS)
    assert batch[b"data"].shape == (3, 6)
    assert batch[b"data"].tobytes() == PIXELS
    assert str(batch[b"data"].dtype) == "uint8"


class Harmful:
    """Pickles to a call that makes a folder."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


def test_nothing_is_run(tmp_path: Path) -> None:
    content = pickle.dumps({b"data": Harmful(tmp_path / "ran"), b"labels": []}, protocol=3)
    assert refusal_of(content) == f"it asks for {os.mkdir.__module__}.mkdir, which no such file needs"
    assert not (tmp_path / "ran").exists()
    pickle.loads(content)
    assert (tmp_path / "ran").exists()  # so the pickle was a harmful one


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("__builtin__", "eval"),
        ("numpy", "load"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy.core.multiarray", "_reconstruct.__call__"),
        ("torch", "load"),
        ("_codecs", "encode"),
    ],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_other_functions_are_refused_by_name(module: str, name: str, protocol: int) -> None:
    if protocol == 2:
        call = f"c{module}\n{name}\n".encode()
    else:  # names from the stack, which may have dots
        call = b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name)) + b"\x93"
    content = python_batch(LABELS, PIXELS, filenames=call + b"U\x04true\x85R")
    assert refusal_of(content) == f"it asks for {module}.{name}, which no such file needs"


@pytest.mark.parametrize("target", ["numpy.core.multiarray\n_reconstruct", "numpy\ndtype", "numpy\nndarray"])
@pytest.mark.parametrize("state", [b"}U\x08__call__K\x01s", b"N}U\x08__call__K\x01s\x86"])
def test_the_stand_ins_cannot_be_changed(target: str, state: bytes) -> None:
    refusal_of(python_batch(LABELS, PIXELS, filenames=f"c{target}\n".encode() + state + b"b"))
    test_a_batch_becomes_binary_records()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "Ran out of input"),
        (b"<html>", "invalid load key, '<'."),
        (python_batch(LABELS, PIXELS)[:60], "pickle data was truncated"),
        (python_batch(LABELS, PIXELS)[:-1], "Ran out of input"),
        (pickle.dumps([1, 2], protocol=2), "it is no dict with data and labels"),
        (pickle.dumps({b"labels": [1]}, protocol=3), "it is no dict with data and labels"),
        (python_batch(LABELS, PIXELS, data=b"U\x01x"), "its data are no numpy array"),
        (python_batch(LABELS, PIXELS, labels=b"J\xff\xff\xff\x7f"), "its labels are no list"),
        (python_batch(LABELS, PIXELS, labels=b"](J\xff\xff\xff\x7fe"), "byte must be in range(0, 256)"),
        (
            python_batch(LABELS, PIXELS, data=array_opcodes((3, 6), PIXELS, kind=b"i1")),
            "its data are of type b'i1', not uint8",
        ),
        (
            python_batch(LABELS, PIXELS, data=array_opcodes((3, 7), PIXELS)),
            "its data are 18 bytes of shape (3, 7)",
        ),
        (python_batch(LABELS, PIXELS, data=array_opcodes((18,), PIXELS)), "its data are 18 bytes of shape (18,)"),
        (
            python_batch(LABELS, PIXELS, data=array_opcodes((6, 3), PIXELS)),
            "3 labels for images of shape (6, 3), not 3 of 6",
        ),
        (python_batch(LABELS[:2], PIXELS[:12]), "2 labels for images of shape (2, 6), not 3 of 6"),
    ],
)
def test_a_batch_that_is_none(content: bytes, said: str) -> None:
    assert refusal_of(content) == said
