"""The answers of sampled networks, collected where they were computed and, to be kept, on the host as well.

A copy at the end would have the caller wait for it, a tenth of the time for a small network; so answers go to the host
while the GPU computes the next ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

_GROUP = 16  # draws whose answers are brought while the GPU computes as many more


class Answers(NamedTuple):
    """What S sampled networks said about n examples, (S, n, C)."""

    samples: Tensor  # where they were computed
    on_host: Tensor | None  # the same, if that was a GPU and they are to be kept

    def joined(self, more: Answers) -> Answers:
        """With those of more networks."""
        both = None if self.on_host is None or more.on_host is None else torch.cat([self.on_host, more.on_host])
        return Answers(torch.cat([self.samples, more.samples]), both)


def collect(rows: Iterable[Tensor], count: int, keep: bool) -> Answers:
    """The answers of `count` networks, which come in rows (s, n, C) of one network or several each."""
    taken: list[Tensor] = []
    carrier = None
    for row in rows:
        taken.append(row)
        if keep and row.is_cuda:
            carrier = carrier or _Carrier(row, count)
            carrier.take(row)
    return Answers(torch.cat(taken), carrier.all_brought() if carrier else None)


class _Carrier:
    """Brings rows from a GPU to the host on a stream of its own: a group while the next one is computed."""

    def __init__(self, example: Tensor, count: int) -> None:
        self._host = torch.empty((count, *example.shape[1:]), dtype=example.dtype)
        self._stream = torch.cuda.Stream(example.device)
        self._device = example.device
        self._group: list[Tensor] = []  # whose computation has been asked for
        self._before: list[Tensor] = []  # the group before it
        self._done = torch.cuda.Event()  # when that one is computed
        self._place = 0

    def take(self, row: Tensor) -> None:
        """Another row. It may wait for the group before."""
        self._group.append(row)
        if len(self._group) == _GROUP:
            self._bring()

    def all_brought(self) -> Tensor:
        """(S, n, C) on the host."""
        self._bring()
        self._bring()
        return self._host

    def _bring(self) -> None:
        """The group before to the host; what has been asked for since is now the group before."""
        self._stream.wait_event(self._done)
        with torch.cuda.stream(self._stream):
            for row in self._before:  # a copy to ordinary memory waits for its stream, and for no other
                self._host[self._place : self._place + len(row)].copy_(row)
                self._place += len(row)
        self._done = torch.cuda.current_stream(self._device).record_event()
        self._before, self._group = self._group, []
