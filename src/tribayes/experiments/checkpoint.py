"""A checkpoint: everything a training needs to go on as if nothing had happened.

The newest lies at `path`, the one before beside it. Both are written in one step, so there is always a good one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from tribayes._files import store
from tribayes.experiments.sealed import read_sealed, unusable, write_sealed
from tribayes.experiments.setting import Setting
from tribayes.experiments.trainer import Trainer

FORMAT = 1

_ELSEWHERE = "start anew in another folder"


@dataclass(frozen=True)
class Checkpoint:
    """What was read from a file: the trainer's state, and how long it had trained."""

    path: Path
    tensors: dict[str, Tensor]
    iteration: int
    seconds: float


def previous_of(path: Path) -> Path:
    """Where the checkpoint before the newest lies."""
    return path.with_name(f"previous-{path.name}")


def write_checkpoint(path: Path, trainer: Trainer, seconds: float) -> None:
    """Write the trainer's state; what was at `path` is kept as the previous checkpoint."""
    facts = {
        "format": FORMAT,
        "kind": "checkpoint",
        "setting": trainer.setting.as_dict(),
        "seed": trainer.seed,
        "iteration": trainer.iteration,
        "seconds": seconds,
    }
    if path.exists():
        store(previous_of(path), path.read_bytes())
    write_sealed(path, trainer.state(), facts)


def read_checkpoint(path: Path, setting: Setting, seed: int) -> Checkpoint:
    """The checkpoint at `path`; an error where it is torn, or of another run."""
    tensors, facts = read_sealed(path, _remedy(path))
    check_owner(path, facts, "checkpoint", setting, seed)
    return Checkpoint(path, tensors, int(facts["iteration"]), float(facts["seconds"]))


def restore(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Put the trainer where the checkpoint was taken."""
    held = {name: (tensor.shape, tensor.dtype) for name, tensor in checkpoint.tensors.items()}
    wanted = {name: (tensor.shape, tensor.dtype) for name, tensor in trainer.state().items()}
    differing = sorted(name for name in held | wanted if held.get(name) != wanted.get(name))
    if differing:
        cause = "it was taken on another kind of device" if differing == ["generator"] else "it is of another version"
        problem = f"does not fit this training in {differing[0]!r}: {cause}"
        raise unusable(checkpoint.path, problem, f"continue it as it was begun, or {_ELSEWHERE}")
    trainer.load_state(checkpoint.tensors)


def check_owner(path: Path, facts: Mapping[str, Any], kind: str, setting: Setting, seed: int) -> None:
    """Refuse a file of another kind, another version or another run."""
    if facts.get("kind") != kind:
        raise unusable(path, f"is no {kind} but of the kind {facts.get('kind')!r}", "put the right file in its place")
    if facts.get("format") != FORMAT:
        raise unusable(path, f"has format {facts.get('format')!r}, not {FORMAT}", "use the tribayes that wrote it")
    # a field that came later had its default's meaning before
    held = {**Setting.defaults(), **facts["setting"], "seed": facts["seed"]}
    wanted = {**setting.as_dict(), "seed": seed}
    differing = sorted(key for key in held | wanted if held.get(key) != wanted.get(key))
    if differing:
        key = differing[0]
        problem = f"belongs to another run: its {key} is {held.get(key)!r}, not {wanted.get(key)!r}"
        raise unusable(path, problem, "put the right file in its place")


def _remedy(path: Path) -> str:
    previous = previous_of(path)
    if not previous.exists():
        return _ELSEWHERE
    return f"to continue from the checkpoint before it, rename {previous} to {path.name}"
