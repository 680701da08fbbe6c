"""What the server takes, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one request, and all together, may take."""

    body: int = 10 * 2**20  # bytes of an image
    row: int = 2**20  # bytes of anything else: each of many wrong names or numbers would take a kilobyte to refuse
    together: int = 16  # images asked about at once
    waiting: int = 64  # questions that wait
    fits: int = 4  # regressions that are fitted or wait
    seconds: float = 10.0  # for a body to come, and for an answer
