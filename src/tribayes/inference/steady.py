"""Steps of δ and γ that need no tuning: gradients without the size of their tensor.

The gradient of a tensor's δ or γ sums over its K weights, and K runs from 10 to 10⁷ within one network, so no learning
rate of SGD serves them all. Adam and its kin divide every gradient by its own running size and need nothing more. For
SGD the same is done here to groups that are marked `steady`: g / √v with v ← 0.99 v + 0.01 g², just before a step. The
expected step is still zero exactly where the expected gradient is, so what training converges to stays the same
(docs/steps.md compares this with the paper's κ and with natural gradients).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

MARK = "steady"

_MEMORY = 0.99
_TINY = 1e-30  # a gradient that was always zero stays zero

_registered = False


def watch_for_steady_groups() -> None:
    """From now on, a step of any SGD first looks for marked groups. Once for all: loops of one's own are served too."""
    global _registered
    if not _registered:
        register_optimizer_step_pre_hook(_before_step)
        _registered = True


def _before_step(
    optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Rescale what the step will use: gradients that are there, or those that a closure is going to compute."""
    if not isinstance(optimizer, torch.optim.SGD):
        return None
    closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)  # args begin with the optimizer itself
    if closure is None:
        _rescale_marked(optimizer)
        return None

    def computed() -> Any:
        loss = closure()
        _rescale_marked(optimizer)
        return loss

    return args[:1], {**kwargs, "closure": computed}


def _rescale_marked(optimizer: torch.optim.Optimizer) -> None:
    marked = [p for group in optimizer.param_groups if group.get(MARK) for p in group["params"] if p.grad is not None]
    if marked:
        rescale_([p.grad for p in marked], [_square(optimizer, p) for p in marked])


def _square(optimizer: torch.optim.Optimizer, parameter: Tensor) -> Tensor:
    """v of one parameter, kept where optimizers keep such things, so that it is saved and loaded with them."""
    state = optimizer.state[parameter]
    if "square" not in state:
        assert parameter.grad is not None
        state["square"] = parameter.grad.detach().square()
    square: Tensor = state["square"]
    return square


@torch.no_grad()
def rescale_(gradients: list[Tensor], squares: list[Tensor]) -> None:
    """Divide gradients by the root of their running mean square, in place; a few calls for all of them."""
    torch._foreach_mul_(squares, _MEMORY)
    torch._foreach_addcmul_(squares, gradients, gradients, value=1 - _MEMORY)
    roots = torch._foreach_sqrt(squares)
    torch._foreach_add_(roots, _TINY)
    torch._foreach_div_(gradients, roots)
