"""Streams: any whole number is a seed of its own, no two share their numbers, and torch's generator is left alone.

Statistical tests state their failure rate: the probability that a correct generator fails for fresh seeds.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tribayes.posterior import Stream
from tribayes.posterior.draw import cuda
from tribayes.posterior.streams import checked, generator_of, standard_normals

CPU = torch.device("cpu")
SEEDS = [
    *range(-3, 4), 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, -(2**32), 2**63 - 1, 2**63, 2**64 - 1, 2**64,
    2**64 + 1, -(2**64), 10**40, 10**40 + 1, -(10**40),
]  # fmt: skip


def _normals(stream: Stream, size: int = 8) -> Tensor:
    return standard_normals(size, torch.zeros(()), stream.generator(CPU))


def _all_differ(rows: Tensor) -> bool:
    """Whether no two rows are equal, wherever in them they differ."""
    return len(torch.unique(rows, dim=0)) == len(rows)


# distinct


def test_no_two_of_a_hundred_thousand_streams_share_their_number() -> None:
    """Of 63 bits. Failure rate: 10^10 / 2 pairs · 2^-63 = 5e-10, and nothing here depends on a seed of ours."""
    triples = itertools.product(range(50), range(200), range(10))
    numbers = [Stream((seed,)).child(sample, module).number for seed, sample, module in triples]
    assert len(numbers) == 100_000
    assert len(set(numbers)) == len(numbers)
    assert min(numbers) >= 0
    assert max(numbers) < 2**63
    assert max(numbers) > 2**62  # all of them are used
    kept = {cuda.seed_number(Stream((seed,)).child(sample, 0)) for seed in range(50) for sample in range(200)}
    assert len(kept) == 10_000  # one bit fewer reaches the kernels
    assert max(kept) < 2**62


def test_no_two_of_a_hundred_thousand_streams_share_their_normals() -> None:
    """Three normals each, of at least 20 bits. Failure rate: 10^10 / 2 pairs · 2^-60 = 4e-9."""
    triples = itertools.product(range(50), range(200), range(10))
    rows = torch.stack([_normals(Stream((seed,)).child(*place), 3) for seed, *place in triples])
    assert len(rows) == 100_000
    assert _all_differ(rows)


def test_the_networks_of_a_prediction_all_differ() -> None:
    """Of seed 251, once the samples 57 and 134 were one network: 32 bits of their seeds were the same."""
    prediction = tb.predict(tb.to_bayesian(nn.Linear(3, 2)), torch.ones(1, 3), seed=251, progress=False)
    samples = prediction.samples.flatten(1)
    assert len(samples) == 200
    assert not torch.equal(samples[57], samples[134])
    assert _all_differ(samples)


def test_any_whole_number_is_a_seed_of_its_own() -> None:
    assert len({Stream((seed,)).number for seed in SEEDS}) == len(SEEDS)
    assert _all_differ(torch.stack([_normals(Stream((seed,))) for seed in SEEDS]))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_gives_the_same_numbers_every_time(seed: int) -> None:
    assert torch.equal(_normals(Stream((seed,))), _normals(Stream((seed,))))
    model = tb.to_bayesian(nn.Linear(3, 2), generator=0)
    one, other = (model.sample_weights(generator=seed)["weight"] for _ in range(2))
    assert torch.equal(one, other)
    alike = [s for s in SEEDS if torch.equal(model.sample_weights(generator=s)["weight"], one)]
    assert alike == [seed]


def test_a_path_is_more_than_its_digits() -> None:
    paths = [(1, 23), (12, 3), (123,), (1, 2, 3), (0, 1), (1, 0), (1,), (1, 0, 0), (-1, 1), (1, -1), ("draw", 1)]
    assert len({Stream(path).number for path in paths}) == len(paths)
    assert _all_differ(torch.stack([_normals(Stream(path)) for path in paths]))


def test_a_child_is_further_down_the_tree() -> None:
    assert Stream((3,)).child(1, 2) == Stream((3,)).child(1).child(2) == Stream((3, 1, 2))
    assert torch.equal(_normals(Stream((3,)).child(1)), _normals(Stream((3, 1))))
    assert not torch.equal(_normals(Stream((3,))), _normals(Stream((3,)).child(0)))


def test_the_whole_state_of_the_generator_comes_from_the_name() -> None:
    """Not only its first numbers: 624 words, and none left of a pair of normals drawn before."""
    words = [
        torch.randint(2**32, (624,), dtype=torch.int64, generator=Stream((seed,)).generator(CPU)) for seed in (0, 1)
    ]
    assert len(words[0].unique()) > 620
    assert (words[0] != words[1]).sum() > 620
    used = Stream((0,)).generator(CPU)
    torch.randn(3, generator=used)  # of a pair, one is left
    assert torch.equal(_normals(Stream((0,)), 1), _normals(Stream((0,)), 1))
    assert not torch.equal(used.get_state(), Stream((0,)).generator(CPU).get_state())


def test_a_generator_of_a_stream_can_be_stored_and_set_back() -> None:
    generator = Stream((4,)).generator(CPU)
    torch.randn(100, generator=generator)
    state = generator.get_state()
    expected = torch.randn(1000, generator=generator)
    other = torch.Generator()
    other.set_state(state)
    assert torch.equal(torch.randn(1000, generator=other), expected)


# random


def _neighbours(axis: int) -> Tensor:
    """(300, 1000) normals of streams that follow each other in one number of (seed, sample, module)."""
    rows = []
    for number in range(300):
        path = [7, 7, 7]
        path[axis] = number
        rows.append(_normals(Stream(tuple(path)), 1000).double())
    return torch.stack(rows)


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["seeds", "samples", "modules"])
def test_neighbouring_streams_are_uncorrelated(axis: int) -> None:
    """All 44,850 pairs of 1,000 normals within ±6.5 standard errors: failure rate 44,850 · 8e-11 = 4e-6."""
    rows = _neighbours(axis)
    products = rows @ rows.T / rows.shape[1] ** 0.5
    assert products.triu(1).abs().max() < 6.5


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["seeds", "samples", "modules"])
def test_the_first_numbers_of_neighbouring_streams_are_no_walk(axis: int) -> None:
    """The first normal of stream n beside that of n + lag, 290 pairs or more, within ±5.5 standard errors.

    Failure rate 1e-5 for four lags: a sum of 290 products has somewhat heavier tails than a normal (2e-7).
    """
    first = _neighbours(axis)[:, 0]
    for lag in (1, 2, 3, 10):
        product = first[lag:] * first[:-lag]
        assert abs(product.sum().item()) / len(product) ** 0.5 < 5.5


def _kolmogorov(values: Tensor) -> float:
    """√n sup |F_n − Φ|; beyond 2.7 with probability 2 exp(−2 · 2.7²) = 9e-7."""
    ordered = values.double().sort().values
    n = len(ordered)
    below = 0.5 * torch.erfc(-ordered / math.sqrt(2))
    steps = torch.arange(n + 1, dtype=torch.float64) / n
    return max((steps[1:] - below).max().item(), (below - steps[:-1]).max().item()) * math.sqrt(n)


@pytest.mark.parametrize("seed", [0, 2**64, -1])
def test_the_normals_of_a_stream_are_normal(seed: int) -> None:
    """Kolmogorov and Smirnov's test of a million: failure rate 9e-7 for each seed."""
    assert _kolmogorov(_normals(Stream((seed,)), 1_000_000)) < 2.7


