"""A checkpoint: everything a training needs to go on as if nothing had happened.

The newest lies in the run's folder, the one before beside it. Both are written in one step, so there is always a good
one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from tribayes._errors import refusal
from tribayes._files import store
from tribayes.runs.folder import RunFolder, first_difference
from tribayes.runs.tensor_file import unusable
from tribayes.runs.trainer import Trainer

_ELSEWHERE = "start anew in another folder"


class Checkpoint(NamedTuple):
    """What was read from a file: the trainer's state, how long it had trained, and what it was given."""

    path: Path
    tensors: dict[str, Tensor]
    iteration: int
    seconds: float
    training: dict[str, Any]


def previous_of(path: Path) -> Path:
    """Where the checkpoint before the newest lies."""
    return path.with_name(f"previous-{path.name}")


def write_checkpoint(run: RunFolder, trainer: Trainer, seconds: float) -> None:
    """Write the trainer's state; what was there is kept as the previous checkpoint."""
    state, given, path = trainer.state(), trainer.description(), run.checkpoint
    if path.exists():
        store(previous_of(path), path.read_bytes())
    run.write(path, "checkpoint", state, given, iteration=trainer.iteration, seconds=seconds)


def read_checkpoint(run: RunFolder, path: Path | None = None) -> Checkpoint:
    """The run's checkpoint, or that at `path`; an error where it is torn, or of another run."""
    path = run.checkpoint if path is None else path
    previous = previous_of(path)
    rename = f"to continue from the checkpoint before it, rename {previous} to {path.name}"
    tensors, facts = run.read(path, "checkpoint", rename if previous.exists() else _ELSEWHERE)
    return Checkpoint(path, tensors, facts["iteration"], facts["seconds"], facts.get("training", {}))


def restore(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Put the trainer where the checkpoint was taken."""
    check_same_training(trainer, checkpoint.training, checkpoint.path.parent)
    held, wanted = (_shapes(tensors) for tensors in (checkpoint.tensors, trainer.state()))
    differing = sorted(name for name in held | wanted if held.get(name) != wanted.get(name))
    if differing:
        cause = "it was taken on another kind of device" if differing == ["generator"] else "it is of another version"
        problem = f"does not fit this training in {differing[0]!r}: {cause}"
        raise unusable(checkpoint.path, problem, f"continue it as it was begun, or {_ELSEWHERE}")
    trainer.load_state(checkpoint.tensors)


def check_same_training(trainer: Trainer, before: dict[str, Any], folder: Path) -> None:
    """Refuse to go on with something else than the run in `folder` was begun with."""
    now = trainer.description()
    key = first_difference(before, now)
    if key is not None:
        ours, theirs = _narrowed(now.get(key), before.get(key))
        remedy = "pass what was passed then, or begin another run in another folder"
        raise refusal(key, ours, f"be {theirs!r}, as the run in {folder} was begun", remedy)


def _narrowed(ours: Any, theirs: Any) -> tuple[Any, Any]:
    """The part in which two values differ, for a message that can be read."""
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return _narrowed(*next((a, b) for a, b in zip(ours, theirs, strict=True) if a != b))
    if isinstance(ours, dict) and isinstance(theirs, dict) and (key := first_difference(ours, theirs)):
        return {key: ours.get(key)}, {key: theirs.get(key)}
    return ours, theirs


def _shapes(tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Of all but an optimizer's own tensors, which many make only in their first step."""
    return {n: (tensor.shape, tensor.dtype) for n, tensor in tensors.items() if not n.startswith("optimizer.")}
