"""Examples in memory, and the order in which a training sees them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tribayes._errors import refusal, wrong_type
from tribayes._tensor_files import digest
from tribayes.nn.calling import kind_of
from tribayes.posterior.streams import Stream

Inputs = Tensor | tuple[Tensor, ...]


@dataclass(frozen=True)
class Examples:
    """What a network takes, a tensor or one for each of its arguments, and what it should answer; on one device.

    Example:
        >>> len(Examples(torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])))
        6
    """

    inputs: Inputs
    targets: Tensor

    def __post_init__(self) -> None:
        for tensor in (*self.arguments, self.targets):
            if not isinstance(tensor, Tensor):
                remedy = "pass (x, y), or ((x1, x2), y) for a network of several arguments"
                raise wrong_type("examples", kind_of(tensor), "be tensors", remedy)
        if self.targets.ndim == 0:
            raise refusal("targets", self.targets, "have one entry per example", "pass inputs and targets of a batch")
        for tensor in (*self.arguments, self.targets):
            if tensor.ndim == 0 or len(tensor) != len(self.targets) or tensor.device != self.targets.device:
                requirement = f"have one entry for each of the {len(self.targets):,} targets, on their device"
                raise refusal("examples", tensor, requirement, "pass inputs and targets of the same examples")

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """The inputs as the arguments of a network."""
        return self.inputs if isinstance(self.inputs, tuple) else (self.inputs,)

    @property
    def are_labelled(self) -> bool:
        """Whether the targets are classes."""
        return self.targets.ndim == 1 and self.targets.dtype == torch.int64

    def chosen(self, numbers: Tensor) -> Inputs:
        """The inputs of the examples with these numbers."""
        return tuple(x[numbers] for x in self.inputs) if isinstance(self.inputs, tuple) else self.inputs[numbers]

    def digest(self) -> str:
        """A checksum of all values."""
        return digest({"targets": self.targets} | {str(i): tensor for i, tensor in enumerate(self.arguments)})


def batch_order(examples: int, batch: int, start: int, steps: int, seed: int) -> Tensor:
    """(steps, batch): which examples each step sees, from `start` on; batches run on from one epoch into the next."""
    first, last = start * batch, (start + steps) * batch
    epochs = range(first // examples, (last - 1) // examples + 1)
    sources = (Stream((seed, 2, epoch)).generator(torch.device("cpu")) for epoch in epochs)
    orders = torch.cat([torch.randperm(examples, generator=source, device="cpu") for source in sources])
    offset = first - epochs[0] * examples
    return orders[offset : offset + steps * batch].view(steps, batch)
