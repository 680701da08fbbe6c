"""What can be predicted from: a tensor, several, named ones, or a loader of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from tribayes._arrays import is_array, tensor_of
from tribayes._errors import refusal, wrong_type
from tribayes.nn.calling import Arguments, Home, Whole, arguments_of, is_record, kind_of, named_parts, without_targets

_CHUNK_BYTES = 2**28  # of inputs, gathered before the sampled networks run over them
_BATCH = 1000  # examples per pass on a CPU
_GPU_BATCH, _GPU_BATCH_BYTES = 10_000, 2**25  # on a GPU, which at a thousand small ones would wait for Python


class Batch(NamedTuple):
    """The arguments of the network for some examples, and how many these are; None where only its answer will tell."""

    arguments: Arguments
    rows: int | None

    @property
    def tensors(self) -> list[Tensor]:
        return [leaf for leaf in tree_leaves(self.arguments) if isinstance(leaf, Tensor)]

    @property
    def cost(self) -> int:
        """Bytes."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors)

    def split(self, size: int) -> Iterator[Batch]:
        """In parts of at most so many examples. What is no tensor goes with every part."""
        if self.rows is None or self.rows <= size:
            yield self
            return
        for start in range(0, self.rows, size):
            rows = min(size, self.rows - start)
            cut = partial(Tensor.narrow, dim=0, start=start, length=rows)
            yield Batch(tree_map_only(Tensor, cut, self.arguments), rows)


def given(inputs: Any, home: Home) -> Batch | Iterable[Any]:
    """What `predict` was given, of any kind that it takes: all of it as one batch, or the loader that it is."""
    if isinstance(inputs, Whole | Mapping) or is_record(inputs) or _is_tensor(inputs):
        return _batch(inputs, home)
    if isinstance(inputs, tuple) and inputs and all(map(_is_tensor, inputs)):
        return _batch(inputs, home)
    if isinstance(inputs, Iterable) and not isinstance(inputs, str | bytes):
        return inputs
    remedy = "pass x, (x1, x2), {name: x} or a DataLoader, or tb.Whole(...) for what must not be cut"
    raise wrong_type("inputs", inputs, "be a tensor, several of them or a loader of batches", remedy)


def batches_of(inputs: Batch | Iterable[Any], batch_size: int, home: Home) -> Iterator[Batch]:
    """What was given, in batches where the network is, checked for NaN and infinity."""
    seen = 0
    parts = inputs.split(batch_size) if isinstance(inputs, Batch) else (_of_loader(batch, home) for batch in inputs)
    for part in parts:
        batch = Batch(home.arguments(part.arguments), part.rows)
        for tensor in batch.tensors:
            for values in dense_parts(tensor):
                _check_finite(values, seen)
        seen += 1 if batch.rows is None else batch.rows
        if batch.rows != 0:
            yield batch
    if seen == 0:
        found = inputs.tensors[0] if isinstance(inputs, Batch) else inputs
        raise refusal("inputs", found, "hold at least one example", "the tensor or loader is empty")


