"""Asking a Bayesian network: draw networks, run them, collect what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypedDict, Unpack, overload

import torch
from torch import Tensor, nn

from tribayes._errors import refusal, wrong_type
from tribayes._progress import Advance, progress_bar
from tribayes.inference.likelihood import Categorical, Gaussian, Likelihood
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.holding import chosen_names, holding, sample_model
from tribayes.prediction.auto import AutoSamples
from tribayes.prediction.classification import ClassPredictive
from tribayes.prediction.inputs import Batch, batches_of, chunks_of, count_examples
from tribayes.prediction.predictive import DEFAULT_LEVELS
from tribayes.prediction.quantiles import check_level
from tribayes.prediction.regression import RegressionPredictive
from tribayes.prediction.source import Kept, Reduced
from tribayes.prediction.state import undisturbed

Samples = int | str | range | AutoSamples

_CHUNK_BYTES = 2**28  # of sampled outputs, held at once on the device


class _Options(TypedDict, total=False):
    seed: int
    progress: bool
    keep_samples: bool
    levels: Sequence[float]
    batch_size: int
    chunk_size: int | None
    where: str | Sequence[str] | None


@overload
def predict(
    model: nn.Module, inputs: Any, samples: Samples = 200, *, likelihood: Gaussian, **options: Unpack[_Options]
) -> RegressionPredictive: ...


@overload
def predict(
    model: nn.Module,
    inputs: Any,
    samples: Samples = 200,
    likelihood: Likelihood | None = None,
    **options: Unpack[_Options],
) -> ClassPredictive: ...


def predict(
    model: nn.Module,
    inputs: Any,
    samples: Samples = 200,
    likelihood: Likelihood | None = None,
    seed: int = 0,
    progress: bool = True,
    *,
    keep_samples: bool = True,
    levels: Sequence[float] = DEFAULT_LEVELS,
    batch_size: int = 1000,
    chunk_size: int | None = None,
    where: str | Sequence[str] | None = None,
) -> ClassPredictive | RegressionPredictive:
    """The posterior predictive distribution, from sampled networks.

    Sample number s is drawn from a seed of its own, made of `seed` and s. So the same seed gives the same answer for
    any batch or chunk size (up to the rounding of the network itself), and processes may share the work.

    Args:
        model: a Bayesian model, or any module that contains Bayesian ones.
        inputs: a tensor (N, …), a tuple of tensors for several arguments, or a loader. Of a labelled batch
            (inputs, labels) the first element is taken.
        samples: how many networks to draw; a `range` of sample numbers, for one process's share of them (see
            `Predictive.merge`); or "auto" (`AutoSamples`), which decides on the first chunk of examples.
        likelihood: `Categorical()` (default), `Bernoulli()` or `Gaussian(...)`.
        seed: of all draws. Torch's global random state is neither used nor changed.
        progress: show a bar.
        keep_samples: False holds only means, entropies and quantiles at `levels`, computed exactly, a chunk of
            examples at a time.
        levels: which levels to prepare when samples are not kept.
        batch_size: examples a forward pass, where `inputs` is a tensor.
        chunk_size: examples whose sampled outputs are held at once; default by memory, 256 MiB.
        where: name pattern(s) of the weights to draw; the others stay at their means. Default: all.

    The model runs in evaluation mode (BatchNorm by its running statistics, no dropout) without gradients; its mode,
    its buffers and the random state are afterwards as they were, also after an error or Ctrl-C.

    Returns:
        `ClassPredictive`, or `RegressionPredictive` for a Gaussian likelihood.

    Example:
        >>> pred = tribayes.predict(model, x, samples=200, seed=0)
        >>> pred.label, pred.certain(0.95), pred.interval(0.95)
    """
    likelihood = Categorical() if likelihood is None else likelihood
    _check_arguments(model, likelihood, seed, batch_size, chunk_size, levels)
    auto, indices = _plan_of(samples)
    job = _Job(model, likelihood, seed, chosen_names(model, where))
    total = count_examples(inputs)
    parts: list[Kept | Reduced] = []
    with undisturbed(model), progress_bar("predicting", total and total * len(indices), progress) as advance:
        batches = batches_of(inputs, batch_size, next(model.parameters()).device)
        for chunk in job.chunks(batches, chunk_size, auto.cap if auto else len(indices)):
            sampled = job.run(chunk, indices, advance)
            while auto and not parts and not auto.enough(sampled, classes=not isinstance(likelihood, Gaussian)):
                more = range(len(sampled), auto.next_count(len(sampled)))
                sampled = torch.cat([sampled, job.run(chunk, more, advance)])
                indices = range(more.stop)
            _check_outputs(sampled, indices, seen=sum(len(part.mean) for part in parts))
            parts.append(Kept(sampled.cpu()) if keep_samples else Reduced.of(sampled, levels))
    return _assemble(parts, likelihood, seed, indices)


@dataclass(frozen=True)
class _Job:
    """What stays the same for every chunk and sample."""

    model: nn.Module
    likelihood: Likelihood
    seed: int
    only: list[set[str]] | None

    def chunks(self, batches: Iterator[Batch], size: int | None, count: int) -> Iterator[list[Batch]]:
        """Chunks of examples whose `count` sampled responses fit into memory; the mean network tells their width."""
        first = next(batches)
        if size is None:
            with holding(self.model, [{} for _ in bayesian_modules(self.model)]):
                answers = self.respond(first)  # not one example alone: some networks refuse that
            size = max(1, _CHUNK_BYTES // (count * answers[0].numel() * answers.element_size()))
        return chunks_of(chain([first], batches), size)

    def run(self, chunk: Sequence[Batch], indices: range, advance: Advance) -> Tensor:
        """(S, n, C): the responses of the sampled networks to one chunk."""
        rows = []
        for index in indices:
            with holding(self.model, sample_model(self.model, self.seed, index, self.only)):
                rows.append(torch.cat([self.respond(batch) for batch in chunk]))
            advance(len(rows[-1]))
        return torch.stack(rows)

    def respond(self, batch: Batch) -> Tensor:
        outputs = self.model(*batch)
        if not isinstance(outputs, Tensor):
            raise wrong_type("model", type(outputs).__name__, "return a tensor", "wrap it to return the logits alone")
        if outputs.shape[:1] != batch[0].shape[:1]:
            expected = f"return one row for each of its {len(batch[0])} inputs"
            raise refusal("model", tuple(outputs.shape), expected, "check its forward method")
        return self.likelihood.response(outputs.float() if outputs.dtype.itemsize < 4 else outputs)


def _plan_of(samples: Samples) -> tuple[AutoSamples | None, range]:
    """Whether to go on by itself, and the numbers of the samples to begin with."""
    if samples == "auto":
        samples = AutoSamples()
    if isinstance(samples, AutoSamples):
        return samples, range(samples.first)
    indices = range(samples) if isinstance(samples, int) and not isinstance(samples, bool) else samples
    if not isinstance(indices, range):
        raise wrong_type("samples", samples, 'be a number, a range or "auto"', "pass e.g. samples=200")
    if len(indices) < 1 or indices[0] < 0 or indices.step != 1:
        requirement = "name at least one sample, counting from 0 up without gaps"
        raise refusal("samples", samples, requirement, "pass e.g. samples=200, or range(0, 100)")
    return None, indices


def _assemble(
    parts: list[Kept | Reduced], likelihood: Likelihood, seed: int, indices: range
) -> ClassPredictive | RegressionPredictive:
    reduced = [part for part in parts if isinstance(part, Reduced)]
    source = Reduced.join(reduced) if reduced else Kept.join([part for part in parts if isinstance(part, Kept)])
    if isinstance(likelihood, Gaussian):
        return RegressionPredictive(source, seed, indices, float(likelihood.noise.detach()))
    return ClassPredictive(source, seed, indices)


def _check_outputs(sampled: Tensor, indices: range, seen: int) -> None:
    if not torch.isfinite(sampled).all():
        sample, example, _ = (int(i) for i in (~torch.isfinite(sampled)).nonzero()[0])
        place = f"example {seen + example}, sample {indices[sample]}"
        raise refusal("model", place, "give finite outputs, but gave NaN or infinity", "check the trained weights")


def _check_arguments(
    model: nn.Module,
    likelihood: Likelihood,
    seed: int,
    batch_size: int,
    chunk_size: int | None,
    levels: Sequence[float],
) -> None:
    bayesian_modules(model)
    if not isinstance(likelihood, Likelihood):
        raise wrong_type("likelihood", likelihood, "be a Likelihood", "pass e.g. tb.Categorical()")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise wrong_type("seed", seed, "be a whole number", "pass e.g. seed=0")
    for name, value in (("batch_size", batch_size), ("chunk_size", 1 if chunk_size is None else chunk_size)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise refusal(name, value, "be a whole number, at least 1", "it counts examples")
    for level in levels:
        check_level(level)
