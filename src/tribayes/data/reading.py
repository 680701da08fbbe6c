"""From files to tensors: unpack, parse, compare with the catalogue, put together."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from tribayes._progress import progress_bar
from tribayes.data import catalogue, cifar, cifar_pickle, idx
from tribayes.data.catalogue import DataSet, Member
from tribayes.data.problems import bad_file
from tribayes.data.split import Split
from tribayes.data.unpack import unpack, unpack_archive


class _Layout(NamedTuple):
    read: Callable[[bytearray, Member, str, int], Tensor]
    split: Callable[[Sequence[Tensor]], Split]


_LAYOUTS = {"idx": _Layout(idx.read, idx.split), "cifar": _Layout(cifar.read, cifar.split)}


def read(dataset: DataSet, found: Mapping[Member, Path], progress: bool) -> Split:
    """The data set from the file found for each of its members."""
    by_path: dict[Path, list[Member]] = {}
    for member in dataset.members:
        by_path.setdefault(found[member], []).append(member)
    tensors: dict[Member, Tensor] = {}
    # unpacking xz takes seconds per file and happens outside Python, so threads help
    with (
        ThreadPoolExecutor(os.cpu_count()) as pool,
        progress_bar(f"reading {dataset.name}", len(dataset.members), progress) as advance,
    ):
        for held in pool.map(lambda job: _from_file(dataset, *job), by_path.items()):
            tensors |= held
            advance(len(held))
    return _LAYOUTS[dataset.layout].split([tensors[member] for member in dataset.members])


def _from_file(dataset: DataSet, path: Path, members: Sequence[Member]) -> dict[Member, Tensor]:
    if path.name in dataset.archives:
        return _from_archive(dataset, path, members)
    (member,) = members
    name = path.name.removesuffix(".gz").removesuffix(".xz")
    data = unpack(path, _limit(member, name))
    return {member: _checked(dataset, member, name, data, str(path))}


def _from_archive(dataset: DataSet, path: Path, members: Sequence[Member]) -> dict[Member, Tensor]:
    held = unpack_archive(path, {name: _limit(member, name) for member in members for name in member.names})
    tensors = {}
    for member in members:
        name = next((name for name in member.names if name in held), None)
        if name is None:
            raise bad_file(str(path), f"holds no {' and no '.join(member.names)}")
        tensors[member] = _checked(dataset, member, name, held[name], f"{path} ({name})")
    return tensors


def _checked(dataset: DataSet, member: Member, name: str, data: bytearray, source: str) -> Tensor:
    """Parse first, for its errors say more; then all bytes must be the right ones."""
    if name == member.pickled:
        data = cifar_pickle.to_binary(data, member.shape, source)
    tensor = _LAYOUTS[dataset.layout].read(data, member, source, len(dataset.classes))
    digest = hashlib.sha256(data).hexdigest()
    if digest != member.sha256:
        owner = _owner(digest)
        other = f"; it is {owner}'s" if owner else ""
        raise bad_file(source, f"is corrupt: the sha256 of its content is {digest}, not {member.sha256}{other}")
    return tensor


def _limit(member: Member, name: str) -> int:
    # a pickle holds file names too: a thirtieth of the pixels in the official ones
    return 2 * member.size + 65_536 if name == member.pickled else member.size


def _owner(digest: str) -> str | None:
    """The data set to which content belongs: MNIST and Fashion-MNIST have the same file names."""
    owners = (known.name for known in catalogue.SETS.values() for member in known.members if member.sha256 == digest)
    return next(owners, None)
