"""Every data set as data: its files, what they must hold, under which names they come, and from where."""

from __future__ import annotations

import math
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
    pickled: str | None = None  # name of a Python pickle with the same content

    @property
    def names(self) -> tuple[str, ...]:
        """The names a file with this content may have, before .gz or .xz."""
        return (self.name,) if self.pickled is None else (self.name, self.pickled)


@dataclass(frozen=True)
class DataSet:
    """Members in the order in which they are put together, and the folders in which people keep them."""

    name: str
    layout: Literal["idx", "cifar"]
    classes: tuple[str, ...]
    members: tuple[Member, ...]
    folders: tuple[str, ...]  # beneath a place that is searched
    archives: tuple[str, ...] = ()  # tar files with all members


_TRAIN, _TEST = 60_000, 10_000
_SIDE = 28


def _idx(name: str, shape: tuple[int, ...], sha256: str, packed: tuple[int, str], mirrors: tuple[str, ...]) -> Member:
    size = 4 + 4 * len(shape) + math.prod(shape)  # magic number, lengths, one byte each
    offered = Packed(f"{name}.gz", *packed, tuple(f"{mirror}{name}.gz" for mirror in mirrors))
    return Member(name, shape, size, sha256, offered)


_MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)

MNIST = DataSet(
    "mnist",
    "idx",
    tuple("0123456789"),
    (
        _idx(
            "train-images-idx3-ubyte",
            (_TRAIN, _SIDE, _SIDE),
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            (9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            _MNIST_MIRRORS,
        ),
        _idx(
            "train-labels-idx1-ubyte",
            (_TRAIN,),
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            _MNIST_MIRRORS,
        ),
        _idx(
            "t10k-images-idx3-ubyte",
            (_TEST, _SIDE, _SIDE),
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            (1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            _MNIST_MIRRORS,
        ),
        _idx(
            "t10k-labels-idx1-ubyte",
            (_TEST,),
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
            _MNIST_MIRRORS,
        ),
    ),
    folders=("mnist", "MNIST/raw", ""),
)

_FASHION_MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",  # the authors' own; it speaks no https
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)

FASHION_MNIST = DataSet(
    "fashion-mnist",
    "idx",
    ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    (
        _idx(
            "train-images-idx3-ubyte",
            (_TRAIN, _SIDE, _SIDE),
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            (26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            _FASHION_MIRRORS,
        ),
        _idx(
            "train-labels-idx1-ubyte",
            (_TRAIN,),
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            (29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            _FASHION_MIRRORS,
        ),
        _idx(
            "t10k-images-idx3-ubyte",
            (_TEST, _SIDE, _SIDE),
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            (4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            _FASHION_MIRRORS,
        ),
        _idx(
            "t10k-labels-idx1-ubyte",
            (_TEST,),
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            (5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
            _FASHION_MIRRORS,
        ),
    ),
    folders=("fashion-mnist", "FashionMNIST/raw", ""),
)

_CIFAR_RECORDS = 10_000  # in each file
_CIFAR_RECORD = 1 + 3 * 32 * 32  # bytes: the label, then red, green and blue
_CIFAR_PACKED = Packed(
    "cifar-10-binary.tar.gz",
    170_052_171,
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
)


def _cifar(name: str, sha256: str) -> Member:
    shape = (_CIFAR_RECORDS, _CIFAR_RECORD)
    return Member(f"{name}.bin", shape, math.prod(shape), sha256, _CIFAR_PACKED, pickled=name)


CIFAR_10 = DataSet(
    "cifar-10",
    "cifar",
    ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    (
        _cifar("data_batch_1", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
        _cifar("data_batch_2", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
        _cifar("data_batch_3", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
        _cifar("data_batch_4", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
        _cifar("data_batch_5", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
        _cifar("test_batch", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
    ),
    folders=(
        "cifar-10",
        "cifar-10/cifar-10-batches-bin",
        "cifar-10/cifar-10-batches-py",
        "",
        "cifar-10-batches-bin",
        "cifar-10-batches-py",
    ),
    archives=("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"),
)

SETS = {dataset.name: dataset for dataset in (MNIST, FASHION_MNIST, CIFAR_10)}
