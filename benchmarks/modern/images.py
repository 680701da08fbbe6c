"""The images of the study: to learn from, to be tested on, foreign ones, and what people called them.

    python -m benchmarks.modern.images pack --data cifar10 --parts 3 --to PACKED     # for a machine without the files
    python -m benchmarks.modern.images unpack --data cifar10 --at PACKED --to DATA   # there

Folders are searched as `tribayes.data` does: the one that is named, then $TRIBAYES_DATA. CIFAR-10 and Fashion-MNIST are
read by `tribayes.data`. The others lie beside them: cifar-100/{train,test}.bin, svhn-recropped/test-10000.bin (plain or
.xz), kmnist/t10k-images-idx3-ubyte.gz, cifar-10h/cifar10h-counts.npy. What `unpack` wrote (DATA/ready/NAME/*.npy) comes
first of all, and is read in a moment.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.modern.packing import pack_arrays, unpack_arrays
from tribayes.data import load as load_split

NAMES = ("cifar10", "cifar100", "fashion")

_PIXELS = 3 * 32 * 32
_READY = "ready"  # the folder of what was unpacked


@dataclass(frozen=True)
class Images:
    """uint8 images (N, C, H, W) and int64 labels (N,)."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    classes: int

    def to(self, device: torch.device | str) -> Images:
        return replace(self, **{part: getattr(self, part).to(device) for part in _PARTS})


_PARTS = [field.name for field in fields(Images) if field.name != "classes"]


def load(name: str, folder: Path) -> Images:
    """A data set by its name. The order of CIFAR-100's training images is random, but always the same.

    (They are stored by class: the last of them, held out as they are, would be of a few classes only.)
    """
    if name not in NAMES:
        raise ValueError(f"there is no data set {name!r}; give one of {', '.join(NAMES)}")
    classes = 100 if name == "cifar100" else 10
    ready = {part: tensor for part in _PARTS if (tensor := _ready(name, part, folder)) is not None}
    if len(ready) == len(_PARTS):
        return Images(**ready, classes=classes)
    if name == "cifar100":
        return Images(*_cifar100_training(folder), *_cifar100_test(folder), classes)
    original = {"cifar10": "cifar-10", "fashion": "fashion-mnist"}[name]
    return Images(*load_split(original, folder, download=False, progress=False), classes)


def foreign(name: str, folder: Path, count: int) -> dict[str, Tensor]:
    """Up to `count` images of other kinds for networks trained on `name`, "near" and "far", uint8 (N, C, H, W).

    Near: the other CIFAR's test images. Far: digits of house numbers; Japanese letters for Fashion-MNIST, which has no
    near ones. Those whose files are absent are left out, and a line says so.
    """
    found = {}
    for kind, read in _FOREIGN[name].items():
        ready = _ready(name, kind, folder)
        try:
            found[kind] = (read(folder) if ready is None else ready)[:count]
        except FileNotFoundError as error:
            print(f"{name} without {kind} foreign images: {error}")
    return found


def votes(folder: Path) -> Tensor:
    """CIFAR-10H: the share of people who called each CIFAR-10 test image a member of each class, (10,000, 10)."""
    ready = _ready("cifar10", "votes", folder)
    if ready is not None:
        return ready
    counts = torch.from_numpy(np.load(_find("cifar-10h/cifar10h-counts.npy", folder)).astype(np.float64))
    return counts / counts.sum(1, keepdim=True)


def pack(name: str, folder: Path, to: Path, parts: int, foreign_count: int) -> list[Path]:
    """All that the study needs of a data set as `parts` small files; returns their paths."""
    images = load(name, folder)
    tensors = {part: getattr(images, part) for part in _PARTS} | foreign(name, folder, foreign_count)
    if name == "cifar10":
        tensors["votes"] = votes(folder)
    small = {key: tensor.byte() if key.endswith("labels") else tensor for key, tensor in tensors.items()}
    return pack_arrays({key: tensor.numpy() for key, tensor in small.items()}, name, to, parts)


def unpack(name: str, packed: Path, to: Path) -> Path:
    """Make `to` a folder from which `load`, `foreign` and `votes` read; returns where the arrays are."""
    place = to / _READY / name
    place.mkdir(parents=True, exist_ok=True)
    for key, array in unpack_arrays(name, packed).items():
        np.save(place / f"{key}.npy", array.astype(np.int64) if key.endswith("labels") else array)
    return place


