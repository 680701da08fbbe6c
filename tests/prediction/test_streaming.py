"""Memory stays bounded: loaders are read as they go, and samples that are not kept are reduced exactly."""

import weakref
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.prediction.models import classifier, cut_chunks, dirichlet, inputs, predict, predictive, refused, regressor
from tribayes.prediction.source import Reduced, join

COUNT, SAMPLES = 15, 30
LEVELS = (0.5, 0.95, 0.99)


class Diary(nn.Module):
    """Notes every call that a sampled network answers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.entries: list[str] = []

    def forward(self, x: Tensor) -> Tensor:
        self.entries.append("answer")
        return self.model(x)


class Loader:
    """Batches of unknown number that can be read once; knows how many of them are still in memory."""

    def __init__(self, diary: Diary, batches: int, size: int) -> None:
        self.diary, self.batches, self.size = diary, batches, size
        self.alive = self.most_alive = 0

    def __iter__(self) -> Iterator[Tensor]:
        for index in range(self.batches):
            self.diary.entries.append(f"read {index}")
            yield self.batch(index)

    def batch(self, index: int) -> Tensor:
        memory = inputs(self.size, seed=index).numpy()  # the tensor made of it holds it, and so does every view
        weakref.finalize(memory, self.forget)
        self.alive += 1
        self.most_alive = max(self.alive, self.most_alive)
        return torch.from_numpy(memory)

    def forget(self) -> None:
        self.alive -= 1


def test_a_loader_is_read_while_predicting(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_chunks(monkeypatch, 10, samples=2)
    diary = Diary(classifier())
    predict(diary, Loader(diary, batches=6, size=5), 2)
    reads = [entry for entry in diary.entries if entry != "answer"]
    assert reads == [f"read {index}" for index in range(6)]
    before_the_end = diary.entries[diary.entries.index("read 0") : diary.entries.index("read 5")]
    assert before_the_end.count("answer") >= 2 * 2 * 2  # two chunks of two batches, two samples each


@pytest.mark.parametrize("keep_samples", [True, False])
def test_only_the_batches_of_a_chunk_are_in_memory(monkeypatch: pytest.MonkeyPatch, keep_samples: bool) -> None:
    """Two in the chunk at work, two in the next, one ahead, and the first, which told their width: not all forty."""
    cut_chunks(monkeypatch, 10, samples=2)
    diary = Diary(classifier())
    loader = Loader(diary, batches=40, size=5)
    predict(diary, loader, 2, keep_samples=keep_samples)
    assert loader.most_alive <= 2 + 2 + 1 + 1
    assert loader.alive == 0


@pytest.fixture(scope="module")
def kept() -> tb.ClassPredictive:
    return predict(classifier(), inputs(COUNT), SAMPLES)


@pytest.fixture(params=[1, 7, COUNT, None], scope="module")
def dropped(request: pytest.FixtureRequest) -> tb.ClassPredictive:
    with pytest.MonkeyPatch.context() as monkeypatch:
        cut_chunks(monkeypatch, request.param, SAMPLES)
        return predict(classifier(), inputs(COUNT), SAMPLES, keep_samples=False, levels=LEVELS, batch_size=4)


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", ["mean", "std", "entropy", "aleatoric", "epistemic", "confidence"])
def test_reductions_are_exact(kept: tb.ClassPredictive, dropped: tb.ClassPredictive, name: str) -> None:
    close(getattr(dropped, name), getattr(kept, name))


@pytest.mark.parametrize("level", LEVELS)
def test_intervals_decisions_and_their_errors_are_exact(
    kept: tb.ClassPredictive, dropped: tb.ClassPredictive, level: float
) -> None:
    for one, other in zip(dropped.interval(level), kept.interval(level), strict=True):
        close(one, other)
    assert torch.equal(dropped.label, kept.label)
    assert torch.equal(dropped.certain(level), kept.certain(level))
    for name in ("mean", "lower", "upper"):
        close(getattr(dropped.monte_carlo_error(level), name), getattr(kept.monte_carlo_error(level), name))


def test_the_summary_needs_no_samples(kept: tb.ClassPredictive, dropped: tb.ClassPredictive) -> None:
    targets = torch.arange(COUNT) % 3
    one, other = (pred.summary(targets, LEVELS).as_dict() for pred in (dropped, kept))
    for words in ("counts", "remarks"):
        assert one.pop(words) == other.pop(words)
    assert one == pytest.approx(other, rel=1e-11)


def test_regression_is_reduced_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {"likelihood": tb.Gaussian(0.2), "batch_size": 4}
    whole = predict(regressor(outputs=2), inputs(COUNT), SAMPLES, **arguments)
    cut_chunks(monkeypatch, 4, SAMPLES, width=2)
    parts = predict(regressor(outputs=2), inputs(COUNT), SAMPLES, keep_samples=False, **arguments)
    for name in ("mean", "std", "epistemic", "aleatoric"):
        close(getattr(parts, name), getattr(whole, name))
    close(torch.stack(parts.interval()), torch.stack(whole.interval()))


def test_a_level_that_was_not_prepared_is_refused(dropped: tb.ClassPredictive) -> None:
    text = (
        "`level` (=0.3) must be among the levels computed while predicting with keep_samples=False; "
        "predict again with levels=(...) naming it, or with keep_samples=True."
    )
    for question in (dropped.interval, dropped.certain, dropped.monte_carlo_error):
        with refused(text):
            question(0.3)


def test_samples_that_were_not_kept_are_refused(dropped: tb.ClassPredictive) -> None:
    text = "`keep_samples` (=False) must be True for what needs every sample; predict again with keep_samples=True."
    with refused(text):
        _ = dropped.samples


def test_the_default_levels_are_prepared() -> None:
    pred = predict(classifier(), inputs(2), 5, keep_samples=False)
    assert [pred.interval(level)[0].shape for level in (0.95, 0.99)] == [(2, 3), (2, 3)]


def test_chunks_are_cut_to_the_memory_of_their_sampled_outputs(
    kept: tb.ClassPredictive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for two examples of 30 × 3 numbers; eight bytes each are counted as four."""
    shapes, reduce = [], Reduced.of

    def watched(samples: Tensor, levels: tuple[float, ...]) -> Reduced:
        shapes.append(tuple(samples.shape))
        return reduce(samples, levels)

    cut_chunks(monkeypatch, 2, SAMPLES)
    monkeypatch.setattr(Reduced, "of", watched)
    pred = predict(classifier(), inputs(COUNT), SAMPLES, keep_samples=False)
    assert shapes == [(SAMPLES, 2, 3)] * 7 + [(SAMPLES, 1, 3)]
    close(pred.mean, kept.mean)


def test_inputs_gathered_for_a_chunk_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for three batches of 5 × 4 numbers of 8 bytes, though the chunk would hold forty."""
    monkeypatch.setattr("tribayes.prediction.inputs._CHUNK_BYTES", 3 * 5 * 4 * 8)
    diary = Diary(classifier())
    loader = Loader(diary, batches=40, size=5)
    pred = predict(diary, loader, 2)
    assert len(pred) == 200
    assert loader.most_alive <= 3 + 3 + 1 + 1


def test_reduced_by_hand() -> None:
    """Reduction of samples that are known, against NumPy."""
    samples = dirichlet(40, 6, 3)
    reduced = join([Reduced.of(samples[:, :4], (0.9,)), Reduced.of(samples[:, 4:], (0.9,))])
    np.testing.assert_allclose(reduced.mean, samples.numpy().mean(0), rtol=1e-13)
    np.testing.assert_allclose(reduced.quantiles(sorted(reduced.table)[1:2])[0], predictive(samples).interval(0.9)[0])
