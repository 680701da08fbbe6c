"""Compiled models: the answers of the model as it is, compiled once, whatever is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

import tribayes as tb
from tests.compiling import draws_are_compiled
from tests.networks import bayesian, inputs_of, same_tensors
from tests.prediction.models import FEATURES, classifier, inputs, predict, refused, seeded

# torch's compiler uses what torch has deprecated
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), draws_are_compiled]

BACKEND = "aot_eager"


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def graphs() -> int:
    """How many have been compiled."""
    return counters["stats"]["unique_graphs"]


def same(one: tb.ClassPredictive, other: tb.ClassPredictive) -> None:
    """To rounding: a compiler may sum in another order."""
    torch.testing.assert_close(one.samples, other.samples, rtol=1e-12, atol=1e-14)
    assert one.origin == other.origin


class Several(nn.Module):
    """Two Bayesian modules, one of them a network, and plain layers between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = tb.nn.Linear(FEATURES, 6, tau=0.5)
        self.norm = nn.BatchNorm1d(6)
        self.rest = tb.to_bayesian(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), tau=0.5, generator=0)

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(self.norm(self.first(x)).tanh())


def several() -> nn.Module:
    return seeded(Several)


@pytest.mark.parametrize(
    "name", ["MLP", "Conv2d", "BatchNorm", "Attention", "tied weights", "shared submodule", "buffers"]
)
def test_the_answers_are_those_of_the_model_as_it_is(name: str) -> None:
    model, x = bayesian(name), inputs_of(name)
    compiled = torch.compile(bayesian(name), backend=BACKEND)
    same(predict(compiled, x, 3, seed=4), predict(model, x, 3, seed=4))
    assert graphs() > 0


WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "whole": lambda model: torch.compile(model, backend=BACKEND),
    "within a module": lambda model: nn.Sequential(torch.compile(model, backend=BACKEND)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("build", [classifier, several])
def test_a_second_prediction_does_not_compile_again(build: Callable[[], nn.Module], way: str) -> None:
    compiled = WAYS[way](build())
    same(predict(compiled, inputs(), 3), predict(build(), inputs(), 3))
    before = graphs()
    assert before > 0
    for seed in (0, 1, 2**40):
        same(predict(compiled, inputs(), 4, seed=seed), predict(build(), inputs(), 4, seed=seed))
    assert graphs() == before


def test_means_that_are_learned_on_need_no_new_code() -> None:
    """Training changes parameters in place; the twin that runs is made anew for every prediction."""
    plain, trained = several(), several()
    compiled = torch.compile(trained, backend=BACKEND)
    first = predict(compiled, inputs(), 3)
    before = graphs()
    for model in (plain, trained):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.25)
    again = predict(compiled, inputs(), 3)
    assert graphs() == before
    assert not torch.equal(first.samples, again.samples)
    same(again, predict(plain, inputs(), 3))


def test_forms_of_batches_are_compiled_for_once() -> None:
    """A smaller last batch, another size, a single example: the second time torch has code for all of them."""
    compiled = torch.compile(classifier(), backend=BACKEND)
    forms = [(15, 6), (14, 5), (13, 4)]
    expected = [predict(classifier(), inputs(count), 3, batch_size=size) for count, size in forms]
    before = None
    for _ in range(2):
        for (count, size), answer in zip(forms, expected, strict=True):
            same(predict(compiled, inputs(count), 3, batch_size=size), answer)
        assert before in (None, graphs())
        before = graphs()


@pytest.mark.parametrize("where", ["first.*", "rest.2.*", ["*.bias", "first.weight"]])
def test_names_are_those_of_the_model_as_it_is(where: str | list[str]) -> None:
    expected = predict(several(), inputs(), 3, where=where)
    same(predict(torch.compile(several(), backend=BACKEND), inputs(), 3, where=where), expected)
    inner = several()
    inner.rest = torch.compile(inner.rest, backend=BACKEND)
    same(predict(inner, inputs(), 3, where=where), expected)
    assert not torch.equal(expected.samples, predict(several(), inputs(), 3).samples)


def test_names_of_the_compiler_are_not_offered() -> None:
    text = (
        "`where` (='_orig_mod.*') must match a random tensor of the model; "
        "choose among first.weight, first.bias, rest.0.weight, rest.0.bias, rest.2.weight, rest.2.bias."
    )
    with refused(text):
        predict(torch.compile(several(), backend=BACKEND), inputs(), 3, where="_orig_mod.*")


@pytest.mark.parametrize("part", ["first", "norm", "rest"])
def test_a_part_that_is_compiled(part: str) -> None:
    model = several()
    setattr(model, part, torch.compile(getattr(model, part), backend=BACKEND))
    expected = predict(several(), inputs(), 3)
    same(predict(model, inputs(), 3), expected)
    before = graphs()
    assert before > 0
    same(predict(model, inputs(), 3), expected)
    assert graphs() == before


@pytest.mark.parametrize("part", ["", "rest", "rest.module"])
def test_what_is_compiled_in_place(part: str) -> None:
    model = several()
    model.get_submodule(part).compile(backend=BACKEND)
    expected = predict(several(), inputs(), 3)
    same(predict(model, inputs(), 3), expected)
    before = graphs()
    assert before > 0
    same(predict(model, inputs(), 3), expected)
    assert graphs() == before


def test_compiled_twice_over() -> None:
    """A compiled part within a compiled whole."""
    model = several()
    model.rest = torch.compile(model.rest, backend=BACKEND)
    same(predict(torch.compile(model, backend=BACKEND), inputs(), 3), predict(several(), inputs(), 3))


def test_the_compiled_model_is_left_alone() -> None:
    model = several().train()
    compiled = torch.compile(model, backend=BACKEND)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    predict(compiled, inputs(), 3)
    assert same_tensors(dict(model.state_dict()), before)
    assert all(module.training for module in compiled.modules())
    outputs = compiled(inputs())  # in training mode, under draws of its own
    assert not torch.equal(outputs, compiled(inputs()))
    outputs.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_as_many_as_it_takes_and_moments() -> None:
    net = seeded(lambda: nn.Sequential(nn.Linear(FEATURES, 6), nn.ReLU(), nn.Linear(6, 3)))
    model = tb.to_bayesian(net, tau=0.5)
    compiled = torch.compile(model, backend=BACKEND)
    for samples in (tb.AutoSamples(tolerance=1e-9, first=4, cap=10), range(3, 6), tb.Moments(16)):
        same(predict(compiled, inputs(), samples), predict(model, inputs(), samples))


def test_several_threads_ask_it_at_once() -> None:
    """The same to rounding, and hardly a new compilation.

    Of threads that meet in torch's guards one may fail them and pass them a moment later ("Unexpected recompilation",
    says its log): it then compiles once more, and another rounding is possible.
    """
    compiled = torch.compile(several(), backend=BACKEND)
    expected = [predict(compiled, inputs(), 10, seed=seed) for seed in range(4)]
    before = graphs()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda seed: predict(compiled, inputs(), 10, seed=seed), range(4)))
    for one, other in zip(answers, expected, strict=True):
        same(one, other)
    assert graphs() <= 5 * before  # once more in a thread at most; not for every draw
