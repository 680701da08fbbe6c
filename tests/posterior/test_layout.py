"""How far the kernels of a GPU count, and where they would begin anew: arithmetic of the host, on any machine."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from tribayes import _graphs
from tribayes.posterior.draw import cuda, layout
from tribayes.posterior.draw.layout import NORMALS, layout_of, normals_of, rooms


def vast(*shape: int) -> Tensor:
    """A tensor of that shape in the memory of one number."""
    return torch.zeros(()).expand(*shape)


def test_the_normals_of_a_draw_are_counted_with_their_gaps() -> None:
    layout = layout_of([torch.zeros(5), torch.zeros(4096)], torch.float32)
    assert layout.normals == normals_of([torch.zeros(5), torch.zeros(4096)]) == 4 + (8 + 4) + (4096 + 4)
    last_block = layout.table[-1].tolist()
    assert last_block[1:6] == [2048, 4096, 1, 8, 4 + 8 + 4 + 2048]


def test_places_beyond_32_bits_are_whole_numbers_of_python() -> None:
    assert rooms([vast(2**33 + 1)], torch.float32) == [2**33 + 4]
    assert normals_of([vast(2**31), vast(2**32)]) == 2**31 + 2**32 + 12


def test_as_many_normals_as_the_kernels_count_are_drawn_and_no_more() -> None:
    assert normals_of([vast(NORMALS - 8)]) == NORMALS
    text = r"must have less than 8 billion random weights: .*; make several Bayesian modules of its parts\.$"
    for too_many in ([vast(NORMALS - 7)], [vast(2**32), vast(2**32 - 7)]):
        with pytest.raises(ValueError, match=r"^`model` \(=8589934585\) " + text):
            layout_of(too_many, torch.float32)


def test_a_filter_bank_beyond_32_bits_is_left_to_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    filters = torch.zeros(4, 6, 3, 3).to(memory_format=torch.channels_last)
    delta = torch.zeros(2)
    assert cuda.can_draw([filters, vast(2**20)[:1]], delta)
    monkeypatch.setattr(cuda, "_STRIDED", filters.numel() - 1)
    assert not cuda.can_draw([filters, torch.zeros(1)], delta)
    assert cuda.can_draw([filters.contiguous(), torch.zeros(1)], delta)


def test_a_network_of_hundreds_of_bayesian_modules_has_its_tables_made_once() -> None:
    """Each is one more copy to the GPU, for which a step would wait."""
    parts = [torch.zeros(3) for _ in range(300)]
    first = [layout_of([part], torch.float32) for part in parts]
    assert all(layout_of([part], torch.float32) is one for part, one in zip(parts, first, strict=True))


def test_what_a_recording_reads_stays_as_long_as_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of a model are forgotten where many others came after it; its graph reads them all the same."""
    monkeypatch.setattr(layout, "_kept", OrderedDict())
    monkeypatch.setattr(layout, "_MOST", 5)
    monkeypatch.setattr(_graphs, "_recording_stream", lambda _: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", lambda *_, **__: nullcontext())
    mean, others = torch.zeros(5), [torch.zeros(3) for _ in range(5)]
    read, unread = (weakref.ref(layout_of([mean], dtype).table) for dtype in (torch.float32, torch.bfloat16))
    recording = _graphs.Recording(lambda: layout_of([mean], torch.float32).total, torch.device("cpu"))
    for other in others:
        layout_of([other], torch.float32)
    assert unread() is None
    assert read() is not None
    assert recording.result == 8
    del recording
    assert read() is None
