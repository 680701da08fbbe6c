"""Whether targets can be what they are said to be. Shapes are always looked at, for they cost nothing.

Values are looked at on a CPU alone. On a GPU the look would make every step wait for the device, and could not be part
of a recorded step; while torch traces or maps a function there are no values to look at.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tribayes._errors import check_all, check_plain, refusal, wrong_type

_SLACK = 1e-4  # by which probabilities may miss a sum of 1, beside the rounding of their dtype


def per_example(values: Tensor) -> Tensor:
    """(N,): summed over whatever an example has beyond its first axis."""
    return values.flatten(1).sum(1) if values.ndim > 1 else values


def check_each(nll: Tensor, likelihood: str) -> None:
    """Refuse what is not one number per example: a mean, entries that were not summed, (N, 1) beside (N,) broadcast."""
    if not isinstance(nll, Tensor):
        raise wrong_type("nll", nll, f"be a tensor where {likelihood} returns it", "compute it by torch alone")
    if not nll.ndim or nll.numel() != len(nll):
        requirement = f"be (N,), one number per example, where {likelihood} returns it"
        remedy = "sum over an example's own entries, not over examples: .flatten(1).sum(1); see that no two broadcast"
        raise refusal("nll", nll, requirement, remedy)


def check_outputs(outputs: Tensor) -> None:
    """Refuse what is no tensor of real numbers."""
    if not isinstance(outputs, Tensor):
        raise wrong_type("outputs", outputs, "be a tensor", "a network that returns more needs its own likelihood")
    if not outputs.is_floating_point():
        raise wrong_type("outputs", outputs, "be floating-point numbers", "pass what the network returns, as floats")
    check_plain("outputs", outputs)


def check_batch(outputs: Tensor, targets: Tensor) -> None:
    """Refuse what is no tensor, an empty batch, and targets of another batch."""
    check_outputs(outputs)
    if not isinstance(targets, Tensor):
        raise wrong_type("targets", targets, "be a tensor", "convert them with torch.tensor(targets)")
    check_plain("targets", targets)
    if outputs.ndim == 0:
        remedy = "choose the part of the network's answer that counts: output=..., of the objective"
        raise refusal("outputs", outputs, "have one row per example, but are a single number", remedy)
    if len(outputs) == 0:
        raise refusal("outputs", outputs, "hold at least one example", "the batch is empty: its mean would be NaN")
    if targets.ndim == 0:
        remedy = "batch single examples first: a DataLoader in the place of its dataset, x.unsqueeze(0) for x"
        raise refusal("targets", targets, "have an axis of examples, but are a single number", remedy)
    if outputs.shape[:1] != targets.shape[:1]:
        raise refusal("targets", targets, f"have one entry for each of the {len(outputs)} examples", "check the batch")


def check_same_shape(outputs: Tensor, targets: Tensor, remedy: str) -> None:
    """The same, and targets of another shape."""
    check_batch(outputs, targets)
    if outputs.shape != targets.shape:
        raise refusal("targets", targets, f"have the outputs' shape {tuple(outputs.shape)}", remedy)


def check_numbers(targets: Tensor) -> None:
    """Refuse what is no number: yes or no has no distance."""
    if targets.dtype == torch.bool:
        raise wrong_type("targets", targets, "be real numbers", "convert them with targets.float()")


def check_classes(targets: Tensor, classes: int, ignored: int | None) -> None:
    """Refuse a label that is no class."""
    legal = (targets >= 0) & (targets < classes)
    if ignored is not None:
        legal = legal | (targets == ignored)
    remedy = "correct the labels, or name the one that was not observed: tb.Categorical(ignore_index=-100)"
    check_all("targets", targets, legal, f"lie in [0, {classes}), for the network has {classes} classes", remedy)


def check_shares(targets: Tensor, axis: int) -> None:
    """Refuse class probabilities that are negative, or do not sum to 1 over that axis."""
    if can_be_looked_at(targets):
        remedy = "pass class indices, or one probability per class"
        check_all("targets", targets, targets >= 0, "not be negative", remedy)
        sums = targets.sum(axis, dtype=torch.float64)
        near = (sums - 1).abs() <= _SLACK + 4 * torch.finfo(targets.dtype).eps
        check_all(f"targets.sum({axis})", sums, near, "be 1 over the classes of each example", remedy)


def check_unit(targets: Tensor) -> None:
    """Refuse answers that are neither 0 nor 1 nor a probability between them."""
    if can_be_looked_at(targets):
        legal = (targets >= 0) & (targets <= 1)
        check_all("targets", targets, legal, "lie in [0, 1]", "pass 0 for no and 1 for yes, or a probability")


def check_counts(targets: Tensor) -> None:
    """Refuse what cannot have been counted."""
    if can_be_looked_at(targets):
        legal = (targets >= 0) & (targets == targets.round()) & targets.isfinite()
        check_all("targets", targets, legal, "be whole numbers, not negative", "pass counts")


def can_be_looked_at(targets: Tensor) -> bool:
    """Whether its values are here, and now."""
    traced = torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None
    return targets.is_cpu and not traced
