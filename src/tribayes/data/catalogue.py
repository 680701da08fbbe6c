"""Every data set as data: its files, what they must hold, under which names they come, and from where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Packed:
    """A file as the mirrors offer it."""

    name: str
    size: int  # bytes
    sha256: str
    urls: tuple[str, ...]


@dataclass(frozen=True)
class Member:
    """A part of a data set. However it was packed, its bytes must be these."""

    name: str
    shape: tuple[int, ...]
    size: int  # bytes, unpacked
    sha256: str  # of the unpacked bytes
    packed: Packed  # the download that brings it


@dataclass(frozen=True)
class DataSet:
    """Members in the order in which they are put together, and the folders in which people keep them."""

    name: str
    layout: Literal["idx", "cifar"]
    classes: tuple[str, ...]
    members: tuple[Member, ...]
    folders: tuple[str, ...]  # beneath a place that is searched
    archive: str | None = None  # a tar.gz with all members
    pickled: tuple[str, ...] = ()  # files and folders in which the same data come as pickles, which are not read


_IDX_SHAPES = {
    "train-images-idx3-ubyte": (60_000, 28, 28),
    "train-labels-idx1-ubyte": (60_000,),
    "t10k-images-idx3-ubyte": (10_000, 28, 28),
    "t10k-labels-idx1-ubyte": (10_000,),
}


def _idx_set(
    name: str,
    classes: tuple[str, ...],
    folder: str,
    mirrors: Sequence[str],
    sums: Sequence[str],
    packed: Sequence[tuple[int, str]],
) -> DataSet:
    """A set of four files in MNIST's layout; sums, and sizes and sums of the packed files, in `_IDX_SHAPES`' order."""
    members = []
    for (file, shape), sha256, offered in zip(_IDX_SHAPES.items(), sums, packed, strict=True):
        size = 4 + 4 * len(shape) + math.prod(shape)  # magic number, lengths, one byte each
        urls = tuple(f"{mirror}{file}.gz" for mirror in mirrors)
        members.append(Member(file, shape, size, sha256, Packed(f"{file}.gz", *offered, urls)))
    return DataSet(name, "idx", classes, tuple(members), folders=(name, folder, ""))


MNIST = _idx_set(
    "mnist",
    tuple("0123456789"),
    "MNIST/raw",
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    sums=(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    packed=(
        (9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        (1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
)

FASHION_MNIST = _idx_set(
    "fashion-mnist",
    ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    "FashionMNIST/raw",
    mirrors=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",  # the authors' own; it speaks no https
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
    sums=(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    packed=(
        (26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        (29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        (4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        (5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    ),
)

_CIFAR_SHAPE = (10_000, 1 + 3 * 32 * 32)  # of each file: records of a label, then red, green and blue
_CIFAR_SUMS = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
_CIFAR_TAR = Packed(
    "cifar-10-binary.tar.gz",
    170_052_171,
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
)

CIFAR_10 = DataSet(
    "cifar-10",
    "cifar",
    ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    tuple(
        Member(name, _CIFAR_SHAPE, math.prod(_CIFAR_SHAPE), sha256, _CIFAR_TAR) for name, sha256 in _CIFAR_SUMS.items()
    ),
    folders=("cifar-10", "cifar-10/cifar-10-batches-bin", "", "cifar-10-batches-bin"),
    archive=_CIFAR_TAR.name,
    pickled=("cifar-10-python.tar.gz", "cifar-10-batches-py", "data_batch_1", "test_batch"),
)

SETS = {dataset.name: dataset for dataset in (MNIST, FASHION_MNIST, CIFAR_10)}
