"""Drawn digits, prepared as the training sets' were."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tribayes.data import load_digits
from tribayes.serve.distortion import Distortion
from tribayes.serve.ink import PREPARATIONS


def drawing(top: int, left: int, height: int, width: int, side: int = 280) -> Tensor:
    image = torch.zeros(side, side)
    image[top : top + height, left : left + width] = 1
    return image


def test_mnist_s_rule_fits_twenty_pixels_and_centres_the_mass() -> None:
    prepared = PREPARATIONS["mnist"](drawing(10, 20, 100, 50))[0]
    expected = torch.zeros(28, 28)
    expected[4:24, 9:19] = 1
    assert torch.equal(prepared, expected)
    heavy = drawing(0, 0, 200, 200)
    heavy[:, 100:200] *= 0.25  # the mass is left of the middle of the outline, so the outline goes to the right
    columns = PREPARATIONS["mnist"](heavy)[0].sum(0)
    centre = (columns * (torch.arange(28) + 0.5)).sum() / columns.sum()
    assert 14 <= float(centre) < 15  # as of all of MNIST's own


def test_what_was_prepared_stays_as_it_is() -> None:
    """An image of MNIST's making, shown large on the pad, comes back to the bit."""
    scribble = torch.rand(41, 27, generator=torch.Generator().manual_seed(0))
    once = PREPARATIONS["mnist"](F.pad(scribble, (10, 10, 10, 10)))
    large = F.interpolate(once.unsqueeze(0), scale_factor=10)[0, 0]
    assert torch.allclose(PREPARATIONS["mnist"](large), once, atol=1e-6)


def test_the_digits_come_back_from_the_pad() -> None:
    """At least 19 of 20 to a rounding; the others lie farther from the middle than the rule of the set allows."""
    images = load_digits().test_images
    large = F.interpolate(images, scale_factor=35)[:, 0]
    same = [torch.allclose(PREPARATIONS["digits"](pad), one, atol=1e-5) for pad, one in zip(large, images, strict=True)]
    assert sum(same) >= 0.95 * len(same)


@pytest.mark.parametrize("name", PREPARATIONS)
@pytest.mark.parametrize("place", [(0, 0), (100, 120), (210, 200)])
def test_size_and_place_do_not_matter_nor_does_the_paper(name: str, place: tuple[int, int]) -> None:
    prepare = PREPARATIONS[name]
    expected = prepare(drawing(0, 0, 140, 70))
    assert torch.allclose(prepare(drawing(*place, 70, 35)), expected, atol=0.02)
    assert torch.allclose(prepare(1 - drawing(*place, 70, 35)), expected, atol=0.02)
    grain = 0.02 * torch.rand(280, 280, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(prepare(0.9 - 0.8 * drawing(*place, 70, 35) + grain), expected, atol=0.08)


@pytest.mark.parametrize("image", [torch.zeros(9, 9), torch.ones(9, 9), torch.full((9, 9), 0.4)])
def test_an_empty_sheet_is_refused(image: Tensor) -> None:
    with pytest.raises(
        ValueError, match=r"'9×9 pixels, nearly alike'\) must show something on its ground; draw a stroke"
    ):
        PREPARATIONS["mnist"](image)


def test_distortions_do_what_they_are_called() -> None:
    image = torch.rand(1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Distortion().apply(image), image)
    assert torch.allclose(Distortion(rotation=90).apply(image), image.rot90(1, (1, 2)), atol=1e-5)
    assert torch.equal(Distortion(occlusion=0.5).apply(image)[:, 2:6, 2:6], torch.zeros(1, 4, 4))
    assert torch.equal(Distortion(occlusion=0.5).apply(image)[:, :2], image[:, :2])
    assert not Distortion(occlusion=1).apply(image).any()
    point = F.pad(torch.ones(1, 1, 1), (10, 10, 10, 10))
    blurred = Distortion(blur=0.1).apply(point)[0]
    places = torch.arange(21) - 10.0
    assert float(blurred.sum()) == pytest.approx(1, abs=1e-5)
    assert float((blurred.sum(0) * places.square()).sum()) == pytest.approx(2.1**2, rel=0.05)
    noisy = Distortion(noise=0.1).apply(torch.full((1, 100, 100), 0.5))
    assert float(noisy.std()) == pytest.approx(0.1, rel=0.05)  # 10,000 pixels: off by more with probability below 1e-11
