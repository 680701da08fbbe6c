"""Data sets of a few images in the same formats, and files that hold them."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import math
import struct
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tribayes.data.catalogue import SETS, DataSet, Member, Packed

PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}

IDX_SHAPES = {
    "train-images-idx3-ubyte": (12, 4, 5),
    "train-labels-idx1-ubyte": (12,),
    "t10k-images-idx3-ubyte": (6, 4, 5),
    "t10k-labels-idx1-ubyte": (6,),
}
CIFAR_SHAPE = (4, 3073)


@dataclass
class Sample:
    """A small data set: its entry for the catalogue, and the unpacked bytes of each member."""

    dataset: DataSet
    contents: dict[str, bytes]

    def write(self, folder: Path, suffix: str = "") -> None:
        """All members into a folder, packed one by one."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.contents.items():
            (folder / (name + suffix)).write_bytes(PACK[suffix](content))

    def member(self, name: str) -> Member:
        return next(member for member in self.dataset.members if member.name == name)

    def use(self, monkeypatch: pytest.MonkeyPatch) -> Sample:
        """Let `load` know the small set instead of the real one."""
        monkeypatch.setitem(SETS, self.dataset.name, self.dataset)
        return self


def idx_bytes(values: Tensor, kind: int = 0x08) -> bytes:
    return struct.pack(f">HBB{values.ndim}I", 0, kind, values.ndim, *values.shape) + bytes(values.flatten().tolist())


def idx_sample(name: str = "mnist", seed: int = 0) -> Sample:
    generator = torch.Generator().manual_seed(seed)
    limits = {name: 256 if len(shape) > 1 else 10 for name, shape in IDX_SHAPES.items()}
    contents = {
        name: idx_bytes(torch.randint(limits[name], shape, generator=generator)) for name, shape in IDX_SHAPES.items()
    }
    return _sample(name, contents, IDX_SHAPES)


def cifar_sample(seed: int = 0) -> Sample:
    generator = torch.Generator().manual_seed(seed)
    contents = {}
    for member in SETS["cifar-10"].members:
        records = torch.randint(256, CIFAR_SHAPE, generator=generator)
        records[:, 0] %= 10
        contents[member.name] = bytes(records.flatten().tolist())
    return _sample("cifar-10", contents, dict.fromkeys(contents, CIFAR_SHAPE))


def offered_by(sample: Sample, archives: Mapping[str, bytes], urls: Callable[[str], tuple[str, ...]]) -> Sample:
    """The same set with downloads: members alone as .gz, or the archives given."""
    members = []
    for member in sample.dataset.members:
        name = member.packed.name
        body = archives[name] if name in archives else gzip.compress(sample.contents[member.name], mtime=0)
        members.append(replace(member, packed=Packed(name, len(body), sha256(body), urls(name))))
    return Sample(replace(sample.dataset, members=tuple(members)), sample.contents)


def tar_bytes(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _sample(name: str, contents: dict[str, bytes], shapes: Mapping[str, tuple[int, ...]]) -> Sample:
    members = tuple(
        replace(
            member,
            shape=shapes[member.name],
            size=len(contents[member.name]),
            sha256=sha256(contents[member.name]),
            packed=replace(member.packed, urls=()),
        )
        for member in SETS[name].members
    )
    assert all(math.prod(member.shape) <= member.size for member in members)
    return Sample(replace(SETS[name], members=members), contents)
