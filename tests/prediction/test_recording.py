"""Recorded draws and passes. A stand-in for CUDA graphs shows here that they are those of the plain loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

import tribayes as tb
from tests.prediction.models import batch, cut_chunks, predict
from tribayes import _graphs
from tribayes.nn.calling import Arguments
from tribayes.nn.convert import bayesian_modules
from tribayes.posterior.draw import TRITON
from tribayes.posterior.draw.cuda import seed_number
from tribayes.posterior.streams import Stream
from tribayes.prediction import sampled
from tribayes.prediction.inputs import Batch
from tribayes.prediction.sampled import _WARM_UP, _WORTH_RECORDING, RecordedAsking, SampledNetworks


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(tb.nn.Linear(4, 5, tau=0.5), nn.ReLU(), tb.nn.Linear(5, 3, tau=0.5))


def examples(count: int = 7) -> Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(1))


class Diary:
    """What the stand-in for CUDA graphs was asked to do."""

    def __init__(self) -> None:
        self.recorded = self.replayed = self.run_before = 0
        self.copied: list[int] = []  # batches, of each replay
        self.seeds: list[list[int]] = []


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Diary:
    """Recordings that run again what they recorded, and write the result where it lay; kernels that draw by a seed."""
    diary = Diary()

    class Recording:
        def __init__(self, run: Callable[[], Tensor], *_: object) -> None:
            diary.recorded += 1
            self.run, self.result = run, run()

        def replay(self) -> Tensor:
            diary.replayed += 1
            return self.result.copy_(self.run())

    class RecordedCall(_graphs.RecordedCall):
        def __init__(self, function: Callable[..., Tensor], *arguments: Any, warm_up: int) -> None:
            diary.run_before += warm_up
            super().__init__(function, *arguments, warm_up=warm_up)

        def __call__(self, *arguments: Any) -> Any:
            seeds, batch = arguments
            pairs = zip(tree_flatten(self.places[1])[0], tree_flatten(batch)[0], strict=True)
            diary.copied.append(sum(place is not value for place, value in pairs))
            diary.seeds.append([int(seed) for seed in seeds])
            return super().__call__(*arguments)

    draw = tb.BayesianModule.sample_weights

    def sample_weights(module: tb.BayesianModule, *, generator: Stream | Tensor) -> dict[str, Tensor]:
        number = int(generator) if isinstance(generator, Tensor) else seed_number(generator)
        return draw(module, generator=number)

    monkeypatch.setattr(_graphs, "Recording", Recording)
    monkeypatch.setattr(sampled, "RecordedCall", RecordedCall)
    monkeypatch.setattr(tb.BayesianModule, "sample_weights", sample_weights)
    return diary


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where kernels draw."""
    monkeypatch.setattr(tb.BayesianModule, "sampler", property(lambda _: TRITON))
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(model: nn.Module) -> nn.Module:
    return torch.compile(model, backend="eager", dynamic=False)


@pytest.mark.usefixtures("on_a_gpu")
@pytest.mark.parametrize("where", [None, "0.*", ["*.bias"]])
@pytest.mark.parametrize("chunk", [None, 4])
def test_recorded_draws_and_passes_are_those_of_the_loop(
    monkeypatch: pytest.MonkeyPatch, graphs: Diary, where: Any, chunk: int | None
) -> None:
    cut_chunks(monkeypatch, chunk, samples=20)
    options: dict[str, Any] = {"where": where, "batch_size": 3, "seed": 2}
    expected = predict(network(), examples(), 20, **options).samples
    assert graphs.replayed == 0
    assert torch.equal(predict(compiled(network()), examples(), 20, **options).samples, expected)
    # three, three and one example; cut to chunks of three and of three and one
    assert graphs.recorded == (1 if chunk is None else 2)
    assert graphs.replayed == 2 * 20


def asking(model: nn.Module, where: str | None = None, seed: int = 0) -> SampledNetworks:
    return SampledNetworks(model, tb.Categorical(), seed, where)


def ask(recorded: RecordedAsking, networks: SampledNetworks, chunk: list[Batch], index: int) -> None:
    """Both ways of asking give the same, batch by batch."""
    stream = Stream((networks.seed, index))
    ours, theirs = recorded(stream, chunk), networks._ask(stream, chunk)
    assert [answer.shape for answer in ours] == [answer.shape for answer in theirs]
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


