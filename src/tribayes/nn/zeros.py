"""Means of exactly zero, where the noise is τ|m|: such a weight has none, and no density either.

A conversion moves zeros to ±1e-6, but averaging, pruning or loading may bring them back. Looking for them waits for a
GPU, so it is done where nobody counts microseconds: when a state is loaded, a prior is set, a training begins or fails.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

from torch import Tensor


def count_zeros(means: Iterable[tuple[str, Tensor]]) -> dict[str, str]:
    """Name → "3 of 32", for tensors with entries of exactly zero."""
    counted = [(name, mean, 0 if mean.is_meta else int((mean == 0).sum())) for name, mean in means]
    return {name: f"{zeros:,} of {mean.numel():,}" for name, mean, zeros in counted if zeros}


def warn_of_zeros(zeros: Mapping[str, str], infinite: bool) -> None:
    """Say which means are zero and what follows; `infinite` where the divergence does."""
    if not zeros:
        return
    where = ", ".join(f"{count} in {name!r}" for name, count in zeros.items())
    follows = (
        "and their divergence from a tb.Prior is infinite; tb.stabilise_(model), which every training step calls, "
        "moves them to ±1e-6. Pruned weights stay zero under tb.RelativePrior()."
        if infinite
        else "which is right for pruned weights; others get it back when training moves them."
    )
    text = f"means are exactly zero ({where}): the noise of a weight is τ|m|, so they have none, {follows}"
    warnings.warn(text, UserWarning, stacklevel=3)
