"""Kept networks are those that `predict` draws, answer as these do, and are an ordinary module without state."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import tribayes as tb
from tests.libraries import library
from tests.networks import any_network, bayesian, inputs_of, left_as_it_was, same_tensors
from tribayes.inference.memory import remember
from tribayes.nn.stage import sample_model
from tribayes.posterior.streams import Stream

SAMPLES = 5

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # torch loops inside, rightly


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(), nn.Tanh(), nn.Linear(6, 3))


@any_network
def test_the_networks_are_predict_s(name: str) -> None:
    model, x = bayesian(name).eval(), inputs_of(name)
    draws = [sample_model(model, Stream((7, number)))[0] for number in range(SAMPLES)]
    with left_as_it_was(model), torch.no_grad():
        answers = tb.Ensemble(model, SAMPLES, seed=7)(x)
        expected = torch.stack([model.apply_weights(draw, x) for draw in draws])
    torch.testing.assert_close(answers, expected, rtol=0, atol=1e-12)


@any_network
def test_asked_in_turn_they_answer_as_predict_s_to_the_bit(name: str) -> None:
    model, x, likelihood = bayesian(name), inputs_of(name), tb.Gaussian()
    ours = tb.Ensemble(model, SAMPLES, seed=7, loop=True, likelihood=likelihood).predict(x)
    theirs = tb.predict(model, x, SAMPLES, likelihood, seed=7, progress=False)
    assert torch.equal(ours.samples, theirs.samples)


@pytest.mark.parametrize("count", [1, 40, 300, 1200])  # all networks at once, some, one at a time, several batches
def test_it_predicts_as_predict_does(count: int) -> None:
    model, x = tb.to_bayesian(net()), torch.randn(count, 4)
    ensemble = tb.Ensemble(model, samples=20, seed=3)
    ours, theirs = ensemble.predict(x), tb.predict(model, x, 20, seed=3, progress=False)
    torch.testing.assert_close(ours.samples, theirs.samples)
    assert ours.origin == theirs.origin
    for one, other in zip(ours.interval(0.95), theirs.interval(0.95), strict=True):
        torch.testing.assert_close(one, other)


def test_options_are_predict_s() -> None:
    model, x = tb.to_bayesian(net()), torch.randn(30, 4)
    remember(model, tb.StudentT(df=3.0, scale=0.5))
    ensemble = tb.Ensemble(model, range(10, 20), where="0.*")
    ours = ensemble.predict(x, batch_size=7, keep_samples=False, levels=(0.9,))
    theirs = tb.predict(model, x, range(10, 20), where="0.*", keep_samples=False, levels=(0.9,), progress=False)
    assert isinstance(ours, tb.RegressionPredictive)
    assert ours.noise_law == theirs.noise_law
    assert not ours.keeps_samples
    torch.testing.assert_close(ours.interval(0.9), theirs.interval(0.9))
    low = ensemble.predict(x, precision=torch.bfloat16)
    torch.testing.assert_close(low.mean, ours.mean, rtol=0, atol=0.05)
    with pytest.raises(ValueError, match="`precision`"):
        ensemble.predict(x, precision=torch.int8)


def test_its_answers_go_together_with_predict_s() -> None:
    model, x = tb.to_bayesian(net()), torch.randn(9, 4)
    half = tb.predict(model, x, range(5), progress=False)
    both = tb.Predictive.merge([half, tb.Ensemble(model, range(5, 10)).predict(x)])
    torch.testing.assert_close(both.samples, tb.predict(model, x, 10, progress=False).samples)


def test_what_is_not_random_is_there_once() -> None:
    model = tb.to_bayesian(net())
    state = tb.Ensemble(model, SAMPLES, where="4.*").state_dict()
    assert state["network.4.weight"].shape == (SAMPLES, 3, 6)
    assert state["network.0.weight"].shape == (6, 4)
    assert state["network.1.weight"].shape == state["network.1.running_mean"].shape == (6,)


def test_memory_is_stated() -> None:
    model = tb.to_bayesian(net())
    ensemble, half = tb.Ensemble(model, 200), tb.Ensemble(model, 200, dtype=torch.bfloat16)
    random, once = 4 * 200 * 51, 4 * (12 + 12) + 8  # BatchNorm: two parameters, two statistics, a count
    assert ensemble.nbytes == random + once
    assert half.nbytes == random // 2 + once
    assert "200 networks, seed 0, 0.0409 MB" in repr(ensemble)


def test_half_the_memory_computes_in_the_network_s_dtype() -> None:
    model, x = tb.to_bayesian(net()), torch.randn(8, 4)
    rounded = tb.Ensemble(model, SAMPLES, dtype=torch.bfloat16)
    expected = tb.Ensemble(model, SAMPLES)
    for name in expected.names:
        weight = expected.network.get_parameter(name)
        weight.data = weight.bfloat16().float()
    assert rounded(x).dtype == torch.float32
    assert torch.equal(rounded(x), expected(x))
    assert rounded.double()(x.double()).dtype == torch.float64
    with pytest.raises(ValueError, match=r"`dtype` .* must be a floating dtype"):
        tb.Ensemble(model, dtype=torch.int8)


class Mixed(nn.Module):
    """Two layers of different dtypes."""

    def __init__(self, *dtypes: torch.dtype) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4, dtype=dtype) for dtype in dtypes)

    def forward(self, x: Tensor) -> Tensor:
        assert x.dtype == self.layers[0].weight.dtype
        for layer in self.layers:
            x = layer(x.to(layer.weight.dtype))
        return x


@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float64), (torch.float64, torch.float32)])
def test_arrays_become_what_they_are_to_the_model(dtypes: tuple[torch.dtype, ...]) -> None:
    model, x = tb.to_bayesian(Mixed(*dtypes)), library("numpy").linspace(0, 1, 8).reshape(2, 4)
    expected = tb.predict(model, x, SAMPLES, progress=False)
    torch.testing.assert_close(tb.Ensemble(model, SAMPLES).predict(x).samples, expected.samples)


def test_it_stays_in_evaluation_mode_and_apart_from_the_model() -> None:
    model, x = tb.to_bayesian(net()).train(), torch.randn(8, 4)
    ensemble = tb.Ensemble(model, SAMPLES).train()
    before = ensemble(x)
    state = copy.deepcopy(ensemble.state_dict())
    with torch.no_grad():
        for value in model.state_dict().values():
            value.add_(1)
    assert torch.equal(ensemble(x), before)
    assert same_tensors(ensemble.state_dict(), state)
    assert not any(module.training for module in ensemble.modules())
    assert not any(value.requires_grad for value in ensemble.parameters())


class Counting(nn.Module):
    """Counts its calls, also in evaluation mode."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.layer(x) + self.calls


