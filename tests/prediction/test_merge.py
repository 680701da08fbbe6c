"""Prediction shared between processes and put together is prediction in one go."""

import multiprocessing
import pickle

import pytest
import torch

import tribayes as tb
from tests.prediction.models import classifier, inputs, predict, predictive, refused, regressor, values


def share(samples: range) -> bytes:
    """What one process does."""
    return pickle.dumps(predict(classifier(), inputs(), samples, seed=2))


def identical(one: tb.Predictive, other: tb.Predictive) -> None:
    assert torch.equal(one.samples, other.samples)
    assert torch.equal(one.mean, other.mean)
    assert torch.equal(torch.stack(one.interval()), torch.stack(other.interval()))
    assert (one.origin, type(one)) == (other.origin, type(other))


def test_two_processes_give_the_answer_of_one_to_the_bit() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        parts = [pickle.loads(part) for part in pool.map(share, [range(12), range(12, 20)])]
    identical(tb.Predictive.merge(parts), predict(classifier(), inputs(), 20, seed=2))


def test_parts_are_put_into_the_order_of_their_samples() -> None:
    parts = [predict(classifier(), inputs(), part) for part in (range(7, 10), range(2), range(2, 7))]
    identical(tb.Predictive.merge(parts), predict(classifier(), inputs(), 10))


def test_merging_by_and_by_is_merging_at_once() -> None:
    a, b, c = (predict(classifier(), inputs(), part) for part in (range(2), range(2, 5), range(5, 9)))
    merge = tb.Predictive.merge
    identical(merge([merge([c, a]), b]), merge([a, b, c]))


def test_a_single_part_is_itself() -> None:
    pred = predict(classifier(), inputs(), 4)
    identical(tb.Predictive.merge([pred]), pred)


def test_examples_are_put_one_after_the_other() -> None:
    x = inputs()
    parts = [predict(classifier(), part, 6, batch_size=3) for part in (x[:6], x[6:])]
    identical(tb.Predictive.merge(parts, along="examples"), predict(classifier(), x, 6, batch_size=3))


def test_examples_without_their_samples() -> None:
    x = inputs()
    parts = [predict(classifier(), part, 6, keep_samples=False, batch_size=3) for part in (x[:6], x[6:])]
    merged = tb.Predictive.merge(parts, along="examples")
    whole = predict(classifier(), x, 6, batch_size=3)
    torch.testing.assert_close(merged.mean, whole.mean, rtol=1e-13, atol=0)
    assert torch.equal(merged.certain(), whole.certain())
    assert torch.equal(torch.stack(merged.interval(0.99)), torch.stack(whole.interval(0.99)))


def test_regression_keeps_its_noise() -> None:
    parts = [predict(regressor(), inputs(), part, likelihood=tb.Gaussian(0.2)) for part in (range(3), range(3, 5))]
    merged = tb.Predictive.merge(parts)
    identical(merged, predict(regressor(), inputs(), 5, likelihood=tb.Gaussian(0.2)))
    assert merged.noise == parts[0].noise


SAME = "predict every part with the same arguments."


def test_the_same_sample_twice_is_refused() -> None:
    parts = [predict(classifier(), inputs(), part) for part in (range(3), range(2, 4))]
    text = (
        "`parts` (=[0, 1, 2, 2, 3]) must have drawn different samples; "
        "give each process its own range of sample numbers."
    )
    with refused(text):
        tb.Predictive.merge(parts)


def test_other_examples_are_refused_along_samples() -> None:
    parts = [predict(classifier(), inputs(n), part) for n, part in ((5, range(3)), (4, range(3, 6)))]
    text = '`parts` (=[(5, 3), (4, 3)]) must be about the same examples; use along="examples" for different ones.'
    with refused(text):
        tb.Predictive.merge(parts)


def test_other_samples_are_refused_along_examples() -> None:
    parts = [predict(classifier(), inputs(), part) for part in (range(3), range(3, 5))]
    with refused('`parts` (=[3, 2]) must have drawn the same samples; use along="samples" for different ones.'):
        tb.Predictive.merge(parts, along="examples")


def test_another_seed_is_refused() -> None:
    parts = [predict(classifier(), inputs(), 2, seed=seed) for seed in (0, 1)]
    kinds = "[('ClassPredictive', 0), ('ClassPredictive', 1)]"
    with refused(f"`parts` (={kinds}) must be of one kind, with one seed and one noise; {SAME}"):
        tb.Predictive.merge(parts, along="examples")


def test_another_kind_is_refused() -> None:
    samples = torch.full((2, 3, 1), 0.5, dtype=torch.float64)
    kinds = "[('ClassPredictive', 0), ('RegressionPredictive', 0, 0.25)]"
    with refused(f"`parts` (={kinds}) must be of one kind, with one seed and one noise; {SAME}"):
        tb.Predictive.merge([predictive(samples), values(samples, 0.25)])


