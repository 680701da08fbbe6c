"""CUDA graphs: what a GPU has to do, recorded once and then replayed with one launch, whatever it is made of.

Small networks leave a GPU waiting for Python between their layers. This is the only place that records: training steps,
trainings side by side, predictions and benchmarks use it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)

_holders: list[list[object]] = []  # of the recordings under way


class CaptureFailed(RuntimeError):
    """Work that no CUDA graph can hold. Torch's generator and allocator are not to be trusted afterwards."""


class WaitsForDevice(RuntimeError):
    """Work that waits for the GPU, seen before anything was recorded: nothing is lost by running it as it is."""


@contextmanager
def aside(device: torch.device) -> Iterator[None]:
    """On a GPU: on the stream that recordings are made on; elsewhere nothing.

    Autograd adds up a parameter's gradient on the stream where it was first asked for, as long as anything of that pass
    is kept; a recording fails if that is torch's default stream. So what comes before one runs here, too.
    """
    if device.type != "cuda":
        yield
        return
    here, there = torch.cuda.current_stream(device), _recording_stream(device)
    there.wait_stream(here)
    with torch.cuda.stream(there):
        yield
    here.wait_stream(there)


@cache
def _recording_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


@contextmanager
def noting_waits(device: torch.device) -> Iterator[list[str]]:
    """Notes what within waits for the GPU, which no recording can hold."""
    seen: list[str] = []
    if device.type != "cuda":
        yield seen
        return
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield seen
        finally:
            torch.cuda.set_sync_debug_mode(before)
    for warning in caught:
        if "synchronizing CUDA operation" in str(warning.message):
            seen.append(str(warning.message))
        elif "Synchronization debug mode" not in str(warning.message):  # torch's word on the mode itself
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def hold(value: object) -> None:
    """Let the recording that is under way, if any, keep this: a graph reads addresses, and keeps nothing itself."""
    for holder in _holders:
        holder.append(value)


class Recording:
    """Work on a GPU, recorded. What is made once (by a first run) must have been made before.

    `run` does the work, all of it on the device, and returns tensors, or a tree of them; `generators` are those it
    draws from, beside torch's own.
    """

    def __init__(
        self, run: Callable[[], Any], device: torch.device, generators: Sequence[torch.Generator] = ()
    ) -> None:
        torch.cuda.synchronize(device)
        self._graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self._graph.register_generator_state(generator)
        self._held: list[object] = []  # what was made before, and is read by every replay
        _holders.append(self._held)
        try:
            with torch.cuda.graph(self._graph, stream=_recording_stream(device)):
                result = run()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise CaptureFailed(_first_line(error)) from error
        finally:
            _holders.pop()
        # detached: torch would keep the recording's stream for the gradients of later passes
        self.result = tree_map_only(Tensor, Tensor.detach, result)

    def replay(self) -> Any:
        """Do it again. The result lies where it lay, overwritten."""
        self._graph.replay()
        return self.result


class RecordedCall:
    """A function of tensors, recorded for arguments of one form: new values are copied in, then it is replayed.

    The values of `arguments`, tensors on the GPU in tuples, lists or dicts, do not matter; numbers and words among them
    are part of the form, and with objects of other kinds they fit no recording. The function is called `warm_up` times
    before. Arguments lie in `places`: who writes there, and passes these, spares a copy.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        device: torch.device,
        generators: Sequence[torch.Generator] = (),
        warm_up: int = 0,
    ) -> None:
        self.places = tree_map_only(Tensor, Tensor.clone, arguments)
        self._form = _form(arguments)
        with aside(device):
            for _ in range(warm_up - 1):
                function(*self.places)
            if warm_up:
                with noting_waits(device) as waits:
                    function(*self.places)
                if waits:
                    raise WaitsForDevice(waits[0])
        self._recording = Recording(lambda: function(*self.places), device, generators)

    def fits(self, arguments: tuple[Any, ...]) -> bool:
        """Whether these arguments have the form of those recorded."""
        return _form(arguments) == self._form

    def __call__(self, *arguments: Any) -> Any:
        for place, value in zip(tree_leaves(self.places), tree_leaves(arguments), strict=True):
            if isinstance(place, Tensor) and place is not value:
                place.copy_(value)
        return self._recording.replay()


def _form(arguments: Any) -> Any:
    leaves, tree = tree_flatten(arguments)
    return tree, [
        (tuple(leaf.shape), leaf.dtype, leaf.device, leaf.stride())
        if isinstance(leaf, Tensor)
        else (leaf if isinstance(leaf, _PLAIN) else object())  # unlike all others: tensors may hide in it
        for leaf in leaves
    ]


def _first_line(error: BaseException) -> str:
    """Of the error that came first: the one at a recording's end only says that there was one."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).splitlines()[0] if str(error) else type(error).__name__
