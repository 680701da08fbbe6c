"""What is trained, and how: one run's settings, and the optimizer, schedule and precision that all arms share."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.modern.networks import NETWORKS, Kind

MOMENTUM = 0.9
WARM_UP = 0.05  # of all steps

Value = float | str  # of an option: a number, or a word such as "auto"


@dataclass(frozen=True)
class Settings:
    """One run. `options` are the arm's own (`arms.ARMS[arm].options` has their defaults)."""

    data: str
    network: str
    arm: str
    seed: int
    epochs: int
    batch: int = 256
    samples: int = 32  # sampled networks, to predict
    lr: float | None = None  # None: as is usual for the network
    weight_decay: float | None = None
    options: Mapping[str, Value] = field(default_factory=dict)

    @property
    def cell(self) -> str:
        """Its name without the seed: runs of a cell are repetitions."""
        usual = {"batch": 256, "samples": 32, "lr": None, "weight_decay": None}
        other = {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}
        parts = [self.data, self.network, self.arm, f"{self.epochs}ep"]
        return "-".join([*parts, *(f"{name}_{_word(value)}" for name, value in {**self.options, **other}.items())])

    @property
    def name(self) -> str:
        """Of its files: letters, digits, '.', '_' and '-' only."""
        return f"{self.cell}-s{self.seed}"

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "options": dict(self.options)}


@dataclass(frozen=True)
class Task:
    """A run on a device, with the numbers that follow from its data."""

    settings: Settings
    data_size: int
    steps: int
    device: torch.device

    @property
    def kind(self) -> Kind:
        return NETWORKS[self.settings.network]

    @property
    def lr(self) -> float:
        return self.kind.lr if self.settings.lr is None else self.settings.lr

    @property
    def weight_decay(self) -> float:
        return self.kind.weight_decay if self.settings.weight_decay is None else self.settings.weight_decay

    @property
    def memory_format(self) -> torch.memory_format:
        return torch.channels_last if self.kind.channels_last else torch.contiguous_format

    def precision(self) -> AbstractContextManager[Any]:
        """bf16 by autocast on a GPU; a CPU computes in float32."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def optimizer(self, parameters: Iterable[Any]) -> torch.optim.Optimizer:
        """The network's usual one, in a form that a CUDA graph can hold. Groups bring their own decay, or get this."""
        groups = list(parameters)
        if groups and not isinstance(groups[0], dict):
            groups = [{"params": groups, "weight_decay": self.weight_decay}]
        if self.kind.optimizer == "adamw":
            on_gpu = self.device.type == "cuda"
            return torch.optim.AdamW(groups, lr=self.lr, weight_decay=0.0, fused=True, capturable=on_gpu)
        return torch.optim.SGD(groups, lr=self.lr, momentum=MOMENTUM, nesterov=True, fused=True)


def warm_up_and_cosine(step: int, steps: int) -> float:
    """The share of the learning rate at a step: up in a line, then down to 0 along half a cosine."""
    warm = max(1, round(WARM_UP * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warm) / max(1, steps - warm))))


def combinations(choices: Mapping[str, Iterable[Value]]) -> list[dict[str, Value]]:
    """Every combination of the values that options may have.

    >>> combinations({"kl": [0.1, 1], "tau": [0.05]})
    [{'kl': 0.1, 'tau': 0.05}, {'kl': 1, 'tau': 0.05}]
    """
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


def number_or_word(text: str) -> Value:
    """An option's value from the command line.

    >>> number_or_word("3e-4"), number_or_word("auto")
    (0.0003, 'auto')
    """
    try:
        return float(text)
    except ValueError:
        return text


def _word(value: object) -> str:
    return re.sub(r"[^\w.-]", "", f"{value:g}" if isinstance(value, float) else str(value))
