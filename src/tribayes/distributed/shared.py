"""A prediction that processes share: each takes some of the draws, or some of the examples, and all get the whole."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn

from tribayes._errors import check_module, refusal, wrong_type
from tribayes.distributed.processes import Processes, processes
from tribayes.nn.sharded import holds_shards
from tribayes.prediction.predict import predict as predict_alone
from tribayes.prediction.predictive_base import Predictive
from tribayes.prediction.samples import Moments, numbers_of

OVER = ("samples", "examples")


def predict(
    model: nn.Module, inputs: Any, samples: int | range | Moments = 200, *, over: str = "samples", **options: Any
) -> Predictive:
    """As `tribayes.predict`, by all processes of torch's default group together; each gets the whole answer.

    Sample number s comes from a stream of its own, so the answer is that of one process; with over="examples" up to the
    rounding of the network, which meets other batches. To be called by every process with the same arguments.

    Args:
        model: a Bayesian model, whole in every process, with the same weights.
        inputs: as of `tribayes.predict`; for over="examples" tensors.
        samples: how many networks to draw, or a range of them; `Moments()` for over="examples".
        over: what is shared: "samples" (every process reads all examples) or "examples".
        options: those of `tribayes.predict`.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> pred = tribayes.distributed.predict(model, torch.randn(5, 4), samples=20, progress=False)
        >>> pred.mean.shape, pred.sample_count
        (torch.Size([5, 3]), 20)
    """
    if over not in OVER:
        raise refusal("over", over, f"be one of {list(OVER)}", "correct the word")
    check_module("model", model)
    if holds_shards(model):
        remedy = "call tribayes.predict(model, ...) in every process: they answer together"
        raise refusal("model", "sharded", "be whole in every process", remedy)
    group = processes()
    part = _of_samples if over == "samples" else _of_examples
    own = part(model, inputs, samples, group, options | {"progress": group.first and options.get("progress", True)})
    if group.alone:
        assert own is not None
        return own
    parts: list[Predictive | None] = [None] * group.count
    with group.watched():
        torch.distributed.all_gather_object(parts, own)
    return Predictive.merge([one for one in parts if one is not None], along=over)


def _of_samples(
    model: nn.Module, inputs: Any, samples: Any, group: Processes, options: dict[str, Any]
) -> Predictive | None:
    """This process's draws for all examples; None where there are fewer draws than processes."""
    remedy = 'pass e.g. samples=200, or over="examples" with tb.Moments()'
    numbers = numbers_of(samples, "a number or a range, to be shared", remedy)
    if not options.get("keep_samples", True) and not group.alone:
        remedy = 'pass over="examples": quantiles of some of the draws cannot be merged'
        raise refusal("keep_samples", False, 'be true for over="samples"', remedy)
    own = numbers[group.share(len(numbers))]
    return predict_alone(model, inputs, own, **options) if len(own) or group.alone else None


def _of_examples(
    model: nn.Module, inputs: Any, samples: Any, group: Processes, options: dict[str, Any]
) -> Predictive | None:
    """All draws for this process's examples; None where there are fewer examples than processes."""
    if not isinstance(samples, int | range | Moments):
        raise wrong_type("samples", samples, "be a number, a range or a Moments", "pass e.g. samples=200")
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    if not all(isinstance(argument, Tensor) for argument in arguments):
        remedy = 'pass over="samples" for a loader'
        raise wrong_type("inputs", inputs, 'be a tensor or a tuple of them for over="examples"', remedy)
    share = group.share(len(arguments[0]))
    own = tuple(argument[share] for argument in arguments)
    if not len(own[0]) and not group.alone:
        return None
    return predict_alone(model, own if isinstance(inputs, tuple) else own[0], samples, **options)
