"""From files to tensors: unpack, never more than is asked for; parse; compare with the catalogue; put together."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import math
import os
import struct
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tribayes._progress import progress_bar
from tribayes.data.catalogue import SETS, DataSet, Member

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
_IDX_TYPES = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}
_MOST_ENTRIES = 100  # of an archive: its members, and a few files, folders and extended headers
_BESIDE = 2**20  # bytes that an archive may hold beside its members


class Split(NamedTuple):
    """Images (N, C, H, W) and labels (N,), int64, for training and for testing.

    Images are uint8 from 0 to 255; those of the embedded digits are floats in [0, 1].

    Example:
        >>> images, labels = torch.zeros(8, 1, 8, 8), torch.zeros(8, dtype=torch.int64)
        >>> Split(images[:6], labels[:6], images[6:], labels[6:]).to("cpu").test_images.shape
        torch.Size([2, 1, 8, 8])
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor

    def to(self, device: torch.device | str) -> Split:
        """The same on a device, all of it at once: CIFAR-10, the largest, is 184 MB."""
        return Split(*(tensor.to(device) for tensor in self))


def bad_file(source: str, problem: str) -> ValueError:
    """The error for a file that must not be used."""
    return ValueError(f"{source} {problem}; replace it, or remove it so that another copy is found or downloaded.")


def read(dataset: DataSet, found: Mapping[Member, Path], progress: bool) -> Split:
    """The data set from the file found for each of its members."""
    by_path = {path: [member for member in dataset.members if found[member] == path] for path in found.values()}
    tensors: dict[Member, Tensor] = {}
    # unpacking xz takes seconds per file and happens outside Python, so threads help
    with (
        ThreadPoolExecutor(os.cpu_count()) as pool,
        progress_bar(f"reading {dataset.name}", len(dataset.members), progress) as advance,
    ):
        for held in pool.map(lambda job: _from_file(dataset, *job), by_path.items()):
            tensors |= held
            advance(len(held))
    parts = [tensors[member] for member in dataset.members]
    if dataset.layout == "idx":  # images (N, H, W) and labels, training before test
        train_images, train_labels, test_images, test_labels = parts
        return Split(train_images.unsqueeze(1), train_labels.long(), test_images.unsqueeze(1), test_labels.long())
    halves = torch.cat(parts[:-1]), parts[-1]  # the last file tests
    train, test = ((half[:, 1:].contiguous().view(-1, 3, 32, 32), half[:, 0].long()) for half in halves)
    return Split(*train, *test)


def _from_file(dataset: DataSet, path: Path, members: Sequence[Member]) -> dict[Member, Tensor]:
    try:
        if path.name == dataset.archive:
            held = _unpack_archive(dataset, path, {member.name: member for member in members})
            return {member: _checked(dataset, member, data, f"{path} ({member.name})") for member, data in held.items()}
        (member,) = members
        with _OPENERS.get(path.suffix, open)(path, "rb") as file:
            data = bytearray(file.read(member.size + 1))  # one byte more, to see that it is too long
        return {member: _checked(dataset, member, data, str(path))}
    except EOFError as error:
        raise bad_file(str(path), "is truncated: its packed data end too early") from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, tarfile.TarError) as error:
        raise bad_file(str(path), f"is corrupt: it cannot be unpacked ({error})") from error


def _unpack_archive(dataset: DataSet, path: Path, wanted: Mapping[str, Member]) -> dict[Member, bytearray]:
    """Those files of a tar.gz, whatever folder they are in. Nothing is written to disk.

    Headers are read one block at a time, and long ones skipped: `tarfile` itself would take in one of any length.
    """
    held: dict[Member, bytearray] = {}
    block = tarfile.BLOCKSIZE
    room = sum(member.size for member in dataset.members) + _BESIDE
    with gzip.open(path) as stream:
        for _ in range(_MOST_ENTRIES):
            header = stream.read(block)
            if not header.strip(b"\0"):  # the end of the archive
                break
            entry = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            after = stream.tell() + math.ceil(entry.size / block) * block
            if entry.size < 0 or after > room:
                raise bad_file(str(path), f"holds more than the {room:,} bytes that its members take")
            member = wanted.get(PurePosixPath(entry.name).name)
            if member is not None and entry.isreg():
                _check_size(f"{path} ({member.name})", entry.size, member.size)
                held[member] = bytearray(stream.read(entry.size))
            stream.seek(after)
    if missing := [name for name, member in wanted.items() if member not in held]:
        raise bad_file(str(path), f"holds no {', '.join(missing)}")
    return held


def _checked(dataset: DataSet, member: Member, data: bytearray, source: str) -> Tensor:
    """Parse first, for its errors say more; then all bytes must be the right ones. Shares the memory of `data`."""
    if dataset.layout == "idx":
        _check_idx_header(data, member.shape, source)
    _check_size(source, len(data), member.size)
    values = torch.frombuffer(data, dtype=torch.uint8, offset=member.size - math.prod(member.shape)).view(member.shape)
    labels = values[:, 0] if dataset.layout == "cifar" else values
    if labels.ndim == 1 and (largest := int(labels.max())) >= len(dataset.classes):
        highest = len(dataset.classes) - 1
        raise bad_file(source, f"holds a label of {largest}, while labels go from 0 to {highest}")
    digest = hashlib.sha256(data).hexdigest()
    if digest != member.sha256:
        # MNIST and Fashion-MNIST have the same file names
        owners = [known.name for known in SETS.values() for m in known.members if m.sha256 == digest]
        other = f"; it is {owners[0]}'s" if owners else ""
        raise bad_file(source, f"is corrupt: the sha256 of its content is {digest}, not {member.sha256}{other}")
    return values


def _check_size(source: str, held: int, expected: int) -> None:
    """Refuse a file by its length. Of one that is too long, no more than a byte too much was read."""
    if held < expected:
        raise bad_file(source, f"is truncated: it holds {held:,} of {expected:,} bytes")
    if held > expected:
        raise bad_file(source, f"is too long: it holds more than {expected:,} bytes")


def _check_idx_header(data: bytearray, expected: tuple[int, ...], source: str) -> None:
    """An IDX file has two zero bytes, type, number of axes, their lengths (big-endian), then the values."""
    cut = bad_file(source, f"is truncated: it ends within the header, after {len(data)} bytes")
    if len(data) < 4:
        raise cut
    zero, kind, axes = struct.unpack_from(">HBB", data)
    if zero or kind not in _IDX_TYPES:
        raise bad_file(source, f"is not an IDX file: it begins with the bytes {data[:4].hex(' ')}")
    if kind != 0x08:
        raise bad_file(source, f"has the wrong type: its header says {_IDX_TYPES[kind]}, not uint8")
    if len(data) < 4 + 4 * axes:
        raise cut
    shape = struct.unpack_from(f">{axes}I", data, 4)
    if shape != expected:
        raise bad_file(source, f"has the wrong shape: its header says {shape}, not {expected}")
