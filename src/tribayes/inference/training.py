"""One plain training loop: guards, objective, gradient, step."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
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
    progress: bool = True,
) -> History:
    """Train `model` on `batches` (a DataLoader, or any iterable of (inputs, targets)), `epochs` times over.

    Each step applies the guards, as the paper's pseudocode does, then minimises the ELBO; `scheduler` advances once a
    step. Nothing here is hidden: a loop of your own is `stabilise_`, `elbo(model, x, y).loss.backward()` and
    `optimizer.step()`.

    Example:
        >>> history = fit(model, elbo, loader, optimizer, epochs=5)
        >>> history.loss[-1]
    """
    total = epochs * len(batches) if isinstance(batches, Sized) else None
    records: list[Tensor] = []
    said = 0.0
    remark = ""
    with progress_bar("training", total, progress) as advance:
        for epoch in range(epochs):
            seen = len(records)
            for inputs, targets in batches:
                terms = training_step(model, elbo, inputs, targets, optimizer, step=len(records), rule=rule)
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
) -> ELBOTerms:
    """One step: guards, one draw of the weights, gradient, update. Returns the terms of the objective."""
    stabilise_(model, rule)
    terms: ELBOTerms = elbo(model, inputs, targets, step=step)
    optimizer.zero_grad(set_to_none=True)
    terms.loss.backward()
    optimizer.step()
    return terms
