"""Sampled networks asked about a chunk of examples: draw, run, collect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes._graphs import RecordedCall, WaitsForDevice
from tribayes._progress import Advance
from tribayes.inference.likelihood import Likelihood
from tribayes.nn.answer import Output, counted, remembered_output
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.stage import ModelDraw, Stage, chosen_names, restricted, sample_model
from tribayes.nn.twin import is_compiled
from tribayes.posterior.draw import TRITON
from tribayes.posterior.draw.cuda import seed_number
from tribayes.posterior.streams import Stream
from tribayes.prediction.convolutions import for_tensor_cores
from tribayes.prediction.inputs import Batch
from tribayes.prediction.source import together

_WORTH_RECORDING = 16  # passes of a compiled network, from which on a recording pays
_WARM_UP = 2
_GROUP = 16  # rows of answers that are brought while the GPU computes as many more


class Respondent:
    """A model that is asked, and what its outputs mean. It runs on a stage: the model itself is left alone."""

    runs_compiled: ClassVar[bool] = True  # what `torch.compile` made of a model, rather than the model itself

    def __init__(
        self,
        model: nn.Module,
        likelihood: Likelihood,
        seed: int,
        where: str | Sequence[str] | None,
        output: Output = None,
    ) -> None:
        if is_compiled(model) and not self.runs_compiled:
            model = model.get_submodule("_orig_mod")
        self.model, self.likelihood, self.seed = model, likelihood, seed
        self.output = remembered_output(model) if output is None else output
        self.only = chosen_names(model, where)
        self.stage = Stage(model, evaluation=True)
        self._form = for_tensor_cores(model)
        self.device = next(model.parameters()).device

    def width(self, batch: Batch) -> int:
        """Numbers of the response to one example, by the mean network."""
        responses = self.respond([{} for _ in bayesian_modules(self.model)], batch)
        return responses[0].numel()  # not one example alone: some networks refuse that

    def respond(self, draw: ModelDraw, batch: Batch) -> Tensor:
        """(n, C): what the model under a draw says about a batch."""
        outputs = self.outputs(draw, batch)
        return self.likelihood.response(outputs.float() if outputs.dtype.itemsize < 4 else outputs)

    def outputs(self, draw: ModelDraw, batch: Batch) -> Tensor:
        """What counts of the model's answer: a tensor with one row per example, or an error."""
        with self._form:  # not around the draws: it would look at each of their operations
            answer = self.stage.run(draw, *batch.arguments.args, **batch.arguments.kwargs)
            outputs = counted(answer, self.output)
        check_rows(outputs.shape, batch)
        return outputs


def check_rows(shape: torch.Size, batch: Batch) -> None:
    """Refuse an answer of this shape that has not a row for each example."""
    if not shape or shape[0] != (shape[0] if batch.rows is None else batch.rows):
        expected = f"return one row for each of its {'' if batch.rows is None else f'{batch.rows} '}inputs"
        remedy = "check its forward method, and which part of its answer counts (`output`)"
        raise refusal("model", tuple(shape), expected, f"{remedy}; a single example is x.unsqueeze(0)")


class SampledNetworks(Respondent):
    """Answers of networks drawn by number, each from a stream of its own."""

    def rows(self, chunk: Sequence[Batch], indices: range, advance: Advance) -> Iterator[Tensor]:
        """(1, n, C) for each index: the responses of one sampled network to a chunk of batches."""
        ask: Callable[[Stream, Sequence[Batch]], list[Tensor]] = self._ask
        if self._pays(len(chunk) * len(indices)):
            with suppress(WaitsForDevice):
                ask = RecordedAsking(self, chunk[0])
        for index in indices:
            answers = together(ask(Stream((self.seed, index)), chunk), 0).unsqueeze(0)
            yield answers
            advance(answers.shape[1])

    def _ask(self, stream: Stream, chunk: Sequence[Batch]) -> list[Tensor]:
        draw = sample_model(self.model, stream, self.only)
        return [self.respond(draw, batch) for batch in chunk]

    def _pays(self, passes: int) -> bool:
        """Whether a draw and its pass are worth being recorded: a compiled network else waits for Python."""
        worth = passes >= _WORTH_RECORDING and is_compiled(self.model)
        return worth and all(module.sampler == TRITON for module in bayesian_modules(self.model))