def test_it_has_no_state_of_its_own() -> None:
    ensemble, x = tb.Ensemble(tb.to_bayesian(Counting()), SAMPLES), torch.randn(8, 4)
    assert torch.equal(ensemble(x), ensemble(x))
    assert float(ensemble.network.calls) == 0


def test_gradients_reach_the_inputs() -> None:
    x = torch.randn(2, 4, requires_grad=True)
    tb.Ensemble(tb.to_bayesian(net()), SAMPLES)(x).sum().backward()
    assert (x.grad != 0).all()


def test_threads_share_it() -> None:
    ensemble = tb.Ensemble(bayesian("LSTM"), SAMPLES)
    inputs = [inputs_of("LSTM") * factor for factor in range(1, 17)]
    expected = [ensemble(x) for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(one, other) for one, other in zip(pool.map(ensemble, inputs), expected, strict=True))


def test_it_is_saved_by_torch_s_own_means(tmp_path: Path) -> None:
    model, x = tb.to_bayesian(net()), torch.randn(8, 4)
    ensemble, other = tb.Ensemble(model, SAMPLES), tb.Ensemble(tb.to_bayesian(net()), SAMPLES, seed=1)
    save_file(ensemble.state_dict(), tmp_path / "ensemble.safetensors")
    other.load_state_dict(load_file(tmp_path / "ensemble.safetensors"))
    assert torch.equal(other(x), ensemble(x))


def test_models_of_several_parts_and_compiled_ones() -> None:
    layers, x = nn.Sequential(tb.nn.Linear(4, 6), nn.Tanh(), tb.nn.Linear(6, 3)), torch.randn(8, 4)
    expected = tb.predict(layers, x, SAMPLES, progress=False).samples
    for model in (layers, torch.compile(layers)):
        torch.testing.assert_close(tb.Ensemble(model, SAMPLES).predict(x).samples, expected)


