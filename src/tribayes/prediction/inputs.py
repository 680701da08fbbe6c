"""What can be predicted from: a tensor, several, or a loader of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch
from torch import Tensor

from tribayes._errors import refusal, wrong_type

Batch = tuple[Tensor, ...]  # the positional arguments of the network for some examples

_CHUNK_BYTES = 2**28  # of inputs, gathered before the sampled networks run over them
_BATCH = 1000  # examples a pass on a CPU
_GPU_BATCH, _GPU_BATCH_BYTES = 10_000, 2**25  # on a GPU, which at a thousand small ones would wait for Python


def batches_of(inputs: Any, batch_size: int, device: torch.device) -> Iterator[Batch]:
    """The inputs, of any kind that `predict` takes, in batches on `device`, checked for NaN and infinity."""
    seen = 0
    for batch in _split(inputs, batch_size):
        arguments = tuple(argument.to(device) for argument in batch)
        for argument in arguments:
            if argument.is_floating_point() and not torch.isfinite(argument).all():
                bad = ~torch.isfinite(argument.reshape(len(argument), -1)).all(1)
                example = f"example {seen + int(bad.nonzero()[0])}"
                raise refusal("inputs", example, "be finite, but holds NaN or infinity", "clean the data")
        seen += len(arguments[0])
        if len(arguments[0]):
            yield arguments
    if seen == 0:
        raise refusal("inputs", inputs, "hold at least one example", "the tensor or loader is empty")


def usual_batch_size(inputs: Any, device: torch.device) -> int:
    """Examples a pass where none are asked for: 1,000; on a GPU up to 10,000, but no more than 32 MiB of them."""
    parts = _tensors(inputs)
    if device.type != "cuda" or not parts or not all(part.ndim and len(part) for part in parts):
        return _BATCH
    example = sum(part[0].numel() * part.element_size() for part in parts)
    return max(1, min(_GPU_BATCH, _GPU_BATCH_BYTES // max(example, 1)))


def count_examples(inputs: Any) -> int | None:
    """How many examples there are, where that can be known without reading them."""
    parts = _tensors(inputs)
    if parts:
        return len(parts[0]) if parts[0].ndim else None
    dataset = getattr(inputs, "dataset", None)
    return len(dataset) if isinstance(dataset, Sized) else None


def chunks_of(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    """Batches cut and gathered to at most `size` examples and, but for a single batch, 256 MiB."""
    chunk: list[Batch] = []
    examples = held = 0
    for whole in batches:
        for batch in zip(*(part.split(size) for part in whole), strict=True):
            cost = sum(part.numel() * part.element_size() for part in batch)
            if chunk and (examples + len(batch[0]) > size or held + cost > _CHUNK_BYTES):
                yield chunk
                chunk, examples, held = [], 0, 0
            chunk.append(batch)
            examples, held = examples + len(batch[0]), held + cost
    if chunk:
        yield chunk


def _tensors(inputs: Any) -> Batch:
    """The arguments where they are given as tensors; none where inputs are a loader."""
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    return parts if all(isinstance(part, Tensor) for part in parts) else ()


def _split(inputs: Any, batch_size: int) -> Iterator[Batch]:
    parts = _tensors(inputs)
    if parts:
        _check_lengths(parts)
        yield from zip(*(part.split(batch_size) for part in parts), strict=True)
    elif isinstance(inputs, Iterable) and not isinstance(inputs, str | bytes | dict):
        yield from map(_inputs_of, inputs)
    else:
        remedy = "pass x, (x1, x2) or a DataLoader"
        raise wrong_type("inputs", inputs, "be a tensor, a tuple of tensors or a loader of batches", remedy)


def _inputs_of(batch: Any) -> Batch:
    first = batch[0] if isinstance(batch, list | tuple) and batch else batch
    arguments = tuple(first) if isinstance(first, list | tuple) else (first,)  # torch collates tuples to lists
    if not arguments or not all(isinstance(argument, Tensor) and argument.ndim for argument in arguments):
        raise wrong_type("inputs", batch, "yield tensors, or (inputs, labels)", "adapt the loader's collate function")
    _check_lengths(arguments)
    return arguments


def _check_lengths(parts: tuple[Tensor, ...]) -> None:
    if any(part.ndim == 0 for part in parts):
        raise refusal("inputs", parts[0], "have an axis of examples", "pass x.unsqueeze(0) for a single example")
    lengths = [len(part) for part in parts]
    if len(set(lengths)) > 1:
        raise refusal("inputs", lengths, "have as many examples in each tensor", "a tuple holds several arguments")
