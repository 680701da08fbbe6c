"""A data set by its name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tribayes._errors import refusal
from tribayes.data import digits
from tribayes.data.catalogue import SETS, DataSet, Member
from tribayes.data.download import DownloadError, fetch
from tribayes.data.places import locate, search_places
from tribayes.data.problems import missing_data
from tribayes.data.reading import read
from tribayes.data.split import Split

NAMES = (*SETS, "digits")


def load(
    name: str, data_dir: str | os.PathLike[str] | None = None, download: bool = True, progress: bool = True
) -> Split:
    """A data set as tensors: "mnist", "fashion-mnist", "cifar-10" or "digits".

    Files are searched in `data_dir`, in $TRIBAYES_DATA and in the user's cache; what is missing is downloaded into the
    cache. Every file is checked against the sha256 of the original's content, however it was packed.

    Images are uint8 (N, C, H, W). "digits" is `load_digits()`: floats in [0, 1], from scikit-learn, without a search.

    Example:
        >>> data = load("digits")
        >>> data.train_images.shape, data.test_images.shape
        (torch.Size([1437, 1, 8, 8]), torch.Size([360, 1, 8, 8]))
    """
    _check_name(name)
    if name == "digits":
        return digits.load_digits()
    dataset, places = SETS[name], search_places(data_dir)
    missing = _missing(dataset, places)
    if missing:
        refused = ["Nothing was downloaded: download=False."]
        failures = _download(dataset, missing, places, progress) if download else refused
        if missing := _missing(dataset, places):
            raise missing_data(dataset, missing, places, failures)
    return read(dataset, locate(dataset, places), progress)


def class_names(name: str) -> tuple[str, ...]:
    """What the labels 0, 1, … of a data set mean.

    >>> class_names("cifar-10")[:3]
    ('airplane', 'automobile', 'bird')
    """
    _check_name(name)
    return digits.CLASSES if name == "digits" else SETS[name].classes


def _check_name(name: str) -> None:
    if name not in NAMES:
        raise refusal("name", name, f"be one of {', '.join(NAMES)}", "give one of these names")


def _missing(dataset: DataSet, places: Sequence[Path]) -> list[Member]:
    found = locate(dataset, places)
    return [member for member in dataset.members if member not in found]


def _download(dataset: DataSet, missing: Sequence[Member], places: Sequence[Path], progress: bool) -> list[str]:
    """Bring the missing files into the cache. Returns what went wrong; after one failure the rest is not tried."""
    folder = places[-1] / dataset.name
    for packed in dict.fromkeys(member.packed for member in missing):
        try:
            fetch(packed, folder, progress)
        except DownloadError as error:
            return [f"Downloading {packed.name} failed:", *(f"  {failure}" for failure in error.failures)]
        except OSError as error:
            return [f"Nothing could be written to {folder}: {error.strerror}."]
    return []
