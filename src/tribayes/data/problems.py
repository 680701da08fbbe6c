"""What to say when data cannot be used: which file, what is wrong with it, what to put where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tribayes.data.catalogue import DataSet, Member


def bad_file(source: str, problem: str) -> ValueError:
    """The error for a file that must not be used.

    >>> raise bad_file("data/mnist/t10k-labels-idx1-ubyte", "is truncated: it holds 100 of 10,008 bytes")
    Traceback (most recent call last):
    ValueError: data/mnist/t10k-labels-idx1-ubyte is truncated: it holds 100 of 10,008 bytes; replace it, or remove \
it so that another copy is found or downloaded.
    """
    return ValueError(f"{source} {problem}; replace it, or remove it so that another copy is found or downloaded.")


def check_size(source: str, held: int, expected: int) -> None:
    """Refuse a file by its length. Of one that is too long, no more than a byte too much was read."""
    if held < expected:
        raise bad_file(source, f"is truncated: it holds {held:,} of {expected:,} bytes")
    if held > expected:
        raise bad_file(source, f"is too long: it holds more than {expected:,} bytes")


def missing_data(
    dataset: DataSet, missing: Sequence[Member], places: Sequence[Path], failures: Sequence[str]
) -> FileNotFoundError:
    """The error for a data set that is neither here nor to be had: what is missing, why, what to put where."""
    wanted = {member.packed.name: member.packed for member in missing}
    folders = ", ".join(folder for folder in dataset.folders if folder)
    lines = [
        f"{dataset.name} is not complete: no {', '.join(member.name for member in missing)} (plain, .gz or .xz) in",
        *(f"  {place} (nor beneath it in {folders})" for place in places),
        *failures,
        f"Put into {places[0] / dataset.name}:",
        *(
            f"  {packed.name} ({packed.size:,} bytes, sha256 {packed.sha256}), from {' or '.join(packed.urls)}"
            for packed in wanted.values()
        ),
    ]
    return FileNotFoundError("\n".join(lines))
