"""One plain training loop over `TrainingStep`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from itertools import islice
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import check_whole, refusal, wrong_type
from tribayes._progress import Advance, progress_bar
from tribayes.inference.callbacks import Audience, FitState, Told
from tribayes.inference.finite import NonFiniteLoss
from tribayes.inference.history import History, ValidationRecord
from tribayes.inference.ledger import Ledger
from tribayes.inference.objective import Objective
from tribayes.inference.step import AUTO, TrainingStep
from tribayes.inference.validation import HeldOut, Patience, Validation, check_batches
from tribayes.nn.calling import inputs_and_targets
from tribayes.posterior.streams import Randomness

_SECONDS_BETWEEN_REMARKS = 0.5  # reading a loss off a GPU waits for it; do it rarely

Batches = Iterable[Any]  # what `inputs_and_targets` takes apart

_MOST_EPOCHS = 10**9  # nobody sees the end of more


def fit(
    model: nn.Module,
    elbo: Objective,
    batches: Batches,
    optimizer: torch.optim.Optimizer,
    *,
    epochs: int = 1,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    validation: HeldOut | None = None,
    patience: int | None = None,
    callbacks: Told | Iterable[Told] = (),
    accumulate: int = 1,
    precision: torch.dtype | None = None,
    rule: str = "closed_form",
    clip: float | None = None,
    generator: Randomness = None,
    capture: bool | str = AUTO,
    progress: bool = True,
) -> History:
    """Train `model` on `batches` (a DataLoader, or any iterable of batches), `epochs` times over.

    A batch is (inputs, targets); or it is a Mapping or a dataclass, whose entry "labels", "label" or "targets" is taken
    out as the targets, and whose others are the network's named arguments. Inputs of a pair may be a tensor, a tuple or
    list of several arguments, or again a Mapping or dataclass. Arrays (NumPy, pandas) are taken as tensors.

    Every step is one of `TrainingStep`, whose options `rule`, `clip`, `generator`, `capture` and `precision` are;
    `scheduler` advances once per step. Batches are moved to the model's device. A loss that is not finite ends the
    training with a `NonFiniteLoss`, on a GPU up to 200 steps late; weights that have suffered are put back to those of
    the last look, for which a copy of the model is kept (docs/training.md).

    Args:
        validation: held-out examples, (inputs, targets) or a loader of batches: their NLL after each epoch, by the
            same 8 draws each time, is in `History.validation`.
        patience: stop after so many epochs without a better NLL of `validation`. The best state is put back in the
            end, whether it stopped early or not.
        callbacks: functions told of every epoch, or `Callback`s told of steps, too: for logs (docs/training.md).
        accumulate: batches per step, where a large batch does not fit into memory (`TrainingStep.accumulate`).

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> elbo = tribayes.ELBO(tribayes.Categorical(), data_size=8)
        >>> optimizer = torch.optim.SGD(tribayes.parameter_groups(model, lr=0.01), momentum=0.9, fused=True)
        >>> batches = [(torch.randn(8, 4), torch.randint(3, (8,)))]
        >>> history = fit(model, elbo, batches, optimizer, epochs=5, validation=batches[0], progress=False)
        >>> len(history), len(history.validation)
        (5, 5)
    """
    if check_whole("epochs", epochs, "choose how often to go over the data", least=1) > _MOST_EPOCHS:
        raise refusal("epochs", epochs, f"be at most {_MOST_EPOCHS:,}", "end a training by `patience` or a callback")
    check_whole("accumulate", accumulate, "pass the number of batches per step", least=1)
    if patience is not None and validation is None:
        raise refusal("patience", patience, "go with `validation`", "pass held-out examples: validation=(x, y)")
    check_batches("batches", batches)
    if scheduler is not None and not callable(getattr(scheduler, "step", None)):
        raise wrong_type("scheduler", scheduler, "be a schedule of torch.optim", "make one for the optimizer")
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):  # which wants a number
        remedy = "let a callback advance it: callbacks=lambda state: scheduler.step(state.validation[-1].nll)"
        raise refusal("scheduler", type(scheduler).__name__, "advance once per step", remedy)
    step = TrainingStep(
        model, elbo, optimizer, clip=clip, rule=rule, generator=generator, capture=capture, precision=precision
    )
    training = _Training(
        step,
        FitState(model, elbo, optimizer, epochs),
        Audience(callbacks),
        None if scheduler is None else scheduler.step,
        None if validation is None else Validation(validation, model, elbo),
        None if patience is None else Patience(patience, [model, elbo]),
        accumulate,
    )
    return training.run(batches, progress)


@dataclass
class _Training:
    """What goes on around the steps."""

    step: TrainingStep
    state: FitState
    audience: Audience
    next_rate: Callable[[], None] | None
    validation: Validation | None
    patience: Patience | None
    accumulate: int

    def run(self, batches: Batches, progress: bool) -> History:
        """Epoch by epoch, to the end or until someone stops it."""
        self.ledger = Ledger(self.step)
        each = -(-len(batches) // self.accumulate) if isinstance(batches, Sized) else None
        total = None if each is None else self.state.epochs * each
        try:
            with progress_bar("training", total, progress) as advance:
                for epoch in range(1, self.state.epochs + 1):
                    self.state.epoch = epoch
                    if self._epoch(batches, advance, progress) or self._after_epoch():
                        break
            history = self.ledger.history()
        except NonFiniteLoss as error:
            self.ledger.mend(error)
            raise
        if self.patience is not None:
            self.patience.restore()
        history.validation = self.state.validation
        return history

    def _epoch(self, batches: Batches, advance: Advance, progress: bool) -> bool:
        """All batches once; whether someone stopped it."""
        remark, said, before = "", 0.0, self.state.step
        for group in _groups(batches, self.accumulate):
            terms = self.step(*group[0]) if self.accumulate == 1 else self.step.accumulate(group)
            if self.next_rate is not None:
                self.next_rate()
            self.state.latest = self.ledger.add(terms)
            self.state.step += 1
            if progress and monotonic() - said > _SECONDS_BETWEEN_REMARKS:
                remark, said = f"epoch {self.state.epoch}/{self.state.epochs}  loss {self.state.loss:.4f}", monotonic()
            advance(remark=remark)
            if self.audience.after_step(self.state):
                return True
        if self.state.step == before:
            raise refusal("batches", batches, "yield batches in every epoch", "pass a DataLoader or a list")
        return False

    def _after_epoch(self) -> bool:
        """Validation and callbacks; whether training is over."""
        over = False
        if self.validation is not None:
            self.ledger.look()  # weights that are not finite have nothing to validate
            nll = self.validation.nll()
            self.state.validation.append(ValidationRecord(self.state.epoch, self.state.step, nll))
            over = self.patience is not None and self.patience.is_over(nll)
        return self.audience.after_epoch(self.state) or over


def _groups(batches: Batches, size: int) -> Iterator[list[tuple[Any, Tensor]]]:
    """Batches, so many at a time; the last ones may be fewer."""
    source = iter(batches)
    while group := [inputs_and_targets(batch) for batch in islice(source, min(size, sys.maxsize))]:
        yield group