def test_another_noise_is_refused() -> None:
    samples = torch.full((2, 3, 1), 0.5, dtype=torch.float64)
    kinds = "[('RegressionPredictive', 0, 0.5), ('RegressionPredictive', 0, 0.25)]"
    with refused(f"`parts` (={kinds}) must be of one kind, with one seed and one noise; {SAME}"):
        tb.Predictive.merge([values(samples, 0.5), values(samples, 0.25)], along="examples")


def test_other_classes_are_refused() -> None:
    parts = [predictive(torch.full((2, 3, classes), 1 / classes)) for classes in (2, 4)]
    with refused("`parts` (=[2, 4]) must have as many outputs each; predict every part with the same model."):
        tb.Predictive.merge(parts, along="examples")


def test_kept_and_dropped_samples_do_not_mix() -> None:
    parts = [predict(classifier(), inputs(), 4, keep_samples=keep) for keep in (True, False)]
    with refused("`parts` (='mixed') must all have kept their samples, or none; predict them alike."):
        tb.Predictive.merge(parts, along="examples")


@pytest.mark.parametrize("levels", [[(0.9,), (0.9, 0.5)], [(0.9, 0.5), (0.9,)]])
def test_other_levels_are_refused(levels: list[tuple[float, ...]]) -> None:
    parts = [predict(classifier(), inputs(), 4, keep_samples=False, levels=each) for each in levels]
    with refused("`parts` (='different levels') must have prepared the same levels; predict them alike."):
        tb.Predictive.merge(parts, along="examples")


def test_dropped_samples_cannot_be_joined_by_others() -> None:
    parts = [predict(classifier(), inputs(), part, keep_samples=False) for part in (range(2), range(2, 4))]
    text = "`keep_samples` (=False) must be True for what needs every sample; predict again with keep_samples=True."
    with refused(text):
        tb.Predictive.merge(parts)


def test_nothing_and_no_predictions_are_refused() -> None:
    with refused("`parts` (=[]) must be predictions, at least one; pass what tribayes.predict returned.", TypeError):
        tb.Predictive.merge([])
    with refused("`parts` (=[3]) must be predictions, at least one; pass what tribayes.predict returned.", TypeError):
        tb.Predictive.merge([3])


def test_an_unknown_axis_is_refused() -> None:
    with refused('`along` (=\'classes\') must be "samples" or "examples"; correct the word.'):
        tb.Predictive.merge([predict(classifier(), inputs(), 1)], along="classes")


def moved(by: float) -> tb.BayesianModule:
    """The classifier with a single weight a little off."""
    model = classifier()
    with torch.no_grad():
        next(iter(model.parameters())).flatten()[-1] += by
    return model


@pytest.mark.parametrize("along", ["samples", "examples"])
def test_parts_of_two_networks_are_refused(along: str) -> None:
    shares = [range(3), range(3, 6)] if along == "samples" else [3, 3]
    parts = [predict(model, inputs(), share) for model, share in zip((classifier(), moved(1e-6)), shares, strict=True)]
    with pytest.raises(ValueError, match=r"must be of one network; predict every part with the same weights\.$"):
        tb.Predictive.merge(parts, along)


@pytest.mark.parametrize("other", [inputs() + 1e-9, inputs().flip(0), inputs(seed=2)], ids=["moved", "turned", "new"])
def test_parts_of_other_inputs_are_refused_along_samples(other: torch.Tensor) -> None:
    parts = [predict(classifier(), x, share) for x, share in ((inputs(), range(3)), (other, range(3, 6)))]
    with pytest.raises(
        ValueError, match=r"must be about the same examples; pass every process the same inputs, in the"
    ):
        tb.Predictive.merge(parts)


def test_a_part_is_not_joined_with_itself() -> None:
    part, again = (predict(classifier(), inputs(4), 3) for _ in range(2))
    with refused("`parts` (='2 parts') must be about other examples each; leave out the repeated one."):
        tb.Predictive.merge([part, again], along="examples")
    one = predict(classifier(), inputs(1), 3)  # but an example may come up again
    assert len(tb.Predictive.merge([one, part, one], along="examples")) == 6


def test_other_weights_drawn_or_another_likelihood_are_refused() -> None:
    parts = [predict(classifier(), inputs(), range(3)), predict(classifier(), inputs(), range(3, 6), where="*weight")]
    with pytest.raises(ValueError, match=r"must be asked alike; predict every part with the same arguments\.$"):
        tb.Predictive.merge(parts)


@pytest.mark.parametrize("batch_size", [1, 4, 15])
def test_what_was_asked_does_not_depend_on_batches_or_the_order_of_merging(batch_size: int) -> None:
    whole = predict(classifier(), inputs(), 3).question
    parts = [predict(classifier(), x, 3, batch_size=batch_size) for x in inputs().split([2, 6, 7])]
    first, second, third = parts
    by_and_by = tb.Predictive.merge([first, tb.Predictive.merge([second, third], "examples")], "examples")
    assert by_and_by.question == tb.Predictive.merge(parts, "examples").question == whole
    assert whole.examples == 15
