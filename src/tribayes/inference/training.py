"""One plain training loop: guards, objective, gradient, step."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import check_positive, refusal
from tribayes._progress import progress_bar
from tribayes.inference.objective import ELBO, ELBOTerms
from tribayes.nn.convert import stabilise_

_SECONDS_BETWEEN_REMARKS = 0.5  # reading a loss off a GPU waits for it; do it rarely


@dataclass
class History:
    """What training saw, a value a step: the loss, and its two terms."""

    loss: list[float] = field(default_factory=list)
    nll: list[float] = field(default_factory=list)
    kl: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.loss)

    def as_dict(self) -> dict[str, list[float]]:
        return {"loss": self.loss, "nll": self.nll, "kl": self.kl}


def fit(
    model: nn.Module,
    elbo: ELBO,
    batches: Iterable[tuple[Any, Tensor]],
    optimizer: torch.optim.Optimizer,
    *,
    epochs: int = 1,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    rule: str = "closed_form",
    clip: float | None = None,
    progress: bool = True,
) -> History:
    """Train `model` on `batches` (a DataLoader, or any iterable of (inputs, targets)), `epochs` times over.

    Each step applies the guards, as the paper's pseudocode does, then minimises the ELBO; `scheduler` advances once a
    step; `rule` and `clip` are `training_step`'s. Nothing here is hidden: a loop of your own is `stabilise_`,
    `elbo(model, x, y).loss.backward()` and `optimizer.step()`.

    Example:
        >>> history = fit(model, elbo, loader, optimizer, epochs=5)
        >>> history.loss[-1]
    """
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
        raise refusal("epochs", epochs, "be a whole number, at least 1", "choose how often to go over the data")
    total = epochs * len(batches) if isinstance(batches, Sized) else None
    records: list[Tensor] = []
    said = 0.0
    remark = ""
    with progress_bar("training", total, progress) as advance:
        for epoch in range(epochs):
            seen = len(records)
            for inputs, targets in batches:
                terms = training_step(model, elbo, inputs, targets, optimizer, step=len(records), rule=rule, clip=clip)
                if scheduler is not None:
                    scheduler.step()
                records.append(torch.stack([terms.loss, terms.nll, terms.kl.to(terms.loss)]).detach())
                if progress and monotonic() - said > _SECONDS_BETWEEN_REMARKS:
                    remark, said = f"epoch {epoch + 1}/{epochs}  loss {terms.loss.item():.4f}", monotonic()
                advance(remark=remark)
            if len(records) == seen:
                raise refusal("batches", batches, "yield batches in every epoch", "pass a DataLoader or a list")
    return History(*torch.stack(records).T.tolist())


def training_step(
    model: nn.Module,
    elbo: ELBO,
    inputs: Any,
    targets: Tensor,
    optimizer: torch.optim.Optimizer,
    *,
    step: int | None = None,
    rule: str = "closed_form",
    clip: float | None = None,
) -> ELBOTerms:
    """One step: guards, one draw of the weights, gradient, update. Returns the terms of the objective.

    `clip` bounds every entry of the gradient. A mean next to zero feels ν/m of the divergence, up to 1e6 ν: with the
    paper's small ν that is harmless, but for plain SGD with `kl_weight=1` on a small data set it is a jump.
    """
    stabilise_(model, rule)
    terms: ELBOTerms = elbo(model, inputs, targets, step=step)
    optimizer.zero_grad(set_to_none=True)
    terms.loss.backward()
    if clip is not None:
        check_positive("clip", clip, "it bounds the absolute value of every entry of the gradient")
        nn.utils.clip_grad_value_([p for group in optimizer.param_groups for p in group["params"]], clip)
    optimizer.step()
    return terms