class RecordedAsking:
    """A draw and its pass over a batch as a CUDA graph, replayed for other draws and other batches of that form.

    A batch of another form than the first, often the last, is run as it is.
    """

    def __init__(self, networks: SampledNetworks, example: Batch) -> None:
        self._networks, self._modules = networks, bayesian_modules(networks.model)
        device = networks.device
        seeds = tuple(torch.zeros(1, dtype=torch.int64, device=device) for _ in self._modules)
        self._call = RecordedCall(self._one, (seeds, example), device, warm_up=_WARM_UP)
        self._seeds, self._places = self._call.places
        self._held: Batch | None = None  # whose values are in the places

    def _one(self, seeds: tuple[Tensor, ...], batch: Batch) -> Tensor:
        pairs = zip(self._modules, seeds, strict=True)
        draws = [module.sample_weights(generator=seed) for module, seed in pairs]
        return self._networks.respond(restricted(draws, self._networks.only), batch)

    def __call__(self, stream: Stream, chunk: Sequence[Batch]) -> list[Tensor]:
        for number, seed in enumerate(self._seeds):
            seed.fill_(seed_number(stream.child(number)))
        networks, draw, answers = self._networks, None, []
        for batch in chunk:
            if self._call.fits((self._seeds, batch)):
                answers.append(self._call(self._seeds, self._places if batch is self._held else batch).clone())
                self._held = batch
            else:
                draw = draw or sample_model(networks.model, stream, networks.only)
                answers.append(networks.respond(draw, batch))
        return answers


class Answers(NamedTuple):
    """What S sampled networks said about n examples, (S, n, C)."""

    samples: Tensor  # where they were computed
    on_host: Tensor | None  # the same, if that was a GPU and they are to be kept

    def joined(self, more: Answers) -> Answers:
        """With those of more networks."""
        both = None if self.on_host is None or more.on_host is None else torch.cat([self.on_host, more.on_host])
        return Answers(torch.cat([self.samples, more.samples]), both)


def collect(rows: Iterable[Tensor], count: int, keep: bool) -> Answers:
    """The answers of `count` networks, which come in rows (s, n, C) of one network or several each."""
    taken: list[Tensor] = []
    carrier = None
    for row in rows:
        taken.append(row)
        if keep and row.is_cuda:
            carrier = carrier or _Carrier(row, count)
            carrier.take(row)
    return Answers(torch.cat(taken), carrier.all_brought() if carrier else None)


class _Carrier:
    """Brings rows from a GPU to the host on a stream of its own: a group while the next one is computed.

    The caller would wait for a copy at the end, a tenth of the time for a small network.
    """

    def __init__(self, example: Tensor, count: int) -> None:
        self._host = torch.empty((count, *example.shape[1:]), dtype=example.dtype, device="cpu")
        self._device = example.device
        self._stream = torch.cuda.Stream(example.device)
        self._group: list[Tensor] = []  # whose computation has been asked for
        self._before: list[Tensor] = []  # the group before it
        self._done = torch.cuda.Event()  # when that one is computed
        self._place = 0

    def take(self, row: Tensor) -> None:
        """Another row. It may wait for the group before."""
        self._group.append(row)
        if len(self._group) == _GROUP:
            self._bring()

    def all_brought(self) -> Tensor:
        """(S, n, C) on the host."""
        self._bring()
        self._bring()
        return self._host

    def _bring(self) -> None:
        """The group before to the host; what has been asked for since is now the group before."""
        self._stream.wait_event(self._done)
        with torch.cuda.stream(self._stream):
            for row in self._before:  # a copy to ordinary memory waits for its stream, and for no other
                self._host[self._place : self._place + len(row)].copy_(row)
                self._place += len(row)
        self._done = torch.cuda.current_stream(self._device).record_event()
        self._before, self._group = self._group, []
