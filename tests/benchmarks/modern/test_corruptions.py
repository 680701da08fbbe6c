"""Corruptions: form, repeatability, severity, and exact twins where another implementation is at hand."""

import io
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.modern import filters, textures
from benchmarks.modern.corruptions import CORRUPTIONS, KINDS, SEVERITIES, all_corrupted, corrupt
from benchmarks.modern.jpeg import jpeg

NOT_BY_DISTANCE = {"elastic", "glass_blur", "frost"}  # the docstring of corruptions says why; frost darkens images, too


@pytest.fixture(scope="module")
def images() -> Tensor:
    """Smooth colours and rougher light, as in photographs."""
    source = torch.Generator().manual_seed(0)
    colour = torch.stack([textures.clouds(24, 32, 3, source) for _ in range(3)], 1)
    light = textures.clouds(24, 32, 1.5, source).unsqueeze(1)
    return ((0.3 * colour + 0.7 * light) * 255).byte()


def distance(one: Tensor, other: Tensor) -> float:
    return float((one.float() - other.float()).square().mean().sqrt())


def test_there_are_fifteen_kinds_in_four_groups() -> None:
    groups = [one.group for one in CORRUPTIONS.values()]
    counts = {group: groups.count(group) for group in groups}
    assert counts == {"noise": 3, "blur": 4, "weather": 4, "digital": 4}
    assert all(len(one.strengths) == 5 for one in CORRUPTIONS.values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2, 3, 32, 32), (2, 1, 28, 28), (1, 3, 8, 8)])
def test_images_stay_images(kind: str, shape: tuple[int, ...]) -> None:
    given = torch.randint(256, shape, generator=torch.Generator().manual_seed(0)).byte()
    before = given.clone()
    for severity in SEVERITIES:
        made = corrupt(given, kind, severity)
        assert made.dtype == torch.uint8
        assert made.shape == given.shape
    assert torch.equal(given, before)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_seeds_give_equal_images(images: Tensor, kind: str) -> None:
    first = corrupt(images, kind, 3, seed=1)
    assert torch.equal(first, corrupt(images, kind, 3, seed=1))
    without_chance = {"defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg"}
    assert torch.equal(first, corrupt(images, kind, 3, seed=2)) == (kind in without_chance)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - NOT_BY_DISTANCE))
def test_severity_leads_away_from_the_clean_image(images: Tensor, kind: str) -> None:
    away = [distance(corrupt(images, kind, severity), images) for severity in SEVERITIES]
    assert away[0] > 0.5
    assert all(further > 0.98 * near for near, further in pairwise(away))  # blur 3 and 4 differ by chance only
    assert away[-1] > 1.2 * away[0]


def test_severity_of_those_without_a_distance(images: Tensor) -> None:
    def likeness(kind: str) -> list[float]:
        """Mean correlation with the clean image, at each severity."""
        pairs = [zip(images.float(), corrupt(images, kind, severity).float(), strict=True) for severity in SEVERITIES]
        return [sum(float(torch.corrcoef(torch.stack(pair).flatten(1))[0, 1]) for pair in each) / 24 for each in pairs]

    frost, glass = likeness("frost"), likeness("glass_blur")
    assert frost == sorted(frost, reverse=True)
    assert min(glass[:3]) > max(glass[3:])
    assert all(one < 0.99 for one in likeness("elastic"))


def test_all_come_one_after_the_other(images: Tensor) -> None:
    found = [(kind, severity) for kind, severity, _ in all_corrupted(images[:1])]
    assert found == [(kind, severity) for kind in KINDS for severity in SEVERITIES]


def test_an_unknown_kind_or_other_images_are_refused(images: Tensor) -> None:
    with pytest.raises(ValueError, match="there is no 'rain' of severity 1; kinds are gaussian_noise, shot_noise"):
        corrupt(images, "rain", 1)
    with pytest.raises(ValueError, match="there is no 'fog' of severity 6"):
        corrupt(images, "fog", 6)
    with pytest.raises(ValueError, match=r"must be square and uint8, \(B, C, H, H\), not torch.float32"):
        corrupt(images.float(), "fog", 1)


def test_noise_has_its_strength() -> None:
    grey = torch.full((8, 3, 32, 32), 128, dtype=torch.uint8)
    spread = (corrupt(grey, "gaussian_noise", 5).float() / 255).std()
    assert float(spread) == pytest.approx(0.10, rel=0.03)  # 24,576 values: a standard error of 0.5 %
    photons = (corrupt(grey, "shot_noise", 5).float() / 255).var()
    assert float(photons) == pytest.approx(128 / 255 / 50, rel=0.06)
    struck = corrupt(grey, "impulse_noise", 5)
    assert float((struck != 128).double().mean()) == pytest.approx(0.07, abs=0.007)
    assert set(struck.unique().tolist()) == {0, 128, 255}


