"""A folder of images, one sub-folder per class, by the command line."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

from tests.own.cases import QUICK, complaint, fit, write_images
from tests.recipes.small import tribayes
from tribayes.own.image_folder import FoundImages, Pixels, shape_of
from tribayes.own.own_run import OwnRun

SMALL = ("--set", "width=2")  # a ResNet that is trained in a moment


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    (write_images(folder / "data") / "dark" / "notes.txt").write_text("not a picture")
    answer = fit(folder / "data", folder / "run", *SMALL)
    assert (answer.code, answer.err) == (0, "")
    assert "left out: 1 file with other endings than those of images\n" in answer.out
    return folder / "run"


def test_images_are_learned_and_judged(run: Path) -> None:
    assert tribayes("evaluate", run, "--samples", 20).code == 0
    found = OwnRun.open(run)
    assert found.form.target.classes == ("dark", "light")
    assert found.evaluation()["error"] <= 0.25  # of 12 images; those of one class are 130 grey levels lighter
    assert tribayes("report", run, "--samples", 20).code == 0
    assert "images were trained on" in (run / "report.html").read_text()


def test_new_images_get_a_line_each(run: Path, tmp_path: Path) -> None:
    Image.new("RGB", (20, 10), (30, 30, 30)).save(tmp_path / "other.jpg")
    answer = tribayes("predict", run, run.parent / "data" / "light", tmp_path / "other.jpg", "--samples", 20)
    assert (answer.code, answer.err) == (0, "")
    with (run / "predictions" / "images.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 31
    assert lines[-1]["image"] == str(tmp_path / "other.jpg")
    assert {line["prediction"] for line in lines} <= {"dark", "light"}


def test_images_resume_to_the_same_bits(run: Path, tmp_path: Path) -> None:
    """Stopped by a signal after some steps: BatchNorm's statistics go on, too."""
    words = ["fit", run.parent / "data", "--run", tmp_path / "run", *QUICK, *SMALL, "--checkpoint-seconds", 0]
    command = [sys.executable, "-m", "tests.recipes.killed", "step", 15, *words]
    assert subprocess.run(list(map(str, command)), capture_output=True, check=False).returncode == -9
    assert tribayes("fit", "--resume", "--run", tmp_path / "run").code == 0
    assert (tmp_path / "run/final.safetensors").read_bytes() == (run / "final.safetensors").read_bytes()


def test_folders_that_are_none_are_refused(run: Path, tmp_path: Path) -> None:
    at = ("--run", tmp_path / "run")
    (tmp_path / "empty").mkdir()
    assert "two or more, but it has 0; sort images" in complaint("fit", tmp_path / "empty", *at)
    few = write_images(tmp_path / "few", 4)
    assert "but 'dark' has 4; gather more" in complaint("fit", few, *at)
    assert "`DATA` (='20 images') must have at least 60 images" in complaint(
        "fit", write_images(tmp_path / "ten", 10), *at
    )
    both = write_images(tmp_path / "set" / "train")
    said = complaint("fit", tmp_path / "set", *at)
    assert f"two or more, but it has 0; pass {str(both)!r}, which has them" in said
    broken = write_images(tmp_path / "broken")
    (broken / "dark" / "3.png").write_bytes(b"no picture")
    assert "3.png') must be an image that can be read" in complaint("fit", broken, *at)
    assert "be for tables" in complaint("fit", run.parent / "data", "--target", "x", *at)
    picture = next((run.parent / "data" / "dark").glob("*.png"))
    assert "but it is an image; pass the folder that has a sub-folder of images" in complaint("fit", picture, *at)
    assert not (tmp_path / "run").exists()
    assert "with images; correct the name" in complaint("predict", run, tmp_path / "empty")


def test_images_that_are_left_out_are_said(tmp_path: Path) -> None:
    folder = write_images(tmp_path, 5)
    (folder / "none").mkdir()
    (folder / "dark" / "night").mkdir()
    for name in ("loose.png", "dark/night/5.png"):
        Image.new("L", (8, 8)).save(folder / name)
    assert FoundImages.in_folder(folder).notes == (
        "left out: 1 image in no class's folder",
        "folder 'none' has no images, and is no class",
        "the images in 'dark/night' are left out: a class has its images in its own folder",
    )


def test_classes_that_are_called_the_same_are_refused(tmp_path: Path) -> None:
    """A name with a line break is written as one without, which another folder may have."""
    folder = write_images(tmp_path, 5)
    for name in ("a\nb", r"a\nb"):
        shutil.copytree(folder / "dark", folder / name)
    with pytest.raises(
        ValueError, match=r"whose names can be told apart, but two are '.*nb'; rename one of the folder"
    ):
        FoundImages.in_folder(folder)


def test_the_shape_is_that_of_the_images(tmp_path: Path) -> None:
    files = []
    for number, size in enumerate([(8, 10), (200, 100), (90, 120)]):
        files.append(tmp_path / f"{number}.png")
        Image.new("L" if number else "RGB", size).save(files[-1])
    assert shape_of(files[:1], None) == (3, 10, 8)
    assert shape_of(files[1:], None) == (1, 64, 64)
    assert shape_of(files, 16) == (3, 16, 16)


def test_pixels_are_standardised_by_the_training_images() -> None:
    images = torch.randint(0, 256, (50, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    pixels = Pixels.learned(images)
    scaled = pixels.scaled(images).double()
    torch.testing.assert_close(scaled.mean((0, 2, 3)), torch.zeros(3, dtype=torch.float64), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        scaled.std((0, 2, 3), correction=0), torch.ones(3, dtype=torch.float64), atol=1e-5, rtol=0
    )
    assert Pixels.from_dict(pixels.as_dict()) == pixels


@pytest.mark.parametrize("level", [0, 7, 14, 255])
def test_a_channel_that_never_changes_has_no_scale(level: int) -> None:
    """The mean of 7/255 is rounded: what was left of it was taken for a spread, and level 8 became 10¹⁵."""
    images = torch.randint(0, 256, (21, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    images[:, 2] = level
    pixels = Pixels.learned(images)
    assert pixels.std[2] == 1
    assert pixels.scaled(255 - images)[:, 2].abs().max() <= 1
    with pytest.raises(ValueError, match="must show something; all pixels of all images are the same"):
        Pixels.learned(images[:, 2:])
