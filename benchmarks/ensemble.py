"""What asking kept networks costs: 200 of them about one image, beside one network about 200 images.

    python -m benchmarks.ensemble [--device cpu|cuda] [--networks N] [--images N] [--quick]

The base is the plain network with as many images as there are networks: the same arithmetic, but its weights are read
once and not once for each network. Beside it: `tribayes.Ensemble`, as it is, in bfloat16 and with its summary
(`.predict`); a loop over the kept networks; and `tribayes.predict`, which draws them anew every time. The networks are
LeNet-100 and a small perceptron, where the time is Python's and torch's launches rather than arithmetic.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import nn

import tribayes as tb
from benchmarks import command
from benchmarks.networks import TASKS
from benchmarks.racing import plain_candidate, race
from tribayes._text import format_table

NETWORKS = 200
LENET = TASKS["lenet-100"].title
BASE = "plain, as many images"
KEPT, HALF, PREDICT = "ours, tribayes.Ensemble", "ours, Ensemble in bfloat16", "ours, Ensemble.predict"
LOOP, FRESH = "ours, Ensemble, loop=True", "ours, tribayes.predict"
SECONDS = 20.0


def main(words: Sequence[str] | None = None) -> None:
    parser = command.parser(__doc__)
    parser.add_argument("--networks", type=int, default=NETWORKS)
    parser.add_argument("--images", type=int, default=1)
    arguments = command.parsed(parser, words)
    figures = {name: _measured(build, shape, arguments) for name, (build, shape) in _subjects().items()}
    for name, one in figures.items():
        print(f"{name}: {one['networks']} networks, {one['images']} image(s)\n{_table(one)}\n")
    command.keep("ensemble", figures, arguments)


def _subjects() -> dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]]:
    lenet = TASKS["lenet-100"]
    perceptron = partial(nn.Sequential, nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 3))
    return {LENET: (lenet.network, lenet.image), "perceptron 20-50-3": (perceptron, (20,))}


@torch.no_grad()
def _measured(build: Callable[[], nn.Module], shape: tuple[int, ...], arguments: argparse.Namespace) -> dict[str, Any]:
    device, count = arguments.device, 8 if arguments.quick else arguments.networks
    model = tb.to_bayesian(build(), family="tridiagonal").to(device).eval()
    plain = tb.to_deterministic(model).eval()
    images = torch.randn(arguments.images, *shape, device=device)
    many = torch.randn(arguments.images * count, *shape, device=device)
    kept, half, loop = (tb.Ensemble(model, count, **o) for o in ({}, {"dtype": torch.bfloat16}, {"loop": True}))
    torch.testing.assert_close(kept(images), loop(images), rtol=1e-3, atol=1e-4)
    runs: dict[str, Callable[[], object]] = {
        BASE: partial(plain, many),
        KEPT: partial(kept, images),
        HALF: partial(half, images),
        PREDICT: partial(kept.predict, images),
        LOOP: partial(loop, images),
        FRESH: partial(tb.predict, model, images, count, progress=False),
    }
    field = [plain_candidate(name, run) for name, run in runs.items()]
    timings = race(field, device, SECONDS / (100 if arguments.quick else 1), base=BASE)
    sizes = {"nbytes": kept.nbytes, "nbytes_half": half.nbytes}
    return {"networks": count, "images": len(images), **sizes, "timings": [asdict(one) for one in timings]}


def _table(figures: dict[str, Any]) -> str:
    rows = [[one["name"], 1e3 * one["seconds"][1], *one["ratio"]] for one in figures["timings"]]
    return format_table(["", "ms", "lower quartile, × plain", "median, × plain", "upper quartile, × plain"], rows)


if __name__ == "__main__":
    main()
