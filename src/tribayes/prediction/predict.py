"""Asking a Bayesian network: draw networks, run them, collect what they say."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypedDict, Unpack, overload

import torch
from torch import Tensor, nn

from tribayes._errors import refusal, wrong_type
from tribayes._progress import progress_bar
from tribayes.inference.likelihood import Categorical, Gaussian, Likelihood
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.holding import chosen_names
from tribayes.prediction.auto import AutoSamples
from tribayes.prediction.by_moments import MomentJob
from tribayes.prediction.classification import ClassPredictive
from tribayes.prediction.collecting import collect
from tribayes.prediction.gaussian_points import POINTS
from tribayes.prediction.inputs import batches_of, count_examples, usual_batch_size
from tribayes.prediction.job import Job
from tribayes.prediction.predictive import DEFAULT_LEVELS
from tribayes.prediction.quantiles import check_level
from tribayes.prediction.recording import check_captured
from tribayes.prediction.regression import RegressionPredictive
from tribayes.prediction.source import Kept, Reduced
from tribayes.prediction.state import undisturbed
from tribayes.prediction.together import MEASURE, AtOnce, check_at_once

Samples = int | str | range | AutoSamples

_SAMPLES = 200

METHODS = ("samples", "moments")


class _Options(TypedDict, total=False):
    seed: int
    progress: bool
    keep_samples: bool
    levels: Sequence[float]
    batch_size: int | None
    chunk_size: int | None
    where: str | Sequence[str] | None
    at_once: AtOnce
    captured: bool
    method: str
    precision: torch.dtype | None


@overload
def predict(
    model: nn.Module, inputs: Any, samples: Samples = _SAMPLES, *, likelihood: Gaussian, **options: Unpack[_Options]
) -> RegressionPredictive: ...


@overload
def predict(
    model: nn.Module,
    inputs: Any,
    samples: Samples = _SAMPLES,
    likelihood: Likelihood | None = None,
    **options: Unpack[_Options],
) -> ClassPredictive: ...


def predict(
    model: nn.Module,
    inputs: Any,
    samples: Samples = _SAMPLES,
    likelihood: Likelihood | None = None,
    seed: int = 0,
    progress: bool = True,
    *,
    keep_samples: bool = True,
    levels: Sequence[float] = DEFAULT_LEVELS,
    batch_size: int | None = None,
    chunk_size: int | None = None,
    where: str | Sequence[str] | None = None,
    method: str = "samples",
    at_once: AtOnce = 1,
    captured: bool = False,
    precision: torch.dtype | None = None,
) -> ClassPredictive | RegressionPredictive:
    """The posterior predictive distribution, from sampled networks or from one pass of moments.

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
        batch_size: examples a forward pass, where `inputs` is a tensor; default 1,000, on a GPU up to 10,000 as far as
            they take no more than 32 MiB.
        chunk_size: examples whose sampled outputs are held at once; default by memory, 256 MiB.
        where: name pattern(s) of the weights to draw; the others stay at their means. Default: all.
        method: "samples", or "moments": no network is drawn, but mean and variance of every unit are carried through
            the network once, and 512 quasi-random points stand for the Gaussian outputs. An approximation: its error
            is in docs/estimators.md, its assumptions are in prediction/moments.py. It knows linear layers,
            convolutions, ReLU, pooling, BatchNorm and sums.
        at_once: sampled networks in one pass, their weights stacked (`torch.func.vmap`); 1 runs one after the other.
            "measure" times both on the first batch and takes the faster. The answer is the same up to rounding.
        captured: record a draw and its pass as a CUDA graph and replay it, for networks so small or so well compiled
            that a GPU waits for Python between their layers. The model must be on a GPU and draw by the fused sampler.
        precision: torch.bfloat16 or torch.float16 lets layers compute in it (`torch.autocast`), for speed on a GPU;
            what they say is brought to float32 before it becomes probabilities. What it costs in accuracy is in
            docs/estimators.md. Default: as the model is.

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
    _check_method(method, samples, precision)
    auto, indices = (None, range(POINTS)) if method == "moments" else _plan_of(samples)
    kind = MomentJob if method == "moments" else Job
    check_at_once(at_once)
    check_captured(captured, model, at_once, method)
    together = at_once if isinstance(at_once, int) else 1
    job = kind(model, likelihood, seed, chosen_names(model, where), together, captured)
    total = count_examples(inputs)
    parts: list[Kept | Reduced] = []
    device = next(model.parameters()).device
    bar = progress_bar("predicting", total and total * len(indices), progress)
    with undisturbed(model), _computing_in(precision, device), bar as advance:
        batches = batches_of(inputs, batch_size or usual_batch_size(inputs, device), device)
        for chunk in job.chunks(batches, chunk_size, auto.cap if auto else len(indices)):
            if at_once == MEASURE and not parts and method == "samples":
                job = job.measured(chunk[0], len(indices))
            answers = collect(job.rows(chunk, indices, advance), len(indices), keep_samples)
            while auto and not parts and not auto.enough(answers.samples, classes=not isinstance(likelihood, Gaussian)):
                more = range(indices.stop, auto.next_count(indices.stop))
                answers = answers.joined(collect(job.rows(chunk, more, advance), len(more), keep_samples))
                indices = range(more.stop)
            _check_outputs(answers.samples, indices, seen=sum(len(part.mean) for part in parts))
            parts.append(Kept(*answers) if keep_samples else Reduced.of(answers.samples, levels))
    return _assemble(parts, likelihood, seed, range(0) if method == "moments" else indices)


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


def _computing_in(precision: torch.dtype | None, device: torch.device) -> AbstractContextManager[None]:
    return nullcontext() if precision is None else torch.autocast(device.type, precision)


def _check_method(method: str, samples: Samples, precision: torch.dtype | None) -> None:
    if precision not in (None, torch.bfloat16, torch.float16):
        remedy = "leave it out to compute as the model is"
        raise refusal("precision", precision, "be torch.bfloat16 or torch.float16", remedy)
    if method == "moments" and precision is not None:
        raise refusal("precision", precision, 'be left out with method="moments"', "variances need float32")
    if method not in METHODS:
        raise refusal("method", method, f"be one of {list(METHODS)}", "correct the word")
    if method == "moments" and samples != _SAMPLES:
        raise refusal("samples", samples, 'be left out with method="moments"', "no network is drawn there")


def _check_arguments(
    model: nn.Module,
    likelihood: Likelihood,
    seed: int,
    batch_size: int | None,
    chunk_size: int | None,
    levels: Sequence[float],
) -> None:
    bayesian_modules(model)
    if not isinstance(likelihood, Likelihood):
        raise wrong_type("likelihood", likelihood, "be a Likelihood", "pass e.g. tb.Categorical()")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise wrong_type("seed", seed, "be a whole number", "pass e.g. seed=0")
    for name, value in (("batch_size", batch_size), ("chunk_size", chunk_size)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise refusal(name, value, "be a whole number, at least 1", "it counts examples")
    for level in levels:
        check_level(level)