def test_the_first_normals_of_many_streams_are_normal() -> None:
    """One normal of each of 20,000 streams: failure rate 9e-7."""
    assert _kolmogorov(torch.cat([_normals(Stream((seed,)), 1) for seed in range(20_000)])) < 2.7


def test_the_test_of_normality_sees_what_is_not_normal() -> None:
    values = _normals(Stream((0,)), 1_000_000)
    assert _kolmogorov(values + 0.01) > 2.7
    assert _kolmogorov(values * 1.02) > 2.7


# what is a source of randomness


def test_seeds_are_streams_and_generators_themselves() -> None:
    generator = torch.Generator()
    assert checked(5) == Stream((5,))
    assert checked(Stream((5, 1))) == Stream((5, 1))
    assert checked(generator) is generator
    assert checked(None) is None
    assert generator_of(generator, CPU) is generator
    assert generator_of(None, CPU) is None
    assert torch.equal(generator_of(5, CPU).get_state(), Stream((5,)).generator(CPU).get_state())


@pytest.mark.parametrize("source", [True, False, 1.0, "1", (1,), torch.tensor(1), object])
def test_anything_else_is_refused_in_words(source: object) -> None:
    text = (
        r"^`generator` \(=.*\) must be a torch\.Generator, an integer seed or None; "
        r"pass e\.g\. generator=0 or generator=torch\.Generator\(device\)\.manual_seed\(0\)\.$"
    )
    with pytest.raises(TypeError, match=text):
        generator_of(source, CPU)


@pytest.mark.parametrize("family", ["tridiagonal", "diagonal", "mean_field"])
def test_a_seed_leaves_torchs_generator_alone(family: str) -> None:
    model = tb.to_bayesian(nn.Linear(3, 2), family=family)
    state = torch.get_rng_state()
    model.sample_weights(3, generator=2**70)
    model.sample_weights_and_kl(generator=-1)
    tb.stabilise_(model, "paper", generator=5)
    tb.predict(model, torch.ones(1, 3), 5, seed=3, progress=False)
    assert torch.equal(torch.get_rng_state(), state)


def test_without_a_seed_torchs_generator_is_used() -> None:
    model = tb.to_bayesian(nn.Linear(3, 2))
    torch.manual_seed(8)
    one = model.sample_weights()["weight"]
    assert not torch.equal(model.sample_weights()["weight"], one)
    torch.manual_seed(8)
    assert torch.equal(model.sample_weights()["weight"], one)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_normals_are_at_least_in_single_precision(dtype: torch.dtype, expected: torch.dtype) -> None:
    assert standard_normals(4, torch.zeros((), dtype=dtype), None).dtype == expected


def test_a_generator_in_another_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tribayes.posterior.streams._STATE_BYTES", 16)
    with pytest.raises(RuntimeError, match=r"torch .* keeps its CPU generator in another form than tribayes knows"):
        Stream((0,)).generator(CPU)
