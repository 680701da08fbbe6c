"""Interrupts at a chosen line, for tests of what they leave behind."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

FINALISERS = ("weakref.py", "_weakrefset.py", "_dynamo/utils.py")  # where objects die, Python swallows every error


def interrupted_at(line: int, run: Callable[[], object], files: tuple[str, ...] = ("",)) -> bool:
    """Run, with an interrupt at the line of this number among all that Python executes in these files.

    Returns:
        Whether there was such a line.
    """
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal left
        file = frame.f_code.co_filename
        if not file.endswith(files) or file.endswith(FINALISERS):
            return None  # no line of this frame, but of those it calls
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    gc.disable()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
        gc.enable()
    assert left > 0, "the interrupt was swallowed"
    return False
