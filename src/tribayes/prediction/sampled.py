"""Sampled networks asked about a chunk of examples: draw, run, collect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from tribayes._errors import refusal, wrong_type
from tribayes._graphs import RecordedCall
from tribayes._progress import Advance
from tribayes.inference.likelihood import Likelihood
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.stage import ModelDraw, Stage, chosen_names, restricted, sample_model
from tribayes.nn.twin import is_compiled
from tribayes.posterior.draw import TRITON
from tribayes.posterior.draw.cuda import seed_number
from tribayes.posterior.streams import Stream
from tribayes.prediction.convolutions import for_tensor_cores
from tribayes.prediction.inputs import Batch

_WORTH_RECORDING = 16  # passes of a compiled network, from which on a recording pays
_WARM_UP = 2


class Respondent:
    """A model that is asked, and what its outputs mean. It runs on a stage: the model itself is left alone."""

    def __init__(self, model: nn.Module, likelihood: Likelihood, seed: int, where: str | Sequence[str] | None) -> None:
        self.model, self.likelihood, self.seed = model, likelihood, seed
        self.only = chosen_names(model, where)
        self.stage = Stage(model, evaluation=True)
        self._form = for_tensor_cores(model)

    def width(self, batch: Batch) -> int:
        """Numbers of the response to one example, by the mean network."""
        nothing: ModelDraw = [{} for _ in bayesian_modules(self.model)]
        return self.respond(nothing, batch)[0].numel()  # not one example alone: some networks refuse that

    def respond(self, draw: ModelDraw, batch: Batch) -> Tensor:
        """(n, C): what the model under a draw says about a batch."""
        outputs = self.outputs(draw, batch)
        return self.likelihood.response(outputs.float() if outputs.dtype.itemsize < 4 else outputs)

    def outputs(self, draw: ModelDraw, batch: Batch) -> Tensor:
        """What the model returns: a tensor with one row per example, or an error."""
        with self._form:  # not around the draws: it would look at each of their operations
            outputs = self.stage.run(draw, *batch)
        if not isinstance(outputs, Tensor):
            raise wrong_type("model", type(outputs).__name__, "return a tensor", "wrap it to return the logits alone")
        if outputs.shape[:1] != batch[0].shape[:1]:
            expected = f"return one row for each of its {len(batch[0])} inputs"
            raise refusal("model", tuple(outputs.shape), expected, "check its forward method")
        return outputs


class SampledNetworks(Respondent):
    """Answers of networks drawn by number, each from a stream of its own."""

    def rows(self, chunk: Sequence[Batch], indices: range, advance: Advance) -> Iterator[Tensor]:
        """(1, n, C) for each index: the responses of one sampled network to a chunk of batches."""
        ask = self._ask_recorded(chunk[0]) if self._pays(len(chunk) * len(indices)) else self._ask
        for index in indices:
            answers = torch.cat(ask(Stream((self.seed, index)), chunk)).unsqueeze(0)
            yield answers
            advance(answers.shape[1])

    def _ask(self, stream: Stream, chunk: Sequence[Batch]) -> list[Tensor]:
        draw = sample_model(self.model, stream, self.only)
        return [self.respond(draw, batch) for batch in chunk]

    def _pays(self, passes: int) -> bool:
        """Whether a draw and its pass are worth being recorded: a compiled network else waits for Python."""
        if passes < _WORTH_RECORDING or not is_compiled(self.model):
            return False
        return all(module.sampler == TRITON for module in bayesian_modules(self.model))

    def _ask_recorded(self, example: Batch) -> RecordedAsking:
        return RecordedAsking(self, example)


class RecordedAsking:
    """A draw and its pass over a batch as a CUDA graph, replayed for other draws and other batches of that form.

    A batch of another form than the first, often the last, is run as it is.
    """

    def __init__(self, networks: SampledNetworks, example: Batch) -> None:
        self._networks = networks
        self._modules = bayesian_modules(networks.model)
        device = example[0].device
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
        otherwise = partial(sample_model, self._networks.model, stream, self._networks.only)
        draw: ModelDraw | None = None
        answers = []
        for batch in chunk:
            if self._call.fits((self._seeds, batch)):
                answers.append(self._call(self._seeds, self._places if batch is self._held else batch).clone())
                self._held = batch
            else:
                draw = draw or otherwise()
                answers.append(self._networks.respond(draw, batch))
        return answers
