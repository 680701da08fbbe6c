"""The real sets, where $TRIBAYES_DATA has them. Everything in the catalogue that can be checked offline is."""

import os
from pathlib import Path

import pytest
import torch

from tests.data.samples import sha256
from tribayes.data import load
from tribayes.data.catalogue import SETS, DataSet
from tribayes.data.loading import locate

PLACE = os.environ.get("TRIBAYES_DATA")  # before the fixture hides it

MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def place_of(name: str) -> Path:
    if not PLACE:
        pytest.skip("needs real data: $TRIBAYES_DATA is not set")
    if len(locate(SETS[name], [Path(PLACE)])) < len(SETS[name].members):
        pytest.skip(f"needs real data: $TRIBAYES_DATA has no {name}")
    return Path(PLACE)


@pytest.mark.parametrize(
    ("name", "image", "train", "test"),
    [
        ("mnist", (1, 28, 28), MNIST_TRAIN, MNIST_TEST),
        ("fashion-mnist", (1, 28, 28), [6000] * 10, [1000] * 10),
        ("cifar-10", (3, 32, 32), [5000] * 10, [1000] * 10),
    ],
)
def test_real_set(name: str, image: tuple[int, ...], train: list[int], test: list[int]) -> None:
    data = load(name, place_of(name), download=False, progress=False)
    assert data.train_labels.bincount().tolist() == train
    assert data.test_labels.bincount().tolist() == test
    assert data.train_images.shape == (sum(train), *image)
    assert data.test_images.shape == (sum(test), *image)
    assert data.train_images.dtype == data.test_images.dtype == torch.uint8


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_packed_files_are_those_the_mirrors_offer(name: str) -> None:
    for member, path in locate(SETS[name], [place_of(name)]).items():
        if path.name == member.packed.name:
            content = path.read_bytes()
            assert (len(content), sha256(content)) == (member.packed.size, member.packed.sha256)


@pytest.mark.parametrize("dataset", SETS.values(), ids=SETS)
def test_the_catalogue_is_consistent(dataset: DataSet) -> None:
    sums = [member.sha256 for member in dataset.members] + [member.packed.sha256 for member in dataset.members]
    assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in sums)
    assert len({member.sha256 for member in dataset.members}) == len(dataset.members)
    for member in dataset.members:
        assert all(url.startswith(("https://", "http://")) for url in member.packed.urls)
        assert all(url.endswith(f"/{member.packed.name}") for url in member.packed.urls)


def test_sizes_are_the_published_ones() -> None:
    assert [member.size for member in SETS["mnist"].members] == [47_040_016, 60_008, 7_840_016, 10_008]
    assert {member.size for member in SETS["cifar-10"].members} == {30_730_000}
