"""What predicting does with one chunk of examples: run the sampled networks, collect their answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import torch
from torch import Tensor, nn

from tribayes._errors import refusal, wrong_type
from tribayes._progress import Advance
from tribayes.inference.likelihood import Likelihood
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.holding import ModelDraw, holding, sample_model, seeds_of
from tribayes.prediction.inputs import Batch, chunks_of
from tribayes.prediction.recording import Recording
from tribayes.prediction.tensor_cores import for_tensor_cores
from tribayes.prediction.together import fastest, respond_together, stacked

_CHUNK_BYTES = 2**28  # of sampled outputs, held at once on the device


@dataclass(frozen=True)
class Job:
    """What stays the same for every chunk and sample."""

    model: nn.Module
    likelihood: Likelihood
    seed: int
    only: list[set[str]] | None
    at_once: int = 1  # networks in one pass
    captured: bool = False  # draw and pass as a CUDA graph

    def chunks(self, batches: Iterator[Batch], size: int | None, count: int) -> Iterator[list[Batch]]:
        """Chunks of examples whose `count` sampled responses fit into memory; the mean network tells their width."""
        first = next(batches)
        if size is None:
            with holding(self.model, [{} for _ in bayesian_modules(self.model)]):
                answers = self.respond(first)  # not one example alone: some networks refuse that
            size = max(1, _CHUNK_BYTES // (count * answers[0].numel() * answers.element_size()))
        return chunks_of(chain([first], batches), size)

    def rows(self, chunk: Sequence[Batch], indices: range, advance: Advance) -> Iterator[Tensor]:
        """(s, n, C): the responses of the sampled networks to one chunk, of one or several networks each."""
        for answers in self._recorded(chunk, indices) if self.captured else self._plain(chunk, indices):
            yield answers
            advance(answers.shape[0] * answers.shape[1])

    def _plain(self, chunk: Sequence[Batch], indices: range) -> Iterator[Tensor]:
        for start in range(0, len(indices), self.at_once):
            draws = self._draws(indices[start : start + self.at_once])
            yield torch.cat([self._responses(draws, batch) for batch in chunk], 1)

    def _recorded(self, chunk: Sequence[Batch], indices: range) -> Iterator[Tensor]:
        """As `_plain`; a batch of another shape than the first, often the last, is not replayed but run."""
        recording = Recording(self.model, lambda draw, batch: self._responses([draw], batch), chunk[0], self.only)
        modules = len(bayesian_modules(self.model))
        for index in indices:
            seeds, draws = seeds_of(self.seed, index, modules), None
            answers = []
            for batch in chunk:
                if recording.fits(batch):
                    answers.append(recording.replay(seeds, batch))
                else:
                    draws = draws or self._draws(range(index, index + 1))
                    answers.append(self._responses(draws, batch))
            yield torch.cat(answers, 1)

    def measured(self, batch: Batch, count: int) -> Job:
        """The same job with the number of networks at once that is fastest for a batch like this."""
        at_once = fastest(lambda size: self._responses(self._draws(range(size)), batch), count)
        return replace(self, at_once=at_once)

    def _draws(self, group: range) -> list[ModelDraw]:
        return [sample_model(self.model, self.seed, index, self.only) for index in group]

    def _responses(self, draws: Sequence[ModelDraw], batch: Batch) -> Tensor:
        """(S, n, C): the responses of a group of sampled networks to one batch."""
        if len(draws) > 1:
            return respond_together(self.model, stacked(draws), batch, self.respond)
        with holding(self.model, draws[0]):
            return self.respond(batch).unsqueeze(0)

    @cached_property
    def _form(self) -> AbstractContextManager[object]:
        return for_tensor_cores(self.model)

    def respond(self, batch: Batch) -> Tensor:
        """(n, C): what the model, with the weights it holds, says about a batch."""
        outputs = self.outputs(batch)
        return self.likelihood.response(outputs.float() if outputs.dtype.itemsize < 4 else outputs)

    def outputs(self, batch: Batch) -> Tensor:
        """What the model returns: a tensor with a row an example, or an error."""
        with self._form:  # not around the draws: it would look at each of their operations
            outputs = self.model(*batch)
        if not isinstance(outputs, Tensor):
            raise wrong_type("model", type(outputs).__name__, "return a tensor", "wrap it to return the logits alone")
        if outputs.shape[:1] != batch[0].shape[:1]:
            expected = f"return one row for each of its {len(batch[0])} inputs"
            raise refusal("model", tuple(outputs.shape), expected, "check its forward method")
        return outputs
