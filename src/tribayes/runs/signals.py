"""Ctrl-C and SIGTERM as a wish, granted at the next pause of the training."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self


class Stopped(Exception):
    """The training was asked to end, and did; every run has its checkpoint."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number
        self.exit_code = 128 + number


class StopRequest:
    """While this lasts, the first SIGINT or SIGTERM is only noted, in `number`; a second one acts as usual.

    A signal that was ignored before, as Ctrl-C is in a background job, stays ignored. Python lets only its main thread
    handle signals: in another one nothing is changed.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.number = number
        self.__exit__()
