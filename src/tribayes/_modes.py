"""Torch's modes, put back whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def modes_kept(device: str) -> Iterator[None]:
    """Whether gradients are kept, and autocast, are afterwards what they are now.

    Torch's own managers put them back, but in Python: an interrupt that meets them there leaves them changed.
    """
    gradients = torch.is_grad_enabled()
    cast, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    try:
        yield
    finally:
        torch.set_grad_enabled(gradients)
        torch.set_autocast_enabled(device, cast)
        torch.set_autocast_dtype(device, dtype)
