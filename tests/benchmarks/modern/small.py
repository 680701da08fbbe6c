"""A study of made-up images and tiny networks, in seconds on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.modern.arms import ARMS
from benchmarks.modern.networks import Classifier, Image, Kind, ResNet, VisionTransformer
from benchmarks.modern.sources import Study, Tests
from benchmarks.modern.task import Settings, Value

CLASSES, SIDE, TRAIN, HELD_OUT, TEST = 4, 16, 48, 20, 24
# what the library of the day understands
CHOSEN: dict[str, Value] = {"kl": 0.001, "prior": 0.1}


def study(seed: int = 0) -> Study:
    source = torch.Generator().manual_seed(seed)

    def images(count: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(CLASSES, (count,), generator=source)
        noise = torch.randint(0, 60, (count, 3, SIDE, SIDE), generator=source)
        return (noise + 40 * labels[:, None, None, None]).to(torch.uint8), labels

    def prepared(batch: Tensor) -> Tensor:
        return batch.float() / 64 - 1

    def tests() -> Tests:
        seen, labels = images(TEST)

        def corrupted() -> Iterator[tuple[str, int, Tensor]]:
            for kind in ("noise", "dark"):
                for severity in (1, 2):
                    yield kind, severity, seen[:10] // (1 + severity)

        sure = torch.rand(TEST, 1, generator=source)
        votes = sure * torch.nn.functional.one_hot(labels, CLASSES) + (1 - sure) / CLASSES
        return Tests(seen, labels, {"near": images(12)[0], "far": 255 - images(12)[0]}, votes, corrupted)

    return Study("noise", CLASSES, *images(TRAIN), *images(HELD_OUT), prepared, lambda batch, _: prepared(batch), tests)


def settings(arm: str, **changes: Any) -> Settings:
    options = {name: CHOSEN.get(name, value) for name, value in ARMS[arm].options.items()} | changes.pop("options", {})
    usual = {"data": "noise", "network": "tiny", "seed": 0, "epochs": 1, "batch": 16, "samples": 3}
    return Settings(arm=arm, options=options, **(usual | changes))


def residual(image: Image, classes: int, dropout: float) -> Classifier:
    return ResNet(image, classes, dropout, width=4, stages=2)


def tokens(image: Image, classes: int, dropout: float) -> Classifier:
    return VisionTransformer(image, classes, dropout, patch=8, depth=2, width=8, heads=2)


NETWORKS = {
    "tiny": Kind(residual, lr=0.02),
    "tiny-tokens": Kind(tokens, "adamw", lr=1e-3, weight_decay=0.05, channels_last=False),
}
