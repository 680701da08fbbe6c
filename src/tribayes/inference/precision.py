"""Half precision in training: autocast, and for float16 a scale that keeps gradients from underflowing."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from tribayes._errors import refusal

_KINDS = (None, torch.bfloat16, torch.float16)


class Precision:
    """What a step does differently under a dtype of autocast; None does nothing, and leaves an autocast of yours alone.

    The networks' draws and layers run in that dtype; the law, the divergence and the loss stay in float32, and so do
    weights and gradients.
    """

    def __init__(self, kind: torch.dtype | None, device: torch.device) -> None:
        if kind not in _KINDS:
            raise refusal("precision", kind, "be None, torch.bfloat16 or torch.float16", "bfloat16 needs no scaling")
        if kind is torch.float16 and device.type != "cuda":
            requirement = f"not be float16 on {device.type}: its gradients are scaled on a GPU alone"
            raise refusal("precision", kind, requirement, "use torch.bfloat16")
        self._kind, self._device = kind, device
        self._scaler = torch.amp.GradScaler(device.type) if kind is torch.float16 else None

    @property
    def scales(self) -> bool:
        """Whether gradients are scaled."""
        return self._scaler is not None

    def autocast(self) -> AbstractContextManager[object]:
        """For the pass through the network."""
        return nullcontext() if self._kind is None else torch.autocast(self._device.type, dtype=self._kind)

    def scaled(self, weight: Tensor) -> Tensor:
        """What a term's gradient begins with."""
        return weight if self._scaler is None else self._scaler.scale(weight)

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Take the scale out of the gradients."""
        if self._scaler is not None:
            self._scaler.unscale_(optimizer)

    def may_update(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether gradients are fit for an update; adapts the scale, too.

        The scaler's own `step` would call a fused optimizer in any case, and with it the hook that keeps the running
        size of the gradients of δ and γ (steady.py): infinite once, infinite for good.
        """
        if self._scaler is None:
            return True
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        finite = bool(torch.stack([gradient.isfinite().all() for gradient in gradients]).all())
        self._scaler.update()
        return finite