class Branching(nn.Module):
    """Looks at a number, which torch cannot do for several networks at once."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return y if float(y.sum()) > 0 else -y


def test_what_cannot_run_side_by_side_runs_in_turn() -> None:
    model, x = tb.to_bayesian(Branching()), torch.randn(8, 4)
    with pytest.raises(RuntimeError, match="vmap") as caught:
        tb.Ensemble(model, SAMPLES)(x)
    assert "tb.Ensemble(..., loop=True) asks in turn." in caught.value.__notes__[0]
    expected = tb.predict(model, x, SAMPLES, progress=False).samples
    torch.testing.assert_close(tb.Ensemble(model, SAMPLES, loop=True).predict(x).samples, expected)


class Caching(nn.Module):
    """Answers with more than tensors, as language models that keep a cache do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> dict[str, object]:
        return {"logits": self.layer(x), "cache": object()}


def test_of_an_answer_that_is_no_tree_of_tensors_the_part_that_counts_is_predicted_from() -> None:
    model, x = tb.to_bayesian(Caching()), torch.randn(8, 4)
    ensemble = tb.Ensemble(model, SAMPLES)
    expected = tb.predict(model, x, SAMPLES, progress=False).samples
    torch.testing.assert_close(ensemble.predict(x).samples, expected)
    with pytest.raises(ValueError, match="must only return Tensors") as caught:
        ensemble(x)
    assert "ensemble.predict(...) stacks the part that counts" in caught.value.__notes__[0]


def test_a_pass_about_nothing_is_refused() -> None:
    ensemble = tb.Ensemble(tb.to_bayesian(net()), SAMPLES)
    for inputs in ((), (torch.randn(8, 4).numpy(),)):
        with pytest.raises(TypeError, match=r"`inputs` .* must hold tensors; pass tensors with a row per example, or"):
            ensemble(*inputs)


def test_bad_arguments_are_refused() -> None:
    model = tb.to_bayesian(net())
    with pytest.raises(ValueError, match=r"`samples` .* must name at least one sample"):
        tb.Ensemble(model, 0)
    with pytest.raises(TypeError, match=r"`samples` .* must be a number or a range; pass e.g. samples=200"):
        tb.Ensemble(model, tb.AutoSamples())
    with pytest.raises(ValueError, match=r"`model` .* must contain a BayesianModule"):
        tb.Ensemble(net())
    with pytest.raises(ValueError, match="`where`"):
        tb.Ensemble(model, where="nothing")


class Pair(nn.Module):
    """More than a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(x), x


def test_of_answers_of_any_form_the_part_that_counts_is_predicted_from() -> None:
    model, x = tb.to_bayesian(Pair()), torch.randn(300, 4)
    ensemble = tb.Ensemble(model, SAMPLES)
    first, second = ensemble(x)
    assert first.shape == (SAMPLES, 300, 3)
    assert second.shape == (SAMPLES, 300, 4)
    expected = tb.predict(model, x, SAMPLES, progress=False).samples
    torch.testing.assert_close(ensemble.predict(x).samples, expected)


class Named(nn.Module):
    """Two inputs, and an answer with two parts, of which the second counts by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor, shift: Tensor) -> dict[str, Tensor]:
        return {"hidden": x, "logits": self.layer(x) + shift}


def test_named_inputs_and_arrays_are_taken_as_predict_takes_them() -> None:
    model, inputs = tb.to_bayesian(Named()), {"x": torch.randn(7, 4), "shift": torch.randn(7, 1)}
    ensemble = tb.Ensemble(model, SAMPLES)
    expected = tb.predict(model, inputs, SAMPLES, progress=False).samples
    torch.testing.assert_close(ensemble.predict(inputs).samples, expected)
    arrays = {name: value.numpy() for name, value in inputs.items()}
    torch.testing.assert_close(ensemble.predict(arrays).samples, expected)
    torch.testing.assert_close(ensemble(**inputs)["logits"].softmax(-1), expected)


def test_an_answer_without_a_row_for_each_input_is_refused() -> None:
    model = tb.to_bayesian(nn.Sequential(nn.Linear(4, 3), nn.Flatten(0)))
    with pytest.raises(ValueError, match=r"`model` .* must return one row for each of its 8 inputs"):
        tb.Ensemble(model, SAMPLES).predict(torch.randn(8, 4))


def test_an_error_of_the_network_is_its_own() -> None:
    with pytest.raises(ValueError, match="expected 2D or 3D input") as caught:
        tb.Ensemble(tb.to_bayesian(net()), SAMPLES)(torch.randn(4))
    assert not getattr(caught.value, "__notes__", [])
