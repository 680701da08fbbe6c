"""Image files as a network takes them, and what is said about the way there."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import ExifTags, GifImagePlugin, Image

from tests.recipes.small import CPU
from tribayes.data import Split, load
from tribayes.recipes import examples, image_files
from tribayes.recipes.examples import network_inputs, prepare, shown_images
from tribayes.recipes.experiments import experiment
from tribayes.recipes.image_files import read_image
from tribayes.recipes.setting import SHAPES

NOISE = np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8)


def saved(folder: Path, image: Image.Image, name: str = "image.png") -> Path:
    image.save(folder / name)
    return folder / name


def test_an_image_of_the_right_kind_is_taken_as_it_is(tmp_path: Path) -> None:
    found = read_image(saved(tmp_path, Image.fromarray(NOISE)), "mnist")
    assert found.changes == ()
    assert torch.equal(found.pixels, torch.from_numpy(NOISE).unsqueeze(0))


def test_colours_keep_their_channels(tmp_path: Path) -> None:
    colours = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    found = read_image(saved(tmp_path, Image.fromarray(colours)), "cifar-10")
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
    found = read_image(saved(tmp_path, image), data)
    assert found.changes == changes
    assert tuple(found.pixels.shape) == SHAPES[data]
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
        read_image(path, "mnist")


def test_a_torn_image(tmp_path: Path) -> None:
    path = saved(tmp_path, Image.fromarray(NOISE))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"must be an image that can be read \(.*\); pass one of PNG, JPEG,"):
        read_image(path, "mnist")


def test_a_missing_file_and_a_deep_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(f"`IMAGE` (={str(tmp_path / 'x.png')!r}) must be a file; correct")):
        read_image(tmp_path / "x.png", "mnist")
    deep = saved(tmp_path, Image.fromarray(NOISE.astype(np.uint16)))
    with pytest.raises(ValueError, match=r"mode I(;16)?'\) must have 8 bits per channel; convert it\."):
        read_image(deep, "mnist")


def test_digits_from_files_are_the_digits(tmp_path: Path) -> None:
    original = load("digits").test_images[:1]
    path = saved(tmp_path, Image.fromarray((original[0, 0] * 255).round().byte().numpy()))
    pixels = read_image(path, "digits").pixels.unsqueeze(0)
    assert network_inputs(experiment("digits"), pixels, None, CPU).inputs == pytest.approx(original, abs=1 / 255)


def test_mnist_is_scaled_as_in_training_and_needs_no_data() -> None:
    pixels = torch.from_numpy(NOISE).expand(1, 1, 28, 28)
    assert torch.equal(network_inputs(experiment("mnist-lenet100"), pixels, None, CPU).inputs, pixels / 256)


@pytest.mark.parametrize("validation", [0, 2])
def test_cifar_is_centred_by_the_images_trained_on(monkeypatch: pytest.MonkeyPatch, validation: int) -> None:
    noise = torch.Generator().manual_seed(0)
    train, test = (torch.randint(0, 256, (n, 3, 32, 32), generator=noise, dtype=torch.uint8) for n in (5, 3))
    split = Split(train, torch.zeros(5).long(), test, torch.zeros(3).long())
    monkeypatch.setattr(examples, "load_split", lambda *_: split)
    setting = experiment("cifar10").changed(validation=validation)
    _, expected = prepare("cifar-10", split, CPU, validation)
    raw = train[-validation:] if validation else test
    assert torch.equal(network_inputs(setting, raw, None, CPU).inputs, expected.inputs)


def test_shown_images_are_those_tested_on_in_plain_colours() -> None:
    train, test = (torch.full((n, 1, 28, 28), n, dtype=torch.uint8) for n in (5, 3))
    split = Split(train, torch.zeros(5).long(), test, torch.zeros(3).long())
    setting = experiment("mnist-lenet100")
    assert torch.equal(shown_images(setting, split), test / 255)
    assert torch.equal(shown_images(setting.changed(validation=2), split), train[:2] / 255)
    digits = load("digits")
    assert torch.equal(shown_images(experiment("digits"), digits), digits.test_images)


def test_a_photograph_is_turned_as_the_camera_was_held(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90° clockwise
    path = tmp_path / "photo.png"
    Image.fromarray(NOISE).save(path, exif=exif)
    found = read_image(path, "mnist")
    assert found.changes == ("turned as the camera was held",)
    assert torch.equal(found.pixels[0], torch.from_numpy(NOISE).rot90(-1))


def test_of_several_pictures_the_first_is_taken_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(_: object) -> int:
        pytest.fail("a file of 11 MB may hold 100,000 of them, and Pillow counts for 40 seconds")

    monkeypatch.setattr(GifImagePlugin.GifImageFile, "n_frames", property(count))
    path = tmp_path / "film.gif"
    first = Image.new("L", (28, 28), 200)
    first.save(path, save_all=True, append_images=[Image.new("L", (28, 28), 10)])
    found = read_image(path, "mnist")
    assert "the first of several pictures in the file" in found.changes
    assert found.pixels.unique().tolist() == [200]


def test_an_image_that_would_fill_the_memory(tmp_path: Path) -> None:
    path = saved(tmp_path, Image.new("1", (10_000, 2_501)))
    with pytest.raises(ValueError, match=r"10000×2501 are more than 25,000,000 pixels"):
        read_image(path, "mnist")


def test_boxplots_have_names_of_their_own() -> None:
    files = [Path(name) for name in ("a/x.png", "b/x.png", "x-2.png", "c/x.png", f"{'n' * 240}.png")]
    names = image_files._boxplot_names(files)
    assert names[:4] == ["x.boxplot.png", "x-2.boxplot.png", "x-2-2.boxplot.png", "x-3.boxplot.png"]
    assert len(names[4]) < 230


@pytest.mark.parametrize("stem", ["语" * 80, "a" + "é" * 120, "\udcff" * 200, "\udcffx", "x\x1b[2J\n"])
def test_a_boxplot_has_a_name_that_a_disk_takes(tmp_path: Path, stem: str) -> None:
    """255 bytes, where a letter may take four; and of bytes that are no text nothing is left."""
    for name in image_files._boxplot_names([Path(f"{stem}.png")] * 12):
        (tmp_path / name).write_bytes(b"")
        name.encode()


DAMAGED = {  # a whole file's bytes → those of one that a decoder stumbles over
    "no width": lambda data: re.sub(rb"\x00\x01[\x03\x04]\x00", b"\x00\x09\x03\x00", data, count=1),
    "cut": lambda data: data[:-9],
    "a tag of nothing": lambda data: data.replace(b"\x11\x01", b"\x55\x55", 1),
    "empty": lambda _: b"",
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_file_is_refused_in_words(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.tiff"
    Image.new("RGB", (9, 7), "red").save(path)
    path.write_bytes(DAMAGED[kind](path.read_bytes()))
    with pytest.raises(
        ValueError, match=r"`IMAGE` \(=.*x\.tiff'\) must be an image that can be read \(.*\); pass one of PNG"
    ):
        read_image(path, "mnist")


@pytest.mark.parametrize("error", [KeyError(222), TypeError("Missing dimensions"), IndexError(), MemoryError()])
def test_whatever_a_decoder_stumbles_over_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Of some thousand damaged TIFF files Pillow raised the first two."""
    path = saved(tmp_path, Image.new("L", (28, 28)))

    def stumble(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Image, "open", stumble)
    with pytest.raises(ValueError, match=r"must be an image that can be read \(.*\); pass one of PNG"):
        read_image(path, "mnist")


def test_what_pillow_says_of_a_file_is_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "x.jpeg"
    exif = Image.Exif()
    exif[ExifTags.Base.ImageDescription] = "a description that will be cut off"
    Image.new("L", (28, 28)).save(path, exif=exif)
    path.write_bytes(path.read_bytes().replace(b"\x00\x00\x00#", b"\x7f\x00\x00#"))
    assert read_image(path, "mnist").changes[-1].startswith("Pillow says: ")
