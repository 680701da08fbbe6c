"""Image files as a network takes them, and what is said about the way there."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.experiments.small import CPU
from tribayes.data import Split, load
from tribayes.experiments import images
from tribayes.experiments.catalogue import experiment
from tribayes.experiments.examples import shown_images
from tribayes.experiments.images import network_inputs, read_picture
from tribayes.experiments.inputs import prepare

NOISE = np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8)


def saved(folder: Path, image: Image.Image, name: str = "image.png") -> Path:
    image.save(folder / name)
    return folder / name


def test_an_image_of_the_right_kind_is_taken_as_it_is(tmp_path: Path) -> None:
    found = read_picture(saved(tmp_path, Image.fromarray(NOISE)), "mnist")
    assert found.changes == ()
    assert torch.equal(found.pixels, torch.from_numpy(NOISE).unsqueeze(0))


def test_colours_keep_their_channels(tmp_path: Path) -> None:
    colours = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    found = read_picture(saved(tmp_path, Image.fromarray(colours)), "cifar-10")
    assert found.changes == ()
    assert torch.equal(found.pixels, torch.from_numpy(colours).permute(2, 0, 1))


@pytest.mark.parametrize(
    ("image", "data", "changes"),
    [
        (Image.new("RGB", (28, 28)), "mnist", ("made grey",)),
        (Image.new("L", (32, 32)), "cifar-10", ("made RGB",)),
        (Image.new("L", (56, 56)), "mnist", ("resized from 56×56 to 28×28",)),
        (Image.new("L", (8, 16)), "digits", ("resized from 8×16 to 8×8, stretched",)),
        (Image.new("RGBA", (28, 28), (9, 9, 9, 255)), "mnist", ("made grey",)),
        (
            Image.new("RGBA", (9, 9)),
            "digits",
            ("transparent parts became white", "made grey", "resized from 9×9 to 8×8"),
        ),
    ],
)
def test_changes_are_stated(tmp_path: Path, image: Image.Image, data: str, changes: tuple[str, ...]) -> None:
    found = read_picture(saved(tmp_path, image), data)
    assert found.changes == changes
    assert tuple(found.pixels.shape) == images.SHAPES[data]
    assert found.pixels.unique().tolist() == [
        255 if "transparent parts became white" in changes else found.pixels.max()
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no image", r"image.png'\) must be an image that can be read \(cannot identify image file"),
        (b"", r"image.png'\) must be an image that can be read \("),
    ],
)
def test_a_file_that_is_no_image(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said):
        read_picture(path, "mnist")


def test_a_torn_image(tmp_path: Path) -> None:
    path = saved(tmp_path, Image.fromarray(NOISE))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"must be an image that can be read \(.*\); pass e\.g\. a PNG\."):
        read_picture(path, "mnist")


def test_a_missing_file_and_a_deep_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(f"`IMAGE` (={str(tmp_path / 'x.png')!r}) must be a file; correct")):
        read_picture(tmp_path / "x.png", "mnist")
    deep = saved(tmp_path, Image.fromarray(NOISE.astype(np.uint16)))
    with pytest.raises(ValueError, match=r"mode I;16'\) must have 8 bits a channel; convert it\."):
        read_picture(deep, "mnist")


def test_digits_from_files_are_the_digits(tmp_path: Path) -> None:
    original = load("digits").test_images[:1]
    path = saved(tmp_path, Image.fromarray((original[0, 0] * 255).round().byte().numpy()))
    pixels = read_picture(path, "digits").pixels.unsqueeze(0)
    assert network_inputs(experiment("digits"), pixels, None, CPU) == pytest.approx(original, abs=1 / 255)


def test_mnist_is_scaled_as_in_training_and_needs_no_data() -> None:
    pixels = torch.from_numpy(NOISE).expand(1, 1, 28, 28)
    assert torch.equal(network_inputs(experiment("mnist-lenet100"), pixels, None, CPU), pixels / 256)


@pytest.mark.parametrize("validation", [0, 2])
def test_cifar_is_centred_by_the_images_trained_on(monkeypatch: pytest.MonkeyPatch, validation: int) -> None:
    noise = torch.Generator().manual_seed(0)
    train, test = (torch.randint(0, 256, (n, 3, 32, 32), generator=noise, dtype=torch.uint8) for n in (5, 3))
    split = Split(train, torch.zeros(5).long(), test, torch.zeros(3).long())
    monkeypatch.setattr(images, "load_split", lambda *_: split)
    setting = experiment("cifar10").changed(validation=validation)
    _, examples = prepare("cifar-10", split, CPU, validation)
    raw = train[-validation:] if validation else test
    assert torch.equal(network_inputs(setting, raw, None, CPU), examples.images)


def test_shown_images_are_those_tested_on_in_plain_colours() -> None:
    train, test = (torch.full((n, 1, 28, 28), n, dtype=torch.uint8) for n in (5, 3))
    split = Split(train, torch.zeros(5).long(), test, torch.zeros(3).long())
    setting = experiment("mnist-lenet100")
    assert torch.equal(shown_images(setting, split), test / 255)
    assert torch.equal(shown_images(setting.changed(validation=2), split), train[:2] / 255)
    digits = load("digits")
    assert torch.equal(shown_images(experiment("digits"), digits), digits.test_images)
