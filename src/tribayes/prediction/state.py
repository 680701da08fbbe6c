"""Leaving the model as it was: mode, buffers, random state, and one prediction at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

_IN_USE: set[int] = set()  # ids of modules a prediction is running on
_LOCK = threading.Lock()


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients inside; outside, nothing has changed, also after an error or Ctrl-C.

    BatchNorm uses its running statistics and dropout is off; the only randomness is that of the weights. Buffers
    that a network updates while it runs are put back, and so is torch's global random state.
    """
    devices = sorted(
        {p.device.index for p in model.parameters() if p.device.type == "cuda" and p.device.index is not None}
    )
    with _alone(model), torch.random.fork_rng(devices=devices), torch.no_grad():
        modes = [(module, module.training) for module in model.modules()]  # read only once the model is ours
        places = [(module, dict(module._buffers)) for module in model.modules()]
        values = [(buffer, buffer.clone()) for buffer in model.buffers()]
        try:
            model.eval()
            yield
        finally:
            for module, training in modes:
                module.training = training
            for module, buffers in places:  # a network may assign a new tensor instead of changing the old one
                module._buffers.clear()
                module._buffers.update(buffers)
            for buffer, before in values:
                if not torch.equal(buffer, before):  # writing to others would spoil a caller's pending backward
                    buffer.copy_(before)


@contextmanager
def _alone(model: nn.Module) -> Iterator[None]:
    """Refuse a second thread: while a network runs, its parameters are swapped for a draw."""
    parts = {id(module) for module in model.modules()}
    with _LOCK:
        if parts & _IN_USE:
            raise RuntimeError(
                "another thread is predicting with this model, and weights are swapped while it runs; "
                "give each thread its own: copy.deepcopy(model)"
            )
        _IN_USE.update(parts)
    try:
        yield
    finally:
        with _LOCK:
            _IN_USE.difference_update(parts)
