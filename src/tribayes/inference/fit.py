"""One plain training loop over `TrainingStep`."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import check_whole, refusal
from tribayes._progress import progress_bar
from tribayes.inference.objective import Objective
from tribayes.inference.step import AUTO, TrainingStep
from tribayes.posterior.streams import Randomness

_SECONDS_BETWEEN_REMARKS = 0.5  # reading a loss off a GPU waits for it; do it rarely


@dataclass
class History:
    """What training saw, one value per step: the loss, and its two terms."""

    loss: list[float] = field(default_factory=list)
    nll: list[float] = field(default_factory=list)
    kl: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.loss)

    def as_dict(self) -> dict[str, list[float]]:
        return {"loss": self.loss, "nll": self.nll, "kl": self.kl}


def fit(
    model: nn.Module,
    elbo: Objective,
    batches: Iterable[tuple[Any, Tensor]],
    optimizer: torch.optim.Optimizer,
    *,
    epochs: int = 1,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    rule: str = "closed_form",
    clip: float | None = None,
    generator: Randomness = None,
    capture: bool | str = AUTO,
    progress: bool = True,
) -> History:
    """Train `model` on `batches` (a DataLoader, or any iterable of (inputs, targets)), `epochs` times over.

    Every step is one of `TrainingStep`, whose options `rule`, `clip`, `generator` and `capture` are; `scheduler`
    advances once per step. Batches are moved to the model's device.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> elbo = tribayes.ELBO(tribayes.Categorical(), data_size=8)
        >>> optimizer = torch.optim.SGD(tribayes.parameter_groups(model, lr=0.01), momentum=0.9, fused=True)
        >>> batches = [(torch.randn(8, 4), torch.randint(3, (8,)))]
        >>> len(fit(model, elbo, batches, optimizer, epochs=5, progress=False))
        5
    """
    check_whole("epochs", epochs, "choose how often to go over the data", least=1)
    step = TrainingStep(model, elbo, optimizer, clip=clip, rule=rule, generator=generator, capture=capture)
    total = epochs * len(batches) if isinstance(batches, Sized) else None
    records: list[Tensor] = []
    remark, said = "", 0.0
    with progress_bar("training", total, progress) as advance:
        for epoch in range(epochs):
            seen = len(records)
            for inputs, targets in batches:
                terms = step(inputs, targets)
                if scheduler is not None:
                    scheduler.step()
                records.append(torch.stack([terms.loss, terms.nll, terms.kl.to(terms.loss)]))
                if progress and monotonic() - said > _SECONDS_BETWEEN_REMARKS:
                    remark, said = f"epoch {epoch + 1}/{epochs}  loss {terms.loss.item():.4f}", monotonic()
                advance(remark=remark)
            if len(records) == seen:
                raise refusal("batches", batches, "yield batches in every epoch", "pass a DataLoader or a list")
    return History(*torch.stack(records).T.tolist())
