"""Cutting, mirroring and units, against the same done image by image."""

import torch

from benchmarks.modern.augment import Normalisation, crop_and_flip


def images(count: int = 64, channels: int = 3, size: int = 8) -> torch.Tensor:
    return torch.randint(1, 256, (count, channels, size, size), generator=torch.Generator().manual_seed(0)).byte()


def test_every_image_is_a_cut_of_itself() -> None:
    given, pad = images(), 2
    made = crop_and_flip(given, torch.Generator().manual_seed(1), pad)
    around = torch.nn.functional.pad(given, (pad,) * 4)
    places = set()
    for number, image in enumerate(made):
        cuts = {
            (row, column, flip): cut.flip(-1) if flip else cut
            for row in range(2 * pad + 1)
            for column in range(2 * pad + 1)
            for flip in (False, True)
            for cut in [around[number, :, row : row + 8, column : column + 8]]
        }
        places |= {place for place, cut in cuts.items() if torch.equal(cut, image)}
        assert any(torch.equal(cut, image) for cut in cuts.values())
    assert {place[:1] for place in places} == {(row,) for row in range(5)}
    assert {place[2] for place in places} == {False, True}
    assert made.dtype == torch.uint8


def test_nothing_is_done_without_pad_and_flip() -> None:
    assert torch.equal(crop_and_flip(images(), torch.Generator(), pad=0, flip=False), images())


def test_equal_seeds_give_equal_images() -> None:
    first, again, other = (crop_and_flip(images(), torch.Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_normalised_training_images_have_mean_0_and_deviation_1() -> None:
    given = images()
    units = Normalisation.of(given)
    values = units(given, channels_last=True)
    assert values.is_contiguous(memory_format=torch.channels_last)
    assert values.dtype == torch.float32
    torch.testing.assert_close(values.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(values.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(units.mean.flatten(), (given / 255).mean((0, 2, 3)))