def test_answers_come_in_the_order_of_their_batches(graphs: Diary) -> None:
    """Of the form recorded and of other ones, mixed."""
    networks = asking(network())
    chunk = [batch(part) for part in examples(12).split([3, 1, 3, 2, 3])]
    recorded = RecordedAsking(networks, chunk[0])
    for index in range(3):
        ask(recorded, networks, chunk, index)
    assert graphs.replayed == 3 * 3


def test_what_is_recorded_is_run_before(graphs: Diary) -> None:
    RecordedAsking(asking(network()), batch(examples()))
    assert (graphs.run_before, graphs.recorded, graphs.replayed) == (_WARM_UP, 1, 0)


def test_answers_are_not_overwritten_by_later_ones(graphs: Diary) -> None:
    """A recording writes its result to one place."""
    chunk = [batch(part) for part in examples(6).split(3)]
    recorded = RecordedAsking(asking(network()), chunk[0])
    first = recorded(Stream((0, 0)), chunk)
    kept = [answer.clone() for answer in first]
    recorded(Stream((0, 1)), chunk)
    assert not torch.equal(first[0], first[1])
    assert all(torch.equal(one, other) for one, other in zip(first, kept, strict=True))
    assert graphs.replayed == 4


@pytest.mark.parametrize(("sizes", "copies"), [([7], [1, 0, 0]), ([7, 7], [1] * 6), ([7, 2], [1, 0, 0])])
def test_a_batch_is_copied_in_only_when_it_changes(graphs: Diary, sizes: list[int], copies: list[int]) -> None:
    networks = asking(network())
    chunk = [batch(part) for part in examples(sum(sizes)).split(sizes)]
    recorded = RecordedAsking(networks, chunk[0])
    for index in range(3):
        ask(recorded, networks, chunk, index)
    assert graphs.copied == copies


def test_the_recording_keeps_a_copy_of_its_example(graphs: Diary) -> None:
    """What is recorded reads its own places: the caller's tensor may change or go."""
    networks, example = asking(network()), batch(examples())
    recorded = RecordedAsking(networks, example)
    assert all(place is not part for place, part in zip(recorded._places.tensors, example.tensors, strict=True))
    ask(recorded, networks, [batch(examples(7) + 1)], 0)
    assert torch.equal(example.tensors[0], examples())
    assert graphs.copied == [1]


@pytest.mark.parametrize(
    "other",
    [
        batch(torch.zeros(3, 4, dtype=torch.float64)),
        batch(torch.zeros(4, 3).T),
        batch(torch.zeros(3, 4), torch.zeros(3, 4)),
        batch(torch.zeros(2, 4)),
    ],
    ids=["dtype", "strides", "arguments", "examples"],
)
def test_a_batch_of_another_form_does_not_fit(graphs: Diary, other: Batch) -> None:
    recorded = RecordedAsking(asking(network()), batch(examples(3)))
    assert recorded._call.fits((recorded._seeds, batch(torch.ones(3, 4))))
    assert not recorded._call.fits((recorded._seeds, other))
    assert graphs.recorded == 1


def test_several_arguments_are_recorded(graphs: Diary) -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = tb.nn.Linear(4, 3, tau=0.5)

        def forward(self, one: Tensor, other: Tensor) -> Tensor:
            return self.layer(one - other)

    networks, chunk = asking(Sum()), [batch(examples(3), examples(6)[3:])]
    recorded = RecordedAsking(networks, chunk[0])
    for index in range(2):
        ask(recorded, networks, chunk, index)
    assert graphs.copied == [2, 0]


def test_every_module_has_its_seed_for_every_sample(graphs: Diary) -> None:
    chunk = [batch(examples())]
    recorded = RecordedAsking(asking(network(), seed=5), chunk[0])
    for index in range(2):
        recorded(Stream((5, index)), chunk)
    assert graphs.seeds == [[seed_number(Stream((5, index, module))) for module in range(2)] for index in range(2)]


@pytest.mark.usefixtures("on_a_gpu")
@pytest.mark.parametrize(
    ("passes", "pays"), [(0, False), (_WORTH_RECORDING - 1, False), (_WORTH_RECORDING, True), (10_000, True)]
)
def test_a_recording_pays_from_some_passes_on(passes: int, pays: bool) -> None:
    assert asking(compiled(network()))._pays(passes) is pays


