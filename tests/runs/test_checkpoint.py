"""A checkpoint comes back bit by bit, or it is refused by name; the one before it stays good."""

import errno
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.recipes.small import change_config, names, new_run, setting, trainer
from tests.test_bad_disks import full_disk
from tribayes._tensor_files import read_tensors, write_tensors
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.runs.session import previous_of, read_checkpoint, restore, write_checkpoint


@pytest.fixture
def run(tmp_path: Path) -> RecipeRun:
    """A run with two checkpoints: at iteration 7, and before it at 3."""
    run = new_run(tmp_path / "run")
    training = trainer()
    for steps in (3, 4):
        training.advance(steps)
        write_checkpoint(run, training, seconds=1.5 * training.iteration)
    return run


@pytest.fixture
def path(run: RecipeRun) -> Path:
    return run.checkpoint


def refused(run: RecipeRun, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{run.checkpoint} {text}")):
        read_checkpoint(run)


def checkpoints(run: RecipeRun) -> list[str]:
    return [name for name in names(run.folder) if "checkpoint" in name]


def test_it_comes_back_and_goes_on_bit_by_bit(run: RecipeRun) -> None:
    straight = trainer()
    straight.advance(7)
    tensors, facts = read_checkpoint(run)
    assert (facts["iteration"], facts["seconds"]) == (7, 10.5)
    resumed = trainer()
    resumed.advance(2)  # whatever it did before is overwritten
    restore(resumed, run.checkpoint, tensors, facts)
    assert torch.equal(resumed.window_losses(), straight.window_losses())
    for training in (straight, resumed):
        training.advance(9)
    assert resumed.iteration == straight.iteration == 16
    for name, value in straight.state().items():
        assert torch.equal(value, resumed.state()[name]), name


def test_the_one_before_is_kept(run: RecipeRun, path: Path) -> None:
    assert checkpoints(run) == ["checkpoint.safetensors", "previous-checkpoint.safetensors"]
    assert read_checkpoint(run, previous_of(path))[1]["iteration"] == 3


def test_it_is_plain_safetensors_with_a_readable_header(path: Path) -> None:
    assert load_file(path)["iteration"] == 7
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    facts = json.loads(header["__metadata__"]["tribayes"])["facts"]
    assert facts["setting"] == setting().as_dict()
    assert (facts["seed"], facts["iteration"], facts["format"]) == (0, 7, 1)


@pytest.mark.parametrize("share", [0, 1e-5, 0.01, 0.5, 0.9999])
def test_a_torn_file(run: RecipeRun, path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    previous = previous_of(path)
    refused(run, "is torn or no safetensors file (")
    with pytest.raises(ValueError, match=re.escape(f"; to continue from the checkpoint before it, rename {previous}")):
        read_checkpoint(run)
    previous.rename(path)
    assert read_checkpoint(run)[1]["iteration"] == 3
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r" is torn or no safetensors file \(.+\); start anew in another"):
        read_checkpoint(run)


def test_a_single_wrong_bit_anywhere(run: RecipeRun, path: Path) -> None:
    content = path.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    text = content.index(b'\\"learning_rate\\": 0.02') + len(b'\\"learning_rate\\": 0.0')  # a digit of a fact
    for at in (text, length, (length + len(content)) // 2, len(content) - 1):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        refused(run, "is damaged: its content does not match its sha256; ")
    path.write_bytes(content.replace(b'\\"facts\\"', b'\\"f_cts\\"', 1))
    refused(run, "is damaged: its facts cannot be read; ")


def test_a_foreign_checkpoint(run: RecipeRun, path: Path) -> None:
    refused(replace(run, seed=1), "belongs to another run: its seed is 0, not 1; put the right file in its place.")
    other = replace(run, config=setting(batch=32).as_dict())
    refused(other, "belongs to another run: its batch is 64, not 32; put the right file")
    save_file({"weight": torch.zeros(3)}, path)
    refused(run, "is not of tribayes: it carries no checksum; ")


def test_a_file_of_another_kind_or_version(run: RecipeRun, path: Path) -> None:
    facts = {"format": 1, "kind": "trained network", "setting": setting().as_dict(), "seed": 0}
    write_tensors(path, {}, facts)
    refused(run, "is no checkpoint but of the kind 'trained network'; put the right file in its place.")
    write_tensors(path, {}, facts | {"kind": "checkpoint", "format": 2})
    refused(run, "has format 2, not 1; use the tribayes that wrote it.")


def test_a_setting_of_before_a_field_came_is_the_same(run: RecipeRun, path: Path) -> None:
    tensors, facts = read_tensors(path, "")
    write_tensors(path, tensors, facts | {"setting": {k: v for k, v in facts["setting"].items() if k != "estimator"}})
    read_checkpoint(run)
    other = replace(run, config=setting(estimator="antithetic").as_dict())
    refused(other, "belongs to another run: its estimator is 'plain', not 'antithetic'")


@pytest.mark.parametrize("sampler", ["auto", "torch", "fused"])
def test_a_setting_with_a_field_of_before_is_the_same(run: RecipeRun, path: Path, sampler: str) -> None:
    tensors, facts = read_tensors(path, "")
    write_tensors(path, tensors, facts | {"setting": facts["setting"] | {"sampler": sampler}})
    assert read_checkpoint(run)[1]["iteration"] == 7
    change_config(run.path("config.json"), setting=facts["setting"] | {"sampler": sampler})
    assert RecipeRun.open(run.folder).setting == setting()
    write_tensors(path, tensors, facts | {"setting": facts["setting"] | {"sampler": "slow"}})
    with pytest.raises(ValueError, match=r"`setting` \(=\['sampler'\]\) must have only the fields"):
        read_checkpoint(run)


def test_a_state_of_another_device_or_version(run: RecipeRun) -> None:
    tensors, facts = read_checkpoint(run)
    tensors["generator"] = torch.zeros(16, dtype=torch.uint8)  # as a GPU's
    with pytest.raises(ValueError, match=r"does not fit this training in 'generator': it was taken on another kind of"):
        restore(trainer(), run.checkpoint, tensors, facts)
    del tensors["losses"]
    with pytest.raises(ValueError, match=r"does not fit this training in 'generator': it is of another version; cont"):
        restore(trainer(), run.checkpoint, tensors, facts)


@pytest.mark.parametrize("limit", [1000, 100_000])
def test_a_full_disk_leaves_both_good(run: RecipeRun, path: Path, limit: int) -> None:
    assert path.stat().st_size > limit
    training = trainer()
    training.advance(9)
    with full_disk(limit), pytest.raises(OSError, match="could not be written: File too large; free some space"):
        write_checkpoint(run, training, 0.0)
    assert checkpoints(run) == ["checkpoint.safetensors", "previous-checkpoint.safetensors"]
    assert read_checkpoint(run)[1]["iteration"] == 7
    assert read_checkpoint(run, previous_of(path))[1]["iteration"] == 3


def test_a_disk_that_fills_between_the_two_files(run: RecipeRun, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = trainer()
    training.advance(9)
    rename = os.replace

    def fill(source: Path, target: Path) -> None:
        if Path(target) == path:
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "replace", fill)
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(run, training, 0.0)
    assert read_checkpoint(run)[1]["iteration"] == 7
    assert read_checkpoint(run, previous_of(path))[1]["iteration"] == 7
