"""Where draws come from, as words of 32 bits and as normals, in every order in which they are used.

The kernels' integers are those of `tribayes.posterior.counter.philox`, bit by bit (tests/gpu/test_philox.py,
tests/interpreted/), so that their generator is put to the test without a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from tests.statistics.bits import Words
from tribayes.posterior import Stream
from tribayes.posterior.counter import CountedNormals, philox
from tribayes.posterior.draw import cuda, draw
from tribayes.posterior.parametrisation import delta_of

CPU = torch.device("cpu")
_PIECE = 2**20  # counters at once


# words


def counted(seeds: Tensor, counters: Tensor) -> Words:
    """Both words of every pair of a seed and a counter, in turns."""
    pieces = []
    for start in range(0, max(len(seeds), len(counters)), _PIECE):
        part = slice(start, start + _PIECE)
        some = (values[part] if len(values) > 1 else values for values in (seeds, counters))
        left, right = torch.broadcast_tensors(*philox(*some))
        pieces.append(torch.stack([left, right], dim=1).flatten().to(torch.int64).numpy().astype(np.uint32))
    return np.concatenate(pieces)


def one(value: int) -> Tensor:
    return torch.tensor([value])


def along_counters(count: int) -> Words:
    """One draw of a large tensor."""
    return counted(one(Stream((0,)).number % 2**62), torch.arange(2, 2 + count // 2))


def along_spread_counters(count: int) -> Words:
    """Every 128th counter of as many: only high bits of most of them differ."""
    return counted(one(Stream((1,)).number % 2**62), torch.arange(count // 2) * (2**32 // (count // 2)))


def along_keys(count: int) -> Words:
    """The same counter under keys that follow each other."""
    return counted(torch.arange(count // 2), one(2))


def along_upper_seeds(count: int) -> Words:
    """The same counter and key, where only the upper half of the seed goes on."""
    return counted(torch.arange(count // 2) << 32, one(2))


def along_samples(count: int) -> Words:
    """The first words of the draws of one seed, sample after sample, as `predict` names them."""
    numbers = [cuda.seed_number(Stream((0, sample, 0))) for sample in range(count // 2)]
    return counted(torch.tensor(numbers), one(2))


def of_a_cpu(count: int) -> Words:
    """One stream of a CPU."""
    source = Stream((0,)).generator(CPU)
    return torch.randint(2**32, (count,), dtype=torch.int64, generator=source).numpy().astype(np.uint32)


def of_a_cpus_samples(count: int) -> Words:
    """The first 64 words of the streams of one seed, sample after sample."""
    return np.concatenate([_first_words(Stream((0, sample, 0))) for sample in range(count // 64)])


def _first_words(stream: Stream) -> Words:
    return torch.randint(2**32, (64,), dtype=torch.int64, generator=stream.generator(CPU)).numpy().astype(np.uint32)


WORDS: dict[str, Callable[[int], Words]] = {
    "kernels' Philox, counter by counter": along_counters,
    "the same, counters far apart": along_spread_counters,
    "the same, key by key": along_keys,
    "the same, upper half of the seed by one": along_upper_seeds,
    "the same, sample by sample": along_samples,
    "CPU, one stream": of_a_cpu,
    "CPU, sample by sample": of_a_cpus_samples,
}  # fmt: skip


# normals


def drawn_by(implementation: str) -> Callable[[int], Tensor]:
    """The normals of one draw of a large tensor: with m = 1, τ = 1 and ρ = 0 a weight is 1 + x_i."""

    def normals(count: int) -> Tensor:
        means, delta = [torch.ones(count, dtype=torch.float64)], delta_of(torch.ones(1, dtype=torch.float64))
        (weights,), _ = draw(means, delta, torch.zeros_like(delta), 0, implementation=implementation)
        return weights - 1

    return normals


def first_of_draws(count: int) -> Tensor:
    """The first weights of a layer, 16 of each of many networks."""
    means, delta = [torch.ones(16, dtype=torch.float64)], delta_of(torch.ones(1, dtype=torch.float64))
    rows = [draw(means, delta, torch.zeros_like(delta), Stream((0, sample, 0)))[0][0] for sample in range(count // 16)]
    return torch.cat(rows) - 1


def kernels_normals(count: int) -> Tensor:
    """What the kernels make of their words, in float32 (Box and Muller), in their order."""
    return paired(along_counters(count))


def kernels_first(count: int) -> Tensor:
    """The first two normals of each draw, sample by sample."""
    return paired(along_samples(count))


def paired(words: Words) -> Tensor:
    """x and y of every two words."""
    left, right = (torch.from_numpy(words[place::2].astype(np.int64)).float() * 2**-32 for place in (0, 1))
    radius, angle = (-2 * (left + 2**-33).log()).sqrt(), 2 * math.pi * (right - 0.5)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1).flatten().double()


def exported(count: int) -> Tensor:
    """What an exported ensemble draws."""
    return CountedNormals(torch.tensor(0)).normals(torch.Size((count,)), torch.zeros(1)).double()


_SCALE = 2.0**20  # a τ beside which m = 1 takes no digits of a normal; softplus(δ) = δ here


def by_triton(seeds: Tensor, weights: int) -> Tensor:
    """(seeds, weights): normals as the kernels make them on a GPU, a draw for each seed."""
    device = torch.device("cuda")
    delta = torch.full((1,), _SCALE, device=device)
    mean = torch.ones(weights, device=device)
    (drawn,), _ = cuda.draw([mean], delta, torch.zeros_like(delta), seeds.to(device), len(seeds))
    return (drawn.double().cpu() - 1) / _SCALE


def triton_large(count: int) -> Tensor:
    """One draw of a large tensor."""
    return by_triton(one(cuda.seed_number(Stream((0,)))), count).flatten()


def triton_first(count: int) -> Tensor:
    """The first weights of a layer, 16 of each of many networks."""
    numbers = [cuda.seed_number(Stream((0, sample, 0))) for sample in range(count // 16)]
    return by_triton(torch.tensor(numbers), 16).flatten()


TRITON: dict[str, Callable[[int], Tensor]] = {
    "Triton": triton_large,
    "Triton, sample by sample": triton_first,
}

NORMALS: dict[str, Callable[[int], Tensor]] = {
    "CPU": drawn_by("cpu"),
    "plain": drawn_by("plain"),
    "CPU, sample by sample": first_of_draws,
    "kernels' twin": kernels_normals,
    "kernels' twin, sample by sample": kernels_first,
    "exported networks": exported,
}


# streams beside each other

NEIGHBOURS = {
    "seeds": lambda number: Stream((number, 7, 7)),
    "samples": lambda number: Stream((7, number, 7)),
    "modules": lambda number: Stream((7, 7, number)),
    "processes": lambda number: Stream((7,)).child("rank", number),
    "draws": lambda number: Stream((7, 7, 7)).child("draw", number),
}


def beside(axis: str, device: str, streams: int, length: int) -> Tensor:
    """(streams, length) normals of streams that follow each other in one number."""
    names: Iterator[Stream] = map(NEIGHBOURS[axis], range(streams))
    if device == "cpu":
        rows = [torch.randn(length, generator=stream.generator(CPU)) for stream in names]
    else:
        counters = torch.arange(2, 2 + length // 2)
        rows = [paired(counted(one(cuda.seed_number(stream)), counters)) for stream in names]
    return torch.stack(rows).double()
