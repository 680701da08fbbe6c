"""What a trial counts, and the damage it does."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tribayes as tb

PACKAGE, TESTS = str(Path(tb.__file__).parent), str(Path(__file__).parent.parent)
KEPT = 5  # failures that are described


def is_refusal(error: Exception) -> bool:
    """Whether this is a `ValueError` that the package raised itself, or an error of the system."""
    if isinstance(error, OSError):
        return True
    where = traceback.extract_tb(error.__traceback__)[-1].filename
    return isinstance(error, ValueError) and where.startswith((PACKAGE, TESTS))


@dataclass
class Tally:
    """How often something was tried, and how often what is promised held."""

    tried: int = 0
    held: int = 0
    broken: list[str] = field(default_factory=list)  # the first few, in words

    def note(self, held: bool, what: str) -> None:
        self.tried += 1
        self.held += held
        if not held and len(self.broken) < KEPT:
            self.broken.append(what[:300])

    def attempt(self, run: Callable[[], object], what: str) -> None:
        """Held where it works or is refused in our own words; any other error is noted."""
        try:
            run()
        except Exception as error:
            own = isinstance(error, TypeError) and str(error).startswith("`")  # as our wrong_type words it
            self.note(own or is_refusal(error), f"{what}: {type(error).__name__}: {error}")
        else:
            self.note(True, what)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Trial:
    """A promise, and how it is put to the test: `run(count, rng, folder)` tries it so often."""

    promise: str
    count: int  # at scale 1
    run: Callable[[int, random.Random, Path], Tally]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The same with some bytes changed, cut out, put in, or with its end missing."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8])):
        place = rng.randrange(len(data) + 1) if rng.random() < 0.5 else rng.randrange(min(len(data), 64) + 1)
        kind = rng.randrange(4)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[place : place + rng.randrange(1, 9)]
        elif kind == 2:
            data[place:place] = rng.randbytes(rng.randrange(1, 9))
        elif rng.random() < 0.2:
            del data[place:]
    return bytes(data)
