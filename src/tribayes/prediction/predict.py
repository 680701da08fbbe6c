"""Asking a Bayesian network: who answers, about what, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import Any, TypedDict, Unpack, overload

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tribayes._errors import check_whole, refusal, wrong_type
from tribayes._modes import modes_kept
from tribayes._progress import progress_bar
from tribayes.inference.likelihood import Bernoulli, Categorical, Gaussian, Likelihood, MultiLabel
from tribayes.inference.values import HeteroscedasticGaussian, Poisson, StudentT
from tribayes.nn.answer import Output, check_output
from tribayes.nn.calling import Home
from tribayes.nn.convert import bayesian_modules
from tribayes.prediction.answers import likelihood_for, predictive_class
from tribayes.prediction.inputs import batches_of, chunks_of, count_examples, given, usual_batch_size
from tribayes.prediction.moments import MomentPass
from tribayes.prediction.predictive import ClassPredictive, LabelPredictive, RegressionPredictive
from tribayes.prediction.predictive_base import DEFAULT_LEVELS
from tribayes.prediction.question import Noting, Question
from tribayes.prediction.sampled import SampledNetworks, collect
from tribayes.prediction.samples import AutoSamples, Drawn, Moments, numbers_of
from tribayes.prediction.source import Kept, Reduced, Source, check_levels, join

Samples = int | range | AutoSamples | Moments
_Values = Gaussian | HeteroscedasticGaussian | StudentT | Poisson

_CHUNK_BYTES = 2**28  # of sampled outputs, held at once on the device


class _Options(TypedDict, total=False):
    seed: int
    batch_size: int | None
    precision: torch.dtype | None
    keep_samples: bool
    levels: Sequence[float]
    where: str | Sequence[str] | None
    output: Output
    progress: bool


@overload
def predict(
    model: nn.Module, inputs: Any, samples: Samples = ..., *, likelihood: _Values, **options: Unpack[_Options]
) -> RegressionPredictive: ...


@overload
def predict(
    model: nn.Module, inputs: Any, samples: Samples = ..., *, likelihood: MultiLabel, **options: Unpack[_Options]
) -> LabelPredictive: ...


@overload
def predict(
    model: nn.Module,
    inputs: Any,
    samples: Samples = ...,
    *,
    likelihood: Categorical | Bernoulli,
    **options: Unpack[_Options],
) -> ClassPredictive: ...


@overload  # what the model was trained with decides, which no type says
def predict(
    model: nn.Module,
    inputs: Any,
    samples: Samples = ...,
    likelihood: Likelihood | None = ...,
    **options: Unpack[_Options],
) -> Any: ...


def predict(
    model: nn.Module,
    inputs: Any,
    samples: Samples = 200,
    likelihood: Likelihood | None = None,
    seed: int = 0,
    *,
    batch_size: int | None = None,
    precision: torch.dtype | None = None,
    keep_samples: bool = True,
    levels: Sequence[float] = DEFAULT_LEVELS,
    where: str | Sequence[str] | None = None,
    output: Output = None,
    progress: bool = True,
) -> Any:
    """The posterior predictive distribution.

    Sample number s is drawn from a stream of its own, named by `seed` and s. So the same seed gives the same answer for
    any batch size (up to the rounding of the network itself), and processes may share the work.

    Args:
        model: a Bayesian model, or any module that contains Bayesian ones; compiled by `torch.compile` or not.
        inputs: a tensor (N, …), a tuple of them for several arguments, a Mapping or dataclass for named ones; a loader
            of such, which a list is, too; or `Whole(...)`, which is not cut into batches. Arrays (NumPy, pandas) are
            taken as tensors. Of a labelled batch (inputs, labels) the first element is taken, and from a Mapping
            "labels", "label" and "targets" are taken out. What is no tensor (a flag, a number) goes to every pass.
        samples: who answers. How many networks to draw; a `range` of sample numbers, for one process's share of them
            (see `Predictive.merge`); `AutoSamples(...)`, as many as it takes; or `Moments()`, one pass without drawing.
        likelihood: what the outputs mean, and so what is returned. Default: the one the model was trained with by an
            `ELBO`; where it knows of none (a loop of your own, a loaded `state_dict`), `Categorical()`.
        seed: of all draws, any whole number. CPU and GPU draw other numbers from it, by the same law.
        batch_size: examples per forward pass, where `inputs` is a tensor; default 1,000, on a GPU up to 10,000 as far
            as they take no more than 32 MiB.
        precision: torch.bfloat16 or torch.float16 lets layers compute in it (`torch.autocast`), for speed on a GPU
            (docs/estimators.md has its error); probabilities are of float32. Default: as the model is.
        keep_samples: False holds only means, entropies and quantiles at `levels`, computed exactly, a chunk of
            examples at a time, at least one: S answers about all pixels of an image are in memory at once.
        levels: which levels to prepare when samples are not kept.
        where: name pattern(s) of the weights to draw; the others stay at their means. Default: all.
        output: which part of the network's answer counts, if it is more than a tensor: a name, an index or a function
            of the answer. Default: what counted in training (`ELBO(output=...)`), else its part "logits", else the
            first tensor in it that has an axis.
        progress: show a bar.

    The network runs in evaluation mode (BatchNorm by its running statistics, no dropout) without gradients, on a twin
    of its structure: the model is not touched, so several threads may ask it at once, and an interrupt leaves it as it
    was. Torch's global random state is neither used nor changed, unless the network itself draws from it. A compiled
    network on a GPU is recorded as a CUDA graph together with its draws.

    Returns:
        What the likelihood predicts (docs/likelihoods.md): a `ClassPredictive` for `Categorical` and `Bernoulli`, a
        `LabelPredictive` for `MultiLabel`, a `RegressionPredictive` for likelihoods of values.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> pred = tribayes.predict(model, torch.randn(5, 4), samples=200, seed=0, progress=False)
        >>> pred.label.shape, pred.mean.shape, pred.certain(0.95).shape
        (torch.Size([5]), torch.Size([5, 3]), torch.Size([5]))
    """
    if isinstance(model, DistributedDataParallel):
        model = model.module  # each process answers by itself
    seed = _checked_seed(model, seed)
    check_options(batch_size, levels, precision)
    check_output(output)
    likelihood = likelihood_for(model, likelihood)
    kind = predictive_class(likelihood)
    if isinstance(samples, Moments) and precision is not None:
        raise refusal("precision", precision, "be left out with samples=Moments()", "variances need float32")
    auto, indices = _numbers_of(samples)
    respondent = MomentPass if isinstance(samples, Moments) else SampledNetworks
    asked = respondent(model, likelihood, seed, where, output)
    home = Home.of(model)
    inputs, device = given(inputs, home), home.device
    total = count_examples(inputs)
    noting = Noting(Question.to(model, likelihood, where))
    parts: list[Source] = []
    bar = progress_bar("predicting", total and total * len(indices), progress)
    with computing(device.type, precision), bar as advance:
        batches = noting(batches_of(inputs, batch_size or usual_batch_size(inputs, device), home))
        first = next(batches)
        size = _CHUNK_BYTES // ((auto.cap if auto else len(indices)) * asked.width(first) * 4)
        for chunk in chunks_of(chain([first], batches), max(1, size)):
            answers = collect(asked.rows(chunk, indices, advance), len(indices), keep_samples)
            while auto and not parts and not kind.settled(likelihood, answers.samples, auto):
                more = range(indices.stop, min(2 * indices.stop, auto.cap))
                answers = answers.joined(collect(asked.rows(chunk, more, advance), len(more), keep_samples))
                indices = range(more.stop)
            check_outputs(likelihood, answers.samples, indices, seen=sum(len(part.mean) for part in parts))
            parts.append(Kept(*answers) if keep_samples else Reduced.of(answers.samples, levels))
    origin = samples if isinstance(samples, Moments) else Drawn(seed, tuple(indices))
    prediction = kind.of(likelihood, join(parts), origin)
    prediction.question = noting.question
    return prediction


def _numbers_of(samples: Samples) -> tuple[AutoSamples | None, range]:
    """Whether to go on by itself, and the numbers of the samples to begin with."""
    if isinstance(samples, Moments):
        return None, range(samples.points)
    if isinstance(samples, AutoSamples):
        return samples, range(samples.first)
    remedy = "pass e.g. samples=200, tb.AutoSamples() or tb.Moments()"
    return None, numbers_of(samples, "a number, a range, an AutoSamples or a Moments", remedy)


def check_outputs(likelihood: Likelihood, sampled: Tensor, indices: Sequence[int], seen: int) -> None:
    """Refuse what sampled networks said (S, N, …) where it is not finite, or not what the likelihood declares."""
    if not torch.isfinite(sampled).all():
        sample, example = (int(i) for i in (~torch.isfinite(sampled)).nonzero()[0][:2])
        place = f"example {seen + example}, sample {indices[sample]}"
        raise refusal("model", place, "give finite outputs, but gave NaN or infinity", "check the trained weights")
    predictive_class(likelihood).check_response(likelihood, sampled[0])


@contextmanager
def computing(device: str, precision: torch.dtype | None) -> Iterator[None]:
    """Without gradients, and with layers in `precision`, if any is given."""
    with modes_kept(device), torch.no_grad(), nullcontext() if precision is None else torch.autocast(device, precision):
        yield


def _checked_seed(model: object, seed: object) -> int:
    if not isinstance(model, nn.Module):
        raise wrong_type("model", model, "be a Bayesian model", "convert a network first: tb.to_bayesian(net)")
    bayesian_modules(model)
    return check_whole("seed", seed, "pass e.g. seed=0")


def check_options(batch_size: object, levels: object, precision: object) -> None:
    """Refuse what `tribayes.predict` does not take for these."""
    if batch_size is not None:
        check_whole("batch_size", batch_size, "it counts examples", least=1)
    check_levels(levels)
    if precision not in (None, torch.bfloat16, torch.float16):
        remedy = "leave it out to compute as the model is"
        raise refusal("precision", precision, "be torch.bfloat16 or torch.float16", remedy)