def test_blurs_and_zooms_keep_a_plain_image() -> None:
    plain = torch.full((2, 3, 16, 16), 77, dtype=torch.uint8)
    for kind in ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "contrast", "elastic", "pixelate", "jpeg"):
        for severity in SEVERITIES:
            assert distance(corrupt(plain, kind, severity), plain) <= (1 if kind == "jpeg" else 0), kind


def test_brightness_raises_the_value_and_keeps_the_hue() -> None:
    colours = torch.tensor([[100, 50, 0], [0, 0, 0], [250, 125, 0]]).byte().view(3, 3, 1, 1)
    made = corrupt(colours, "brightness", 4).flatten(1).tolist()
    assert made == [[151, 76, 0], [51, 51, 51], [255, 128, 0]]  # 0.2 · 255 = 51 more, at most 255


def test_contrast_draws_to_the_mean_of_the_channel(images: Tensor) -> None:
    clean, made = images.double(), corrupt(images, "contrast", 2).double()
    mean = clean.mean((2, 3), keepdim=True)
    assert float((made - (mean + 0.5 * (clean - mean))).abs().max()) <= 0.5 + 1e-4


@pytest.mark.parametrize("border", ["edge", "mirror", "symmetric"])
def test_borders_are_numpys(border: str) -> None:
    names = {"edge": "edge", "mirror": "reflect", "symmetric": "symmetric"}
    expected = np.pad(np.arange(5), 4, mode=names[border])  # type: ignore[call-overload]  # numpy's stubs want the word itself
    assert filters.beyond(5, 4, border).tolist() == expected.tolist()


def test_motion_without_fading_is_a_shift() -> None:
    image = torch.zeros(2, 1, 9, 9)
    image[:, 0, 4, 4] = 1
    made = filters.motion_blur(image, radius=1, sigma=1e6, degrees=torch.tensor([0.0, 90.0]))
    expected = torch.zeros(2, 9, 9)
    expected[0, 4, 2:5] = expected[1, 2:5, 4] = 1 / 3  # a pixel takes what lies one and two steps ahead
    torch.testing.assert_close(made[:, 0], expected)


def test_clouds_are_smooth_if_their_noise_falls_fast() -> None:
    def roughness(decay: float) -> float:
        field = textures.clouds(16, 32, decay, torch.Generator().manual_seed(0))
        assert float(field.amin()) == 0
        assert float(field.amax()) == 1
        return float(field.diff(dim=-1).abs().mean())

    assert roughness(3) < roughness(2) < roughness(1.2)


@pytest.mark.parametrize("size", [32, 28])
def test_boxes_are_pillows(images: Tensor, size: int) -> None:
    pillow = pytest.importorskip("PIL.Image")
    given = images[:4, :, :size, :size]
    for severity, share in enumerate(CORRUPTIONS["pixelate"].strengths, start=1):
        small = (int(size * share),) * 2
        pictures = [pillow.fromarray(image.permute(1, 2, 0).numpy()) for image in given]
        twins = [
            one.resize(small, pillow.Resampling.BOX).resize((size, size), pillow.Resampling.BOX) for one in pictures
        ]
        expected = torch.stack([torch.from_numpy(np.array(one)).permute(2, 0, 1) for one in twins])
        assert torch.equal(corrupt(given, "pixelate", severity), expected)


@pytest.mark.parametrize("quality", [90, 58, 40, 10])
@pytest.mark.parametrize("size", [32, 28])
@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_libjpegs_but_for_rounding(images: Tensor, quality: int, size: int, channels: int) -> None:
    pillow = pytest.importorskip("PIL.Image")
    given = images[:, :channels, :size, :size]
    expected = []
    for image in given:
        file = io.BytesIO()
        pixels = image.permute(1, 2, 0).squeeze(-1).numpy()
        pillow.fromarray(pixels).save(file, "JPEG", quality=quality)
        expected.append(torch.from_numpy(np.array(pillow.open(file))).view(size, size, channels).permute(2, 0, 1))
    twin = torch.stack(expected)
    assert float((jpeg(given, quality).float() - twin.float()).abs().mean()) < 0.6
    assert distance(jpeg(given, quality), twin) < 0.4 * distance(given, twin)
