"""A checkpoint comes back bit by bit, or it is refused by name; the one before it stays good."""

import errno
import json
import os
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.experiments.small import names, setting, trainer
from tests.experiments.test_storing import full_disk
from tribayes.experiments.checkpoint import previous_of, read_checkpoint, restore, write_checkpoint
from tribayes.experiments.sealed import read_sealed, write_sealed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two checkpoints of a run: at iteration 7, and before it at 3."""
    path = tmp_path / "checkpoint.safetensors"
    training = trainer()
    for steps in (3, 4):
        training.advance(steps)
        write_checkpoint(path, training, seconds=1.5 * training.iteration)
    return path


def refused(path: Path, text: str, seed: int = 0) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{path} {text}")):
        read_checkpoint(path, setting(), seed)


def test_it_comes_back_and_goes_on_bit_by_bit(path: Path) -> None:
    straight = trainer()
    straight.advance(7)
    found = read_checkpoint(path, setting(), seed=0)
    assert (found.iteration, found.seconds) == (7, 10.5)
    resumed = trainer()
    resumed.advance(2)  # whatever it did before is overwritten
    restore(resumed, found)
    assert torch.equal(resumed.window_losses(), straight.window_losses())
    for training in (straight, resumed):
        training.advance(9)
    assert resumed.iteration == straight.iteration == 16
    for name, value in straight.state().items():
        assert torch.equal(value, resumed.state()[name]), name


def test_the_one_before_is_kept(path: Path) -> None:
    assert names(path.parent) == ["checkpoint.safetensors", "previous-checkpoint.safetensors"]
    assert read_checkpoint(previous_of(path), setting(), seed=0).iteration == 3


def test_it_is_plain_safetensors_with_a_readable_header(path: Path) -> None:
    assert load_file(path)["iteration"] == 7
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    facts = json.loads(header["__metadata__"]["tribayes"])["facts"]
    assert facts["setting"] == setting().as_dict()
    assert (facts["seed"], facts["iteration"], facts["format"]) == (0, 7, 1)


@pytest.mark.parametrize("share", [0, 1e-5, 0.01, 0.5, 0.9999])
def test_a_torn_file(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    previous = previous_of(path)
    refused(path, "is torn or no safetensors file (")
    with pytest.raises(ValueError, match=re.escape(f"; to continue from the checkpoint before it, rename {previous}")):
        read_checkpoint(path, setting(), 0)
    previous.rename(path)
    assert read_checkpoint(path, setting(), 0).iteration == 3
    path.write_bytes(b"")
    refused(path, "is torn or no safetensors file (Error while deserializing: header too small); start anew in another")


def test_a_single_wrong_bit_anywhere(path: Path) -> None:
    content = path.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    text = content.index(b'\\"learning_rate\\": 0.02') + len(b'\\"learning_rate\\": 0.0')  # a digit of a fact
    for at in (text, length, (length + len(content)) // 2, len(content) - 1):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        refused(path, "is damaged: its content does not match its sha256; ")
    path.write_bytes(content.replace(b'\\"facts\\"', b'\\"f_cts\\"', 1))
    refused(path, "is damaged: its facts cannot be read; ")


def test_a_foreign_checkpoint(path: Path) -> None:
    refused(path, "belongs to another run: its seed is 0, not 1; put the right file in its place.", seed=1)
    with pytest.raises(ValueError, match=r"belongs to another run: its batch is 64, not 32; put the right file"):
        read_checkpoint(path, setting(batch=32), 0)
    save_file({"weight": torch.zeros(3)}, path)
    refused(path, "is not of tribayes: it carries no seal; ")


def test_a_file_of_another_kind_or_version(path: Path) -> None:
    facts = {"format": 1, "kind": "trained network", "setting": setting().as_dict(), "seed": 0}
    write_sealed(path, {}, facts)
    refused(path, "is no checkpoint but of the kind 'trained network'; put the right file in its place.")
    write_sealed(path, {}, facts | {"kind": "checkpoint", "format": 2})
    refused(path, "has format 2, not 1; use the tribayes that wrote it.")


def test_a_setting_of_before_a_field_came_is_the_same(path: Path) -> None:
    tensors, facts = read_sealed(path, "")
    write_sealed(path, tensors, facts | {"setting": {k: v for k, v in facts["setting"].items() if k != "estimator"}})
    read_checkpoint(path, setting(), 0)
    with pytest.raises(ValueError, match=r"belongs to another run: its estimator is 'plain', not 'antithetic'"):
        read_checkpoint(path, setting().changed(estimator="antithetic"), 0)


def test_a_state_of_another_device_or_version(path: Path) -> None:
    found = read_checkpoint(path, setting(), 0)
    found.tensors["generator"] = torch.zeros(16, dtype=torch.uint8)  # as a GPU's
    with pytest.raises(ValueError, match=r"does not fit this training in 'generator': it was taken on another kind of"):
        restore(trainer(), found)
    del found.tensors["terms"]
    with pytest.raises(ValueError, match=r"does not fit this training in 'generator': it is of another version; cont"):
        restore(trainer(), found)


@pytest.mark.parametrize("limit", [1000, 100_000])
def test_a_full_disk_leaves_both_good(path: Path, limit: int) -> None:
    assert path.stat().st_size > limit
    training = trainer()
    training.advance(9)
    with full_disk(limit), pytest.raises(OSError, match="could not be written: File too large; free some space"):
        write_checkpoint(path, training, 0.0)
    assert names(path.parent) == ["checkpoint.safetensors", "previous-checkpoint.safetensors"]
    assert read_checkpoint(path, setting(), 0).iteration == 7
    assert read_checkpoint(previous_of(path), setting(), 0).iteration == 3


def test_a_disk_that_fills_between_the_two_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = trainer()
    training.advance(9)
    replace = os.replace

    def fill(source: Path, target: Path) -> None:
        if Path(target) == path:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fill)
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(path, training, 0.0)
    assert read_checkpoint(path, setting(), 0).iteration == 7
    assert read_checkpoint(previous_of(path), setting(), 0).iteration == 7