@pytest.mark.usefixtures("on_a_gpu")
def test_passes_are_those_of_all_batches_and_samples(graphs: Diary) -> None:
    """A chunk of two batches reaches with half of the samples what one batch reaches with all."""
    model = compiled(network())
    for batch_size, samples, replays in ((7, 8, 0), (4, 8, 8), (7, 16, 16)):
        graphs.replayed = 0
        predict(model, examples(), samples, batch_size=batch_size)
        assert graphs.replayed == replays  # the batch of three behind that of four is run as it is


@pytest.mark.usefixtures("on_a_gpu")
def test_what_is_not_compiled_is_not_recorded(graphs: Diary) -> None:
    """Nor where only a part is: its other layers may do what no graph can hold."""
    part = network()
    part[2] = compiled(part[2])
    for model in (network(), part):
        assert not asking(model)._pays(10_000)
        predict(model, examples(), 20)
    assert graphs.recorded == 0


def test_what_no_kernel_draws_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One module among several is enough."""
    model = compiled(network())
    assert not asking(model)._pays(10_000)
    first = bayesian_modules(model)[0]
    monkeypatch.setattr(tb.BayesianModule, "sampler", property(lambda self: TRITON if self is first else "plain"))
    assert not asking(model)._pays(10_000)


@pytest.mark.usefixtures("on_a_gpu")
def test_moments_are_not_recorded(graphs: Diary) -> None:
    predict(compiled(network()), examples(), tb.Moments())
    assert graphs.recorded == 0


@pytest.mark.usefixtures("on_a_gpu")
def test_rounds_of_samples_are_recorded_each(graphs: Diary) -> None:
    """Twenty, twenty more, and ten up to the cap, which are too few."""
    auto = tb.AutoSamples(tolerance=1e-9, first=20, cap=50)
    expected = predict(network(), examples(50), 50).samples
    pred = predict(compiled(network()), examples(50), auto)
    assert torch.equal(pred.samples, expected)
    assert graphs.recorded == 2
    assert graphs.replayed == 40


@pytest.mark.parametrize(("error", "falls_back"), [(_graphs.WaitsForDevice, True), (_graphs.CaptureFailed, False)])
def test_only_a_network_that_was_seen_to_wait_is_asked_as_it_is(
    error: type[RuntimeError], falls_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a recording that failed halfway torch's state is not to be trusted: that is an error."""

    def failing(*_: object, **__: object) -> None:
        raise error("it waits")

    model, inputs = network(), examples()
    expected = tb.predict(model, inputs, 3, progress=False).samples
    monkeypatch.setattr("tribayes.prediction.sampled.RecordedCall", failing)
    monkeypatch.setattr("tribayes.prediction.sampled.SampledNetworks._pays", lambda *_: True)
    if falls_back:
        assert torch.equal(tb.predict(model, inputs, 3, progress=False).samples, expected)
        return
    with pytest.raises(error, match="it waits"):
        tb.predict(model, inputs, 3, progress=False)


def test_named_arguments_are_recorded(graphs: Diary) -> None:
    """New values go to the places of their names; a flag is part of the form; what tensors may hide in never fits."""

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = tb.nn.Linear(4, 3, tau=0.5)

        def forward(self, one: Tensor, more: dict[str, Tensor], minus: bool = False) -> Tensor:
            return self.layer(one - more["other"] if minus else one + more["other"])

    def named(shift: float, **others: Any) -> Batch:
        more = {"other": examples(6)[3:] + shift}
        return Batch(Arguments((), {"one": examples(3) * shift, "more": more, **others}), 3)

    networks = asking(Named())
    recorded = RecordedAsking(networks, named(1.0, minus=False))
    ask(recorded, networks, [named(2.0, minus=False), named(3.0, minus=True), named(4.0, minus=False)], 0)
    assert graphs.replayed == 2
    assert graphs.copied == [2, 2]
    held = RecordedAsking(networks, named(1.0, minus=[]))
    holder = [object()]
    assert held._call.fits((held._seeds, named(5.0, minus=[])))
    assert not held._call.fits((held._seeds, named(5.0, minus=holder)))
    same = RecordedAsking(networks, named(1.0, minus=holder))
    assert not same._call.fits((same._seeds, named(1.0, minus=holder)))
