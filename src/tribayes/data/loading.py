"""A data set by its name: where its files may lie, and what to say when they are not to be had."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from tribayes._errors import refusal
from tribayes._files import path_of
from tribayes.data.catalogue import SETS, DataSet, Member
from tribayes.data.download import DownloadError, fetch
from tribayes.data.reading import Split, read

NAMES = (*SETS, "digits")
"""What `load` knows: the names of the data sets."""

_VARIABLE = "TRIBAYES_DATA"
_SUFFIXES = ("", ".gz", ".xz")
_TEST_EVERY = 5  # every fifth of the digits is a test image: 1,437 to train on, 360 to test


def load(
    name: str, data_dir: str | os.PathLike[str] | None = None, download: bool = True, progress: bool = True
) -> Split:
    """A data set as tensors: "mnist", "fashion-mnist", "cifar-10" or "digits".

    Files are searched in `data_dir`, in $TRIBAYES_DATA and in the user's cache; what is missing is downloaded into the
    cache. Every file is checked against the sha256 of the original's content, however it was packed. Pickles are not
    read: CIFAR-10 must be the binary version.

    Images are uint8 (N, C, H, W). "digits" is `load_digits()`: floats in [0, 1], from scikit-learn, without a search.

    Example:
        >>> data = load("digits")
        >>> data.train_images.shape, data.test_images.shape
        (torch.Size([1437, 1, 8, 8]), torch.Size([360, 1, 8, 8]))
    """
    _check_name(name)
    if name == "digits":
        return load_digits()
    dataset, places = SETS[name], _search_places(data_dir)
    found = locate(dataset, places)
    if len(found) < len(dataset.members):
        failures = ["Nothing was downloaded: download=False."]
        if download:
            failures = _download(dataset, found, places, progress)
        found = locate(dataset, places)
        if len(found) < len(dataset.members):
            raise _missing_data(dataset, found, places, failures)
    return read(dataset, found, progress)


def load_digits() -> Split:
    """scikit-learn's handwritten digits, 1,797 real images of 8×8 pixels; in file order, every fifth image tests.

    Images are float32 in [0, 1]: the pixels are counts from 0 to 16, which 255 grey values do not hold exactly.

    Example:
        >>> digits = load_digits()
        >>> digits.train_images.shape, digits.test_labels.shape
        (torch.Size([1437, 1, 8, 8]), torch.Size([360]))
    """
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError(
            "the handwritten digits are inside scikit-learn, which is not installed; "
            "install it with: pip install 'tribayes[demo]'"
        ) from error
    bunch = datasets.load_digits()
    images = torch.tensor(bunch.images, dtype=torch.float32, device="cpu").unsqueeze(1) / 16
    labels = torch.tensor(bunch.target, device="cpu")
    test = torch.arange(len(labels), device="cpu") % _TEST_EVERY == 0
    return Split(images[~test], labels[~test], images[test], labels[test])


def class_names(name: str) -> tuple[str, ...]:
    """What the labels 0, 1, … of a data set mean.

    >>> class_names("cifar-10")[:3]
    ('airplane', 'automobile', 'bird')
    """
    _check_name(name)
    return SETS["mnist" if name == "digits" else name].classes


def _check_name(name: str) -> None:
    if name not in NAMES:
        raise refusal("name", name, f"be one of {', '.join(NAMES)}", "give one of these names")


def _search_places(data_dir: str | os.PathLike[str] | None) -> list[Path]:
    """The folders to search, in order: `data_dir`, $TRIBAYES_DATA, the user's cache. Downloads go to the last."""
    places = []
    for argument, folder in (("data_dir", data_dir), (f"${_VARIABLE}", os.environ.get(_VARIABLE))):
        if folder:
            places.append(path_of(argument, folder, folder=True))
            if not places[-1].is_dir():
                raise refusal(argument, str(folder), "be an existing folder", "make it, or correct the name")
    return [*places, cache_folder()]


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/tribayes, or ~/.cache/tribayes."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(folder):
        return Path(folder) / "tribayes"
    try:
        return Path.home() / ".cache" / "tribayes"
    except RuntimeError:  # a user without a home, as in some containers
        return Path(tempfile.gettempdir()) / "tribayes"


def locate(dataset: DataSet, places: Sequence[Path]) -> dict[Member, Path]:
    """The first file for each member, alone or in an archive; a member without one is left out."""
    found = {}
    for member in dataset.members:
        names = [member.name + suffix for suffix in _SUFFIXES] + ([dataset.archive] if dataset.archive else [])
        if path := next(filter(Path.is_file, _paths(dataset, names, places)), None):
            found[member] = path
    return found


def _paths(dataset: DataSet, names: Sequence[str], places: Sequence[Path]) -> Iterator[Path]:
    """Where files of these names may lie, what comes first in the search first."""
    return (place / folder / name for place in places for folder in dataset.folders for name in names)


def _download(dataset: DataSet, found: dict[Member, Path], places: Sequence[Path], progress: bool) -> list[str]:
    """Bring the missing files into the cache. Returns what went wrong; after one failure the rest is not tried."""
    folder = places[-1] / dataset.name
    for packed in dict.fromkeys(member.packed for member in dataset.members if member not in found):
        try:
            fetch(packed, folder, progress)
        except DownloadError as error:
            return [f"Downloading {packed.name} failed:", *(f"  {line}" for line in str(error).splitlines())]
        except OSError as error:
            return [f"Nothing could be written to {folder}: {error.strerror}."]
    return []


def _missing_data(
    dataset: DataSet, found: dict[Member, Path], places: Sequence[Path], failures: Sequence[str]
) -> FileNotFoundError:
    """The error for a data set that is neither here nor to be had: what is missing, why, what to put where."""
    missing = [member for member in dataset.members if member not in found]
    folders = ", ".join(folder for folder in dataset.folders if folder)
    pickles = _paths(dataset, [name + suffix for name in dataset.pickled for suffix in _SUFFIXES], places)
    remedy = f"get {dataset.archive} instead, or let it be downloaded (download=True)"
    lines = [
        f"{dataset.name} is not complete: no {', '.join(member.name for member in missing)} (plain, .gz or .xz) in",
        *(f"  {place} (nor beneath it in {folders})" for place in places),
        *(f"{path} is pickled, and nothing pickled is read; {remedy}." for path in pickles if path.exists()),
        *failures,
        f"Put into {places[0] / dataset.name}:",
    ]
    for packed in dict.fromkeys(member.packed for member in missing):
        mirrors = " or ".join(packed.urls)
        lines.append(f"  {packed.name} ({packed.size:,} bytes, sha256 {packed.sha256}), from {mirrors}")
    return FileNotFoundError("\n".join(lines))
