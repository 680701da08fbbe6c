"""The same seed gives the same answer, however the examples are cut into batches and chunks."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import tribayes as tb
from tests.prediction.models import classifier, cut_chunks, inputs, predict
from tribayes.posterior.streams import Stream

COUNT, SAMPLES = 15, 30
LABELS = torch.zeros(COUNT, dtype=torch.long)


def same_answer(one: tb.ClassPredictive, other: tb.ClassPredictive) -> None:
    """Up to the rounding of the network, which is free to multiply matrices of other sizes in another order."""
    torch.testing.assert_close(one.samples, other.samples, rtol=1e-12, atol=1e-14)
    assert torch.equal(one.label, other.label)
    assert torch.equal(one.certain(), other.certain())


@pytest.fixture(scope="module")
def reference() -> tb.ClassPredictive:
    return predict(classifier(), inputs(COUNT), SAMPLES, seed=5)


@pytest.mark.parametrize("chunk_size", [1, 7, COUNT, None])
@pytest.mark.parametrize("batch_size", [1, 4, 1000])
def test_batch_and_chunk_size_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, reference: tb.ClassPredictive, batch_size: int, chunk_size: int | None
) -> None:
    cut_chunks(monkeypatch, chunk_size, SAMPLES)
    same_answer(predict(classifier(), inputs(COUNT), SAMPLES, seed=5, batch_size=batch_size), reference)


def a_generator(x: Tensor) -> Iterator[Tensor]:
    yield from x.split(4)


LOADERS: dict[str, Callable[[Tensor], object]] = {
    "batches": lambda x: DataLoader(x, batch_size=4),
    "labelled batches": lambda x: DataLoader(TensorDataset(x, LABELS), batch_size=4),
    "workers": lambda x: DataLoader(TensorDataset(x, LABELS), batch_size=4, num_workers=1),
    "a list of tensors": lambda x: list(x.split(6)),
    "a list of pairs": lambda x: [(part, LABELS[: len(part)]) for part in x.split(6)],
    "a tuple holding a tensor": lambda x: (x,),
    "a generator": a_generator,
    "with empty batches": lambda x: [x[:0], x[:9], x[9:9], x[9:]],
}


@pytest.mark.parametrize("kind", LOADERS)
def test_a_loader_is_as_good_as_a_tensor(reference: tb.ClassPredictive, kind: str) -> None:
    same_answer(predict(classifier(), LOADERS[kind](inputs(COUNT)), SAMPLES, seed=5), reference)


def test_a_run_is_repeated_to_the_bit(reference: tb.ClassPredictive) -> None:
    torch.manual_seed(123)  # the global state is no part of it
    assert torch.equal(predict(classifier(), inputs(COUNT), SAMPLES, seed=5).samples, reference.samples)


def test_another_seed_draws_other_networks(reference: tb.ClassPredictive) -> None:
    other = predict(classifier(), inputs(COUNT), SAMPLES, seed=6)
    assert (other.samples != reference.samples).any(-1).all()


def test_samples_differ_from_one_another(reference: tb.ClassPredictive) -> None:
    assert len(reference.samples[:, 0, 0].unique()) == SAMPLES


def test_a_range_of_samples_is_that_part_of_all(reference: tb.ClassPredictive) -> None:
    part = predict(classifier(), inputs(COUNT), range(10, 17), seed=5)
    assert torch.equal(part.samples, reference.samples[10:17])
    assert part.sample_indices == tuple(range(10, 17))


def test_an_example_has_the_same_answer_alone_and_in_company(reference: tb.ClassPredictive) -> None:
    alone = predict(classifier(), inputs(COUNT)[4:5], SAMPLES, seed=5)
    torch.testing.assert_close(alone.samples[:, 0], reference.samples[:, 4], rtol=1e-12, atol=1e-14)


SEEDS = (0, 1, -1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1, 2**64, -(2**64), 10**30)


def test_whole_numbers_of_any_size_are_seeds_of_their_own() -> None:
    """Torch keeps 32 bits of a seed on a CPU: there 0 would be 2**32, and −1 would be 2**32 − 1."""
    model, x = classifier(), inputs(1)
    answers = {seed: predict(model, x, 2, seed=seed) for seed in SEEDS}
    drawn = torch.cat([answer.samples[:, 0] for answer in answers.values()])
    assert len(drawn.unique(dim=0)) == 2 * len(SEEDS)
    for seed, answer in answers.items():
        assert answer.origin.seed == seed
        assert torch.equal(predict(model, x, 2, seed=seed).samples, answer.samples)


@pytest.mark.parametrize("seed", [251, 0])
def test_no_network_is_drawn_twice(seed: int) -> None:
    """Samples 57 and 134 of seed 251 were once the same network, by a seed of 32 bits."""
    torch.manual_seed(0)
    samples = predict(tb.to_bayesian(nn.Linear(3, 2)), torch.ones(1, 3), seed=seed).samples
    assert not torch.equal(samples[57], samples[134])
    assert len(samples[:, 0].unique(dim=0)) == 200


def test_samples_whose_seeds_agree_in_32_bits_are_other_networks() -> None:
    """The first two such samples of seed 0; torch's `manual_seed` would draw one network for both."""
    seen: dict[int, int] = {}
    for late in range(10**6):
        early = seen.setdefault(Stream((0, late, 0)).number % 2**32, late)
        if early != late:
            break
    assert early < late < 10**6 - 1
    numbers = [Stream((0, sample, 0)).number for sample in (early, late)]
    one, other = (torch.randn(3, generator=torch.Generator().manual_seed(number)) for number in numbers)
    assert torch.equal(one, other)
    one, other = (predict(classifier(), inputs(1), range(sample, sample + 1)).samples for sample in (early, late))
    assert not torch.equal(one, other)


def test_networks_of_neighbouring_seeds_are_not_each_others_neighbours() -> None:
    """Sample s + 1 of a seed is not sample s of the next one, nor of any other among a few."""
    model, x = classifier(), inputs(1)
    drawn = torch.cat([predict(model, x, 20, seed=seed).samples[:, 0] for seed in range(-5, 6)])
    assert len(drawn.unique(dim=0)) == len(drawn)


@pytest.mark.parametrize("cuts", [(0, 30), (0, 1, 30), (0, 10, 20, 30), (0, 13, 14, 29, 30)])
def test_ranges_put_together_are_the_whole(reference: tb.ClassPredictive, cuts: tuple[int, ...]) -> None:
    parts = [predict(classifier(), inputs(COUNT), range(*pair), seed=5) for pair in pairwise(cuts)]
    merged = tb.Predictive.merge(parts[::-1])
    assert torch.equal(merged.samples, reference.samples)
    assert torch.equal(merged.mean, reference.mean)
    assert merged.origin == reference.origin
