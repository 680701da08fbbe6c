"""What sampled networks said: all of it, or exactly the reductions that were asked for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes.prediction.quantiles import quantiles, tails


class Source(ABC):
    """S sampled answers for N examples with C values each, behind one interface. Tensors live on the CPU."""

    count: int  # S
    mean: Tensor  # (N, C)
    std: Tensor  # (N, C), over the S samples (divided by S − 1)
    mean_entropy: Tensor  # (N,), of probabilities: −(1/S) Σ_s Σ_c p ln p

    @property
    @abstractmethod
    def samples(self) -> Tensor:
        """(S, N, C)."""

    @abstractmethod
    def quantiles(self, probabilities: Sequence[float]) -> Tensor:
        """(len(probabilities), N, C)."""


class Kept(Source):
    """All samples held: everything can be asked, at any level, later. They are summed up on the device they are on.

    `on_host` are the same, where they have been brought there already.
    """

    def __init__(self, samples: Tensor, on_host: Tensor | None = None) -> None:
        self.count = len(samples)
        self.mean, self.std, self.mean_entropy = (value.cpu() for value in moments(samples))
        self._samples = samples.cpu() if on_host is None else on_host

    @classmethod
    def join(cls, parts: Sequence[Kept]) -> Kept:
        """The same for more examples."""
        return parts[0] if len(parts) == 1 else cls(torch.cat([part.samples for part in parts], dim=1))

    @property
    def samples(self) -> Tensor:
        return self._samples

    def quantiles(self, probabilities: Sequence[float]) -> Tensor:
        return quantiles(self._samples, probabilities)


@dataclass
class Reduced(Source):
    """Samples reduced a chunk of examples at a time, exactly: for N × C × S too large to hold."""

    count: int
    mean: Tensor
    std: Tensor
    mean_entropy: Tensor
    table: dict[float, Tensor]  # probability → quantile (N, C)

    @classmethod
    def of(cls, samples: Tensor, levels: Sequence[float]) -> Reduced:
        """Reduce the samples of one chunk."""
        wanted = sorted({p for level in levels for tail in tails(level) for p in neighbours(tail, len(samples))})
        table = dict(zip(wanted, quantiles(samples, wanted).cpu(), strict=True)) if wanted else {}
        mean, std, mean_entropy = (value.cpu() for value in moments(samples))
        return cls(len(samples), mean, std, mean_entropy, table)

    @classmethod
    def join(cls, parts: Sequence[Reduced]) -> Reduced:
        """The same for more examples."""
        table = {p: torch.cat([part.table[p] for part in parts]) for p in parts[0].table}
        mean, std, entropy = (torch.cat([getattr(p, f) for p in parts]) for f in ("mean", "std", "mean_entropy"))
        return cls(parts[0].count, mean, std, entropy, table)

    @property
    def samples(self) -> Tensor:
        remedy = "predict again with keep_samples=True"
        raise refusal("keep_samples", False, "be True for what needs every sample", remedy)

    def quantiles(self, probabilities: Sequence[float]) -> Tensor:
        missing = [p for p in probabilities if p not in self.table]
        if missing:
            raise refusal(
                "level",
                round(1 - 2 * min(missing[0], 1 - missing[0]), 12),
                "be among the levels computed while predicting with keep_samples=False",
                "predict again with levels=(...) naming it, or with keep_samples=True",
            )
        return torch.stack([self.table[p] for p in probabilities])


def neighbours(probability: float, count: int) -> tuple[float, float, float]:
    """A probability, and those one standard error of an empirical distribution function below and above it."""
    error = math.sqrt(probability * (1 - probability) / count)
    return max(0.0, probability - error), probability, min(1.0, probability + error)


def moments(samples: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, standard deviation and mean entropy over the first axis."""
    std = samples.std(0) if len(samples) > 1 else torch.zeros_like(samples[0])
    return average(samples), std, entropy(samples).mean(0)


def average(samples: Tensor) -> Tensor:
    """Mean over the first axis, summed in float64: torch adds columns in an order that depends on their place.

    In float32 that would decide between equal classes, differently for each size of chunk.
    """
    return samples.mean(0, dtype=torch.float64).to(samples.dtype)


def entropy(probabilities: Tensor) -> Tensor:
    """−Σ p ln p over the last axis, in nats, with 0 ln 0 = 0."""
    return torch.special.entr(probabilities).sum(-1)
