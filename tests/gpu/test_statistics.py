"""The short version of `python -m tests.statistics --gpu`: the kernels' normals, as they come from a GPU."""

from __future__ import annotations

from tests.statistics.__main__ import faults, run


def test_normals_of_triton_are_in_order() -> None:
    assert faults(run("triton", short=True), "triton") == []
