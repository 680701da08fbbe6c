"""Curves of a training: what is written, when, and that TensorBoard and Weights & Biases get the same."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import nn

import tribayes as tb
from tests.libraries import library
from tribayes.integrations.logging import Curves, TensorBoard, WandB


class Kept(Curves):
    """Where a test can look."""

    def __init__(self, every: int) -> None:
        super().__init__(every)
        self.points: list[tuple[int, dict[str, float]]] = []

    def write(self, scalars: Mapping[str, float], step: int) -> None:
        self.points.append((step, dict(scalars)))


def trained(*callbacks: Any, validation: bool = True) -> tb.BayesianModule:
    """Two epochs of three steps."""
    torch.manual_seed(0)
    model = tb.to_bayesian(nn.Linear(4, 3))
    x, y = torch.randn(9, 4), torch.arange(9) % 3
    held_out = (x, y) if validation else None
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.01))
    batches = list(zip(x.split(3), y.split(3), strict=True))
    elbo = tb.ELBO(tb.Categorical(), data_size=9)
    tb.fit(model, elbo, batches, optimizer, epochs=2, validation=held_out, callbacks=callbacks, progress=False)
    return model


def test_every_so_many_steps_and_after_each_epoch() -> None:
    rare, often, unjudged = Kept(4), Kept(1), Kept(3)
    model = trained(rare, often)
    trained(unjudged, validation=False)
    assert [step for step, _ in rare.points] == [3, 4, 6]
    everything = {"loss", "nll", "kl", "lr/means", "tau/weight", "rho/bias"}
    assert ["validation/nll" in scalars for _, scalars in rare.points] == [True, False, True]
    assert all(everything <= scalars.keys() for _, scalars in rare.points)
    assert rare.points[-1][1]["tau/weight"] == pytest.approx(next(iter(model.posterior())).tau)
    # a step that was written is not written again: after the epoch only what is new
    assert [(step, len(scalars) == 1) for step, scalars in often.points] == [
        (1, False), (2, False), (3, False), (3, True), (4, False), (5, False), (6, False), (6, True)
    ]  # fmt: skip
    assert often.points[3][1].keys() == {"validation/nll"}
    assert [step for step, scalars in unjudged.points if scalars] == [3, 6]


def test_tensorboard_gets_them(tmp_path: Path) -> None:
    library("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    kept = Kept(2)
    with TensorBoard(tmp_path, every=2) as board:
        trained(board, kept)
    events = EventAccumulator(str(tmp_path)).Reload()
    for name in ("loss", "kl", "tau/weight", "rho/bias", "validation/nll"):
        expected = [(step, pytest.approx(scalars[name])) for step, scalars in kept.points if name in scalars]
        assert [(event.step, event.value) for event in events.Scalars(name)] == expected


def test_weights_and_biases_get_them(tmp_path: Path) -> None:
    library("wandb")
    kept = Kept(2)
    quiet = {"console": "off", "silent": True, "x_disable_stats": True, "x_disable_meta": True}
    with WandB("test", every=2, mode="offline", dir=str(tmp_path), settings=quiet) as curves:
        trained(curves, kept)
        assert curves.run.step == 6
        curves.run.log({}, commit=True)  # a step is summed up when the next one begins
        summary = dict(curves.run.summary)
    newest = {name: value for _, scalars in kept.points for name, value in scalars.items()}
    assert {name: summary[name] for name in newest} == pytest.approx(newest)
    assert list(tmp_path.rglob("*.wandb"))


def test_a_stand_in_for_wandb_gets_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where wandb itself is not installed, as in CI: no proof that wandb takes them, but that it is given them."""
    run = Mock()
    wandb = SimpleNamespace(init=Mock(return_value=run))
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    kept = Kept(2)
    with WandB("test", every=2, mode="offline") as curves:
        trained(curves, kept)
        run.finish.assert_not_called()
    wandb.init.assert_called_once_with(project="test", mode="offline")
    assert [(call.kwargs["step"], call.args[0]) for call in run.log.call_args_list] == kept.points
    run.finish.assert_called_once_with()


@pytest.mark.parametrize(
    ("package", "extra", "make"),
    [("torch.utils.tensorboard", "tensorboard", lambda: TensorBoard("x")), ("wandb", "wandb", lambda: WandB("x"))],
)
def test_a_missing_package_is_named(package: str, extra: str, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"which is not installed; install .*: pip install 'tribayes\[{extra}\]'"):
        make()


def test_a_senseless_interval_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`every` \(=0\) must be at least 1; pass the number of steps between two"):
        Kept(0)
