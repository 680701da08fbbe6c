"""A model may hold several Bayesian modules: one draw for all of them, independent, and none is left behind."""

import math

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import same_tensors
from tests.prediction.models import classifier, inputs, normal_bound, predict, refused, seeded
from tribayes.nn.stage import Stage, random_names, sample_model
from tribayes.posterior.streams import Stream


def stacked(width: int = 6, tau: float = 0.5) -> nn.Sequential:
    """A plain layer between two Bayesian ones."""
    return seeded(
        lambda: nn.Sequential(
            tb.nn.Linear(4, width, tau=tau), nn.Linear(width, 4), nn.Tanh(), tb.nn.Linear(4, width, tau=tau)
        )
    )


def given(model: nn.Module) -> list[object]:
    """Draws that were left behind."""
    return [module._given for module in model.modules() if isinstance(module, tb.BayesianModule)]


def test_prediction_is_that_of_the_layers_one_by_one() -> None:
    model = stacked()
    first, _, _, last = model
    pred = predict(model, inputs(), 5, seed=7)
    for sample in range(5):
        one, other = (module.sample_weights(generator=Stream((7, sample, i))) for i, module in enumerate((first, last)))
        hidden = model[1](first.apply_weights(one, inputs())).tanh()
        expected = last.apply_weights(other, hidden).softmax(-1)
        torch.testing.assert_close(pred.samples[sample], expected.detach(), rtol=1e-12, atol=1e-14)


def test_a_whole_sample_uses_one_draw_for_all_batches() -> None:
    """Fresh draws in each batch would make the answer depend on the batch."""
    model = stacked()
    assert torch.equal(
        predict(model, inputs(), 3, batch_size=15).label, predict(model, inputs(), 3, batch_size=1).label
    )
    one, other = predict(model, inputs(1).repeat(2, 1), 3, batch_size=1).samples.unbind(1)
    assert torch.equal(one, other)


def test_modules_draw_independently() -> None:
    """Noise of two layers of the same shape: correlation of 800 pairs, failure rate 1e-6.

    Correlation within each layer, at most ½ between neighbours, widens its spread by at most √1.5.
    """
    model = stacked(width=200, tau=0.1)
    noise = []
    for draw, module in zip(sample_model(model, Stream((0, 0))), (model[0], model[3]), strict=True):
        mean = module.module.weight.detach()
        noise.append(((draw["weight"].detach() - mean) / mean.abs()).flatten())
    correlation = torch.corrcoef(torch.stack(noise))[0, 1].abs()
    assert correlation < normal_bound(1e-6) * math.sqrt(1.5 / 800)


def test_seeds_of_different_places_differ() -> None:
    places = [(seed, sample, module) for seed in range(12) for sample in range(12) for module in range(12)]
    numbers = {Stream(place).number for place in places}
    assert len(numbers) == len(places)
    assert Stream((1, 23, 4)).number != Stream((12, 3, 4)).number
    assert all(0 <= number < 2**63 for number in numbers)


def test_a_draw_depends_on_nothing_drawn_before() -> None:
    model = stacked()
    first = sample_model(model, Stream((0, 3)))
    sample_model(model, Stream((0, 2)))
    torch.manual_seed(9)
    for one, other in zip(first, sample_model(model, Stream((0, 3))), strict=True):
        assert same_tensors(one, other)


def test_no_draw_is_left_behind() -> None:
    model = stacked()
    predict(model, inputs(), 2)
    assert given(model) == [None, None]
    assert not torch.equal(model(inputs()), model(inputs()))  # fresh draws again


def test_no_draw_is_left_behind_by_an_error() -> None:
    model = stacked()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        predict(model, torch.zeros(3, 5, dtype=torch.float64), 2)
    assert given(model) == [None, None]


def test_a_stage_of_the_callers_is_not_disturbed() -> None:
    """Prediction between two passes of a stage draws its own networks, and the stage answers as before."""
    model = stacked()
    stage, mine = Stage(model), sample_model(model, Stream((99, 0)))
    before = stage.run(mine, inputs())
    pred = predict(model, inputs(), 2)
    assert torch.equal(stage.run(mine, inputs()), before)
    assert torch.equal(pred.samples, predict(model, inputs(), 2).samples)
    assert given(model) == [None, None]


class TestWhere:
    def test_only_the_named_weights_are_drawn(self) -> None:
        model = classifier()
        pred = predict(model, inputs(), 4, where="2.*")
        for sample in range(4):
            draw = model.sample_weights(generator=Stream((0, sample, 0)))
            part = {name: value for name, value in draw.items() if name.startswith("2.")}
            torch.testing.assert_close(
                pred.samples[sample], model.apply_weights(part, inputs()).softmax(-1).detach(), rtol=1e-12, atol=1e-14
            )

    def test_several_patterns_add_up_to_everything(self) -> None:
        everything = predict(classifier(), inputs(), 3).samples
        assert torch.equal(predict(classifier(), inputs(), 3, where=["*weight", "*bias"]).samples, everything)

    def test_names_start_with_the_place_of_the_bayesian_module(self) -> None:
        model = stacked()
        pred = predict(model, inputs(), 3, where="3.*")
        with torch.no_grad():
            draw = [{}, sample_model(model, Stream((0, 1)))[1]]
            expected = Stage(model).run(draw, inputs()).softmax(-1)
        torch.testing.assert_close(pred.samples[1], expected, rtol=1e-12, atol=1e-14)

    def test_compiling_does_not_change_names(self) -> None:
        expected = predict(stacked(), inputs(), 3, where="3.*").samples
        compiled = torch.compile(stacked(), backend="eager")
        assert random_names(compiled) == random_names(stacked())
        torch.testing.assert_close(
            predict(compiled, inputs(), 3, where="3.*").samples, expected, rtol=1e-12, atol=1e-14
        )
        inner = stacked()
        inner[3] = torch.compile(inner[3], backend="eager")
        assert random_names(inner) == random_names(stacked())

    def test_a_pattern_without_a_match_is_refused(self) -> None:
        text = (
            "`where` (='conv*') must match a random tensor of the model; "
            "choose among 0.weight, 0.bias, 3.weight, 3.bias."
        )
        with refused(text):
            predict(stacked(), inputs(), 3, where=["0.*", "conv*"])

    def test_no_pattern_at_all_is_refused(self) -> None:
        text = "`where` (=[]) must name at least one pattern; leave it out to draw every random tensor."
        with refused(text):
            predict(stacked(), inputs(), 3, where=[])


def test_a_shared_bayesian_module_is_drawn_once() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = tb.nn.Linear(4, 4, tau=0.5)
            self.second = self.first

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x))

    model = seeded(Twice)
    draw = sample_model(model, Stream((0, 0)))
    assert len(draw) == 1
    twice = model.first.apply_weights(draw[0], model.first.apply_weights(draw[0], inputs()))
    torch.testing.assert_close(
        predict(model, inputs(), 1).samples[0], twice.softmax(-1).detach(), rtol=1e-12, atol=1e-14
    )
