"""Where randomness enters: torch's own generator, a given one, or a stream by its place in a tree of seeds.

A stream is named by whole numbers of any size, such as (seed, sample, module). Its name is hashed, and the whole state
of a generator is filled from the hash: torch's `manual_seed` keeps 32 bits of a seed on a CPU, so that of a few
thousand seeds two would draw the same numbers.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Tensor

from tribayes._errors import check_whole, wrong_type
from tribayes.posterior.counter import CountedNormals

_WORDS = 624  # 32-bit words of a Mersenne twister
_STATE_BYTES = 5056  # of torch's CPU generator: a head, the words in 64 bits each, and what is left of a normal pair
_HEAD = struct.pack("<QiiQ", 0, 1, 1, 0)  # seed (unused), words left before the next twist, seeded, next word


@dataclass(frozen=True)
class Stream:
    """A stream of random numbers: distinct names, unrelated streams, on every device.

    Example:
        >>> one = Stream((0,)).child(3, 1)  # seed 0, sample 3, module 1
        >>> one.generator(torch.device("cpu")) is not None
        True
        >>> one.number == Stream((0, 3, 1)).number
        True
    """

    path: tuple[int | str, ...]

    def child(self, *path: int | str) -> Stream:
        """The stream further down the tree."""
        return Stream((*self.path, *path))

    def generator(self, device: torch.device) -> torch.Generator:
        """A generator at the beginning of the stream."""
        if device.type != "cpu":  # counter-based there, with a key of 64 bits
            return torch.Generator(device).manual_seed(self.number)
        generator = torch.Generator()
        state = generator.get_state()
        if len(state) != _STATE_BYTES:
            raise RuntimeError(f"torch {torch.__version__} keeps its CPU generator in another form than tribayes knows")
        words = torch.frombuffer(bytearray(self._digest(4 * _WORDS)), dtype=torch.uint32)
        state[: len(_HEAD)] = torch.frombuffer(bytearray(_HEAD), dtype=torch.uint8)
        state[len(_HEAD) : len(_HEAD) + 8 * _WORDS] = words.to(torch.int64).view(torch.uint8)
        return generator.set_state(state)

    @property
    def number(self) -> int:
        """63 bits for a generator that counts: the kernels of a GPU take one for each draw."""
        return int.from_bytes(self._digest(8), "big") >> 1

    def _digest(self, size: int) -> bytes:
        return hashlib.shake_256("/".join(map(str, self.path)).encode()).digest(size)


Randomness = torch.Generator | Stream | int | None
Seeds = Randomness | Tensor  # for the kernels of a GPU also their seeds themselves


def checked(randomness: Randomness) -> torch.Generator | Stream | None:
    """Randomness with a seed as its stream; an error for anything else."""
    if randomness is None or isinstance(randomness, torch.Generator | Stream):
        return randomness
    remedy = "pass e.g. generator=0 or generator=torch.Generator(device).manual_seed(0)"
    if isinstance(randomness, bool) or not isinstance(randomness, Integral):
        raise wrong_type("generator", randomness, "be a torch.Generator, an integer seed or None", remedy)
    return Stream((check_whole("generator", randomness, remedy),))


def without_seeds(randomness: Seeds) -> Randomness:
    """Randomness as it is; a tensor of seeds is refused where no kernel draws that reads them."""
    if isinstance(randomness, Tensor):
        remedy = "a tensor of seeds is read by the kernels of a GPU alone"
        raise wrong_type("generator", randomness, "be a torch.Generator, an integer seed or None", remedy)
    return randomness


def generator_of(randomness: Randomness, device: torch.device) -> torch.Generator | None:
    """A generator on `device` for a seed or a stream; a generator as it is; None for torch's global one."""
    source = checked(randomness)
    return source.generator(device) if isinstance(source, Stream) else source


def standard_normals(shape: torch.Size | int, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Independent N(0, 1) of the given shape on the device of `like`, in its dtype but at least float32."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    return torch.randn(shape, dtype=dtype, device=like.device, generator=generator)


def normals_from(randomness: Randomness | CountedNormals, shape: torch.Size, like: Tensor) -> Tensor:
    """The same from any source that a law takes."""
    if isinstance(randomness, CountedNormals):
        return randomness.normals(shape, like)
    return standard_normals(shape, like, generator_of(randomness, like.device))
