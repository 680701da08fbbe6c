"""What `predict` returns is what a loop over drawn networks says, for every kind of network and of output."""

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

import tribayes as tb
from tests.networks import any_network, bayesian, inputs_of
from tests.prediction.models import CLASSES, FEATURES, batch, classifier, inputs, predict, regressor, seeded
from tribayes.nn.stage import Stage, sample_model
from tribayes.posterior.streams import Stream
from tribayes.prediction.inputs import usual_batch_size


def by_loop(model: nn.Module, x: Tensor, count: int, seed: int = 0) -> Tensor:
    """(S, N, C): the outputs of the sampled networks, one after the other."""
    stage = Stage(model)
    with torch.no_grad():
        draws = (sample_model(model, Stream((seed, sample))) for sample in range(count))
        return torch.stack([stage.run(draw, x) for draw in draws])


@any_network
def test_samples_are_those_of_a_loop(name: str) -> None:
    model, x = bayesian(name), inputs_of(name)
    torch.testing.assert_close(
        predict(model, x, 4, seed=3).samples, by_loop(model, x, 4, seed=3).softmax(-1), rtol=1e-12, atol=1e-14
    )


def test_regression_takes_the_outputs_as_they_are() -> None:
    model = regressor(outputs=2)
    pred = predict(model, inputs(), 4, likelihood=tb.Gaussian())
    torch.testing.assert_close(pred.samples, by_loop(model, inputs(), 4), rtol=1e-12, atol=1e-14)
    assert isinstance(pred, tb.RegressionPredictive)


class Column(nn.Module):
    """One logit an example, as (N, 1) or as (N,)."""

    def __init__(self, flat: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, 1)
        self.flat = flat

    def forward(self, x: Tensor) -> Tensor:
        logit = self.layer(x)
        return logit.squeeze(-1) if self.flat else logit


@pytest.mark.parametrize("flat", [True, False])
def test_a_bernoulli_has_the_classes_no_and_yes(flat: bool) -> None:
    model = tb.to_bayesian(seeded(lambda: Column(flat)), tau=0.5)
    pred = predict(model, inputs(), 6, tb.Bernoulli())
    yes = by_loop(model, inputs(), 6).reshape(6, 15).sigmoid()
    torch.testing.assert_close(pred.samples, torch.stack([1 - yes, yes], dim=-1), rtol=1e-12, atol=1e-14)
    assert torch.equal(pred.label, (pred.mean[:, 1] > 0.5).long())
    assert isinstance(pred, tb.ClassPredictive)


def test_a_row_of_values_is_one_output() -> None:
    model = tb.to_bayesian(seeded(lambda: Column(flat=True)))
    assert predict(model, inputs(), 2, likelihood=tb.Gaussian()).mean.shape == (15, 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_outputs_become_probabilities_in_float32(dtype: torch.dtype) -> None:
    model = classifier().to(dtype)
    pred = predict(model, inputs().to(dtype), 5)
    logits = by_loop(model, inputs().to(dtype), 5)
    assert logits.dtype == dtype
    assert pred.samples.dtype == pred.mean.dtype == torch.float32
    torch.testing.assert_close(pred.samples, logits.float().softmax(-1))


class Sum(nn.Module):
    """A network of two arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        return self.layer(one + 2 * other)


def test_several_arguments() -> None:
    one, other = inputs(15), inputs(15, seed=9)
    model = tb.to_bayesian(seeded(Sum), tau=0.5)
    plain = tb.to_bayesian(seeded(lambda: nn.Linear(FEATURES, CLASSES)), tau=0.5)
    expected = predict(plain, one + 2 * other, 5).samples
    pairs = [((a, b), 0) for a, b in zip(one, other, strict=True)]
    for argument in ((one, other), torch.utils.data.DataLoader(pairs, batch_size=4)):
        torch.testing.assert_close(predict(model, argument, 5, batch_size=4).samples, expected, rtol=1e-12, atol=1e-14)


def test_a_model_on_float32_gives_float32() -> None:
    assert predict(classifier().float(), inputs().float(), 2).mean.dtype == torch.float32


def test_the_default_is_200_sampled_networks() -> None:
    assert predict(classifier(), inputs(1)).sample_count == 200


def test_it_prints_what_it_is() -> None:
    assert repr(predict(classifier(), inputs(), 2)) == "ClassPredictive(15 examples, 3 classes, 2 sampled networks)"
    regression = predict(regressor(), inputs(), 2, likelihood=tb.Gaussian())
    assert repr(regression) == "RegressionPredictive(15 examples, 1 outputs, 2 sampled networks)"


def test_progress_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    tb.predict(classifier(), inputs(), 2, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "predicting" in captured.err
    tb.predict(classifier(), inputs(), 2, progress=False)
    assert capsys.readouterr().err == ""


def test_a_batch_is_larger_on_a_gpu_as_far_as_memory_goes() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    digits = torch.zeros(1, 1, 28, 28).expand(50_000, 1, 28, 28)
    photos = torch.zeros(1, 3, 224, 224).expand(50_000, 3, 224, 224)
    assert [usual_batch_size(batch(digits), device) for device in (cpu, gpu)] == [1_000, 10_000]
    assert usual_batch_size(batch(photos), gpu) == 55  # of 602,112 bytes each
    assert usual_batch_size(batch(photos, photos), gpu) == 27
    assert usual_batch_size(iter([digits]), gpu) == 1_000  # a loader has batches of its own


def test_a_compiled_model_is_traced_once_for_all_draws() -> None:
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(classifier(), backend=counter, dynamic=False)
    expected = predict(classifier(), inputs(), 6)
    assert torch.equal(predict(compiled, inputs(), 6).samples, expected.samples)
    assert counter.frame_count == 2  # at the means, to learn the width of an answer, and under a draw
    predict(compiled, inputs(), 6, seed=1)
    assert counter.frame_count == 2