def usual_batch_size(inputs: Batch | Iterable[Any], device: torch.device) -> int:
    """Examples per pass where none are asked for: 1,000; on a GPU up to 10,000, but no more than 32 MiB of them."""
    if device.type != "cuda" or not isinstance(inputs, Batch) or not inputs.rows:
        return _BATCH
    return max(1, min(_GPU_BATCH, _GPU_BATCH_BYTES // max(inputs.cost // inputs.rows, 1)))


def count_examples(inputs: Batch | Iterable[Any]) -> int | None:
    """How many examples there are, where that can be known without reading them."""
    if isinstance(inputs, Batch):
        return inputs.rows
    dataset = getattr(inputs, "dataset", None)
    return len(dataset) if isinstance(dataset, Sized) else None


def chunks_of(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    """Batches cut and gathered to at most `size` examples and, but for a single batch, 256 MiB."""
    chunk: list[Batch] = []
    examples = held = 0
    for whole in batches:
        for batch in whole.split(size):
            rows = size if batch.rows is None else batch.rows
            if chunk and (examples + rows > size or held + batch.cost > _CHUNK_BYTES):
                yield chunk
                chunk, examples, held = [], 0, 0
            chunk.append(batch)
            examples, held = examples + rows, held + batch.cost
    if chunk:
        yield chunk


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor) or is_array(value)


def _of_loader(batch: Any, home: Home) -> Batch:
    """A loader's batch: inputs, or inputs before labels."""
    if isinstance(batch, list | tuple) and len(batch) > 2 and not hasattr(batch, "to"):  # as `fit` does
        remedy = "for a network of several arguments yield ((x1, x2), targets)"
        raise wrong_type("inputs", kind_of(batch), "yield inputs, or (inputs, labels)", remedy)
    inputs = batch[0] if isinstance(batch, list | tuple) and batch else batch
    if not (isinstance(inputs, Whole | Mapping | list | tuple) or is_record(inputs) or _is_tensor(inputs)) or (
        isinstance(inputs, Tensor) and not inputs.ndim
    ):
        requirement = "yield tensors, named tensors, or (inputs, labels)"
        raise wrong_type("inputs", batch, requirement, "adapt the loader's collate function")
    return _batch(inputs, home)


def _batch(inputs: Any, home: Home) -> Batch:
    """The arguments that inputs stand for, without targets, arrays as tensors; and how many examples these are."""
    whole = isinstance(inputs, Whole)
    inputs = inputs.inputs if isinstance(inputs, Whole) else inputs
    if isinstance(inputs, Mapping) or is_record(inputs):
        inputs = without_targets(named_parts(inputs))
    arguments = tree_map(lambda leaf: tensor_of("inputs", leaf, home.dtype), arguments_of(inputs))
    tensors = Batch(arguments, None).tensors
    for tensor in tensors:
        if tensor.is_meta or tensor.is_quantized:
            kind = f"tensor of {tensor.dtype} on {tensor.device}"
            raise refusal("inputs", kind, "hold plain numbers", "pass one with memory, and x.dequantize() of it")
        if not whole and (tensor.is_nested or tensor.layout != torch.strided):
            kind = f"tensor of the layout {tensor.layout}"
            remedy = "pass x.to_dense(), or tb.Whole(...) for what must not be cut"
            raise refusal("inputs", kind, "be dense, where it is cut into batches", remedy)
    if whole:
        return Batch(arguments, None)
    if not tensors:
        remedy = "pass tensors with a row per example, or tb.Whole(...) for what must not be cut"
        raise wrong_type("inputs", kind_of(inputs), "hold tensors", remedy)
    if any(tensor.ndim == 0 for tensor in tensors):
        raise refusal("inputs", tensors[0], "have an axis of examples", "pass x.unsqueeze(0) for a single example")
    if len({len(tensor) for tensor in tensors}) > 1:
        found = kind_of(inputs) if arguments.kwargs else [len(tensor) for tensor in tensors]
        remedy = "a tuple holds several arguments, and tb.Whole(...) what must not be cut, such as a graph"
        raise refusal("inputs", found, "have as many examples in each tensor", remedy)
    return Batch(arguments, len(tensors[0]))


def dense_parts(tensor: Tensor) -> Sequence[Tensor]:
    """What a tensor is made of, each part dense: a sparse one of places and numbers, a nested one of others."""
    if tensor.is_nested:
        return tensor.unbind()
    if tensor.layout == torch.sparse_coo:
        return tensor.coalesce().indices(), tensor.coalesce().values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor,)


def _check_finite(tensor: Tensor, seen: int) -> None:
    tensor = tensor.float() if tensor.is_floating_point() and tensor.element_size() == 1 else tensor
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        bad = ~torch.isfinite(tensor.reshape(len(tensor) if tensor.ndim else 1, -1)).all(1)
        example = f"example {seen + int(bad.nonzero()[0])}"
        raise refusal("inputs", example, "be finite, but holds NaN or infinity", "clean the data")
