"""A user's own program: a small regression network with dropout and a learned noise, trained in a folder.

    python -m tests.runs.program FOLDER [WHERE COUNT]

Without WHERE it trains to the end. Else the process kills itself just before the COUNT-th call of WHERE ("step" or
"rename"), or is only slowed down ("slow", milliseconds per step). The initial weights are drawn without a seed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tribayes as tb
from tribayes.runs.trainer import Trainer

ITERATIONS = 60
PLACES: dict[str, tuple[Any, str]] = {"step": (Trainer, "step"), "slow": (Trainer, "step"), "rename": (os, "replace")}


def data() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    x = torch.linspace(-1, 1, 90).unsqueeze(1)
    y = torch.sin(3 * x)
    return (x[::2], y[::2]), (x[1::2], y[1::2])


def network() -> nn.Module:
    torch.manual_seed(int.from_bytes(os.urandom(4), "big"))  # another one in every process
    return tb.to_bayesian(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 1)))


def train(folder: Path, **changes: Any) -> tuple[tb.runs.Run, nn.Module, tb.ELBO]:
    """What the program does; `changes` are another program's arguments."""
    (x, y), test = data()
    model = changes.pop("model", None) or network()
    elbo = tb.ELBO(tb.Gaussian(noise=0.3, learned=True), data_size=len(x), kl_weight=changes.pop("kl_weight", 0.1))
    groups = tb.parameter_groups(model, lr=0.01, correlation_lr_multiplier=1.0, likelihood=elbo.likelihood)
    optimizer = changes.pop("optimizer", torch.optim.Adam)(groups, **changes.pop("hyperparameters", {}))
    run = tb.runs.Run.at(folder, seed=changes.pop("seed", 3), config=changes.pop("config", {"width": 16}))
    settings = {"iterations": ITERATIONS, "batch_size": 8, "checkpoint_seconds": 0, "schedule": lambda i: 0.99**i}
    run.train(model, elbo, optimizer, **({"train": (x, y), "test": test} | settings | changes))
    return run, model, elbo


def disturb(where: str, count: int) -> None:
    owner, name = PLACES[where]
    original = getattr(owner, name)
    calls = 0

    def disturbed(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if where == "slow":
            time.sleep(count / 1000)
        elif calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)

    setattr(owner, name, disturbed)


if __name__ == "__main__":
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have ignored it
    if len(sys.argv) > 2:
        disturb(sys.argv[2], int(sys.argv[3]))
    train(Path(sys.argv[1]))