def _ready(name: str, part: str, folder: Path) -> Tensor | None:
    """What `unpack` wrote, where it did."""
    for place in _places(folder):
        path = place / _READY / name / f"{part}.npy"
        if path.is_file():
            return torch.from_numpy(np.load(path))
    return None


def _cifar100_training(folder: Path) -> tuple[Tensor, Tensor]:
    try:
        path = _find("cifar-100/train.bin", folder)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error}. The test images are there without it, but not the training images. To make the file: run "
            "`python build.py GIT_DIR OUT` with the build.py beside test.bin.xz, where GIT_DIR is a git directory of "
            "GitHub's Taragon123/Taragon123.github.io and OUT the folder cifar-100 in one of these places"
        ) from None
    images, labels = _records(path, 50_000, label_bytes=2)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return images[order], labels[order]


def _cifar100_test(folder: Path) -> tuple[Tensor, Tensor]:
    return _records(_find("cifar-100/test.bin", folder), 10_000, label_bytes=2)


def _house_numbers(folder: Path) -> Tensor:
    return _records(_find("svhn-recropped/test-10000.bin", folder), 10_000, label_bytes=1)[0]


def letters(folder: Path) -> Tensor:
    """KMNIST's test images: Japanese letters, uint8 (10,000, 1, 28, 28)."""
    data = _bytes(_find("kmnist/t10k-images-idx3-ubyte", folder))
    header = 16  # magic number and three lengths
    _check_size("kmnist", len(data), header + 10_000 * 28 * 28)
    return torch.frombuffer(data, dtype=torch.uint8, offset=header).view(-1, 1, 28, 28)


_FOREIGN: dict[str, dict[str, Callable[[Path], Tensor]]] = {
    "cifar10": {"near": lambda folder: _cifar100_test(folder)[0], "far": _house_numbers},
    "cifar100": {"near": lambda folder: load("cifar10", folder).test_images, "far": _house_numbers},
    "fashion": {"far": letters},
}


def _records(path: Path, count: int, label_bytes: int) -> tuple[Tensor, Tensor]:
    """Records of labels, of which the last is the finest, and the pixels of a colour image."""
    data = _bytes(path)
    _check_size(str(path), len(data), count * (label_bytes + _PIXELS))
    table = torch.frombuffer(data, dtype=torch.uint8).view(count, -1)
    return table[:, label_bytes:].reshape(-1, 3, 32, 32), table[:, label_bytes - 1].long()


def _bytes(path: Path) -> bytearray:
    if path.suffix == ".xz":
        return bytearray(lzma.decompress(path.read_bytes()))
    return bytearray(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


def _check_size(source: str, held: int, expected: int) -> None:
    if held != expected:
        raise ValueError(f"{source} holds {held:,} bytes unpacked, not {expected:,}; replace it")


def _find(name: str, folder: Path) -> Path:
    """The file of that name, plain or packed, in the first folder that has one."""
    places = _places(folder)
    for place in places:
        for suffix in ("", ".xz", ".gz"):
            if (path := place / f"{name}{suffix}").is_file():
                return path
    raise FileNotFoundError(f"no {name} (plain, .xz or .gz) in {' or '.join(map(str, places))}")


def _places(folder: Path) -> list[Path]:
    """The folders to search, in order, each once."""
    return list(dict.fromkeys(Path(place) for place in (folder, os.environ.get("TRIBAYES_DATA")) if place))


def main(words: Sequence[str] | None = None) -> None:
    arguments = _arguments(words)
    if arguments.command == "pack":
        for path in pack(arguments.data, arguments.at, arguments.to, arguments.parts, arguments.foreign):
            print(f"{path.stat().st_size / 2**20:6.1f} MiB  {path.name}")
    else:
        print(f"written: {unpack(arguments.data, arguments.at, arguments.to)}")


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("pack", "unpack"))
    parser.add_argument("--data", choices=NAMES, required=True)
    default = os.environ.get("TRIBAYES_DATA", ".")
    parser.add_argument("--at", type=Path, default=Path(default), help="where the files are ($TRIBAYES_DATA)")
    parser.add_argument("--to", type=Path, required=True, help="the folder to write into")
    parser.add_argument("--parts", type=int, default=3, help="pack: into how many files")
    parser.add_argument("--foreign", type=int, default=2000, help="pack: how many foreign images of each kind")
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
