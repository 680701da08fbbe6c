"""Images made small without loss, in files that can be carried to a machine one by one.

A pixel is predicted from its neighbours, and only the error is kept, modulo 256: first red and blue less green, then
the difference of differences, along the rows and down the columns. Errors are small numbers, which bzip2 packs into
0.58 of the bytes (CIFAR-10). Sums over both axes give the pixels back, exactly.

The files are .npz as numpy's, but packed by bzip2; `numpy.load` reads them.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_CODED = "coded "  # before the name of an array that holds errors of prediction


def coded(images: Array) -> Array:
    """Errors of prediction, uint8 (N, C, H, W) as the images."""
    errors = images.copy()
    if images.shape[1] == 3:
        errors[:, ::2] -= images[:, 1:2]
    for axis in (-1, -2):
        errors = np.diff(errors, axis=axis, prepend=np.uint8(0))
    return errors


def decoded(errors: Array) -> Array:
    """The images again."""
    images: Array = errors
    for axis in (-2, -1):
        images = np.cumsum(images, axis=axis, dtype=np.uint8)
    if images.shape[1] == 3:
        images[:, ::2] += images[:, 1:2]
    return images


def pack_arrays(arrays: Mapping[str, Array], name: str, folder: Path, parts: int) -> list[Path]:
    """Write name-1-of-3.npz and so on; each part has its share of the rows of every array."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for part in range(parts):
        paths.append(folder / f"{name}-{part + 1}-of-{parts}.npz")
        with zipfile.ZipFile(paths[-1], "w", zipfile.ZIP_BZIP2) as file:
            for key, array in arrays.items():
                _write(file, key, np.array_split(array, parts)[part])
    return paths


def _write(file: zipfile.ZipFile, key: str, rows: Array) -> None:
    if rows.dtype == np.uint8 and rows.ndim == 4:
        key, rows = _CODED + key, coded(rows)
    with file.open(f"{key}.npy", "w", force_zip64=True) as stream:
        np.lib.format.write_array(stream, rows, allow_pickle=False)


def unpack_arrays(name: str, folder: Path) -> dict[str, Array]:
    """All arrays from all parts; an error that names those that are missing."""
    paths = _parts(name, folder)
    with ThreadPoolExecutor(len(paths)) as pool:  # bzip2 takes seconds a part, and lets other threads work
        pieces = list(pool.map(_read, paths))
    return {key: np.concatenate([piece[key] for piece in pieces]) for key in pieces[0]}


def _read(path: Path) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as file:
        held = {key: file[key] for key in file.files}
    return {key.removeprefix(_CODED): decoded(rows) if key.startswith(_CODED) else rows for key, rows in held.items()}


def _parts(name: str, folder: Path) -> list[Path]:
    """The files of all parts, in order."""
    counts = {int(found[1]) for path in folder.glob(f"{name}-*.npz") if (found := re.search(r"-of-(\d+)$", path.stem))}
    if len(counts) != 1:
        sizes = " and ".join(map(str, sorted(counts)))
        problem = f"parts of {sizes}: remove those of one" if counts else "no part"
        raise FileNotFoundError(f"{folder} holds {problem} of {name}-1-of-….npz; `pack` writes them")
    (count,) = counts
    paths = [folder / f"{name}-{part + 1}-of-{count}.npz" for part in range(count)]
    if missing := [path.name for path in paths if not path.is_file()]:
        raise FileNotFoundError(f"{folder} does not hold {', '.join(missing)}; carry all parts there")
    return paths
