"""The losses of a training, left on the device and read now and then; and the weights from before a damage."""

from __future__ import annotations

import torch
from torch import Tensor

from tribayes.inference.finite import NonFiniteLoss, first_bad, non_finite_loss, non_finite_weights
from tribayes.inference.history import History
from tribayes.inference.objective import ELBOTerms
from tribayes.inference.snapshot import Snapshot
from tribayes.inference.step import TrainingStep

_STEPS_BETWEEN_LOOKS = 200  # a look waits for the GPU


class Ledger:
    """Keeps (loss, nll, kl) of every step, and a copy of model and objective from when all was well.

    A loss that is not finite ends the training: on a CPU in its own step, of which nothing is applied (`TrainingStep`);
    on a GPU at the next look, every 200 steps. Weights that have suffered are put back to the copy of the last look.
    """

    def __init__(self, step: TrainingStep) -> None:
        self._step = step
        self.rows: list[Tensor] = []
        self._looked = 0
        self._kept = Snapshot([step.model, step.elbo])

    def add(self, terms: ELBOTerms) -> Tensor:
        """Keep (and return) the terms of a step, which the next one may overwrite; now and then, look at them."""
        self.rows.append(torch.stack([terms.loss, terms.nll, terms.kl.to(terms.loss)]))
        if len(self.rows) - self._looked >= _STEPS_BETWEEN_LOOKS:
            self.look()
        return self.rows[-1]

    def look(self) -> None:
        """Raise if a loss since the last look, or a weight, is not finite; else keep the weights."""
        new = self.rows[self._looked :]
        if not new:
            return
        bad = first_bad(torch.stack(new))
        whole = self.weights_are_finite()
        if bad is None and whole:
            self._looked = len(self.rows)
            self._kept.take()
            return
        number = len(self.rows) - 1 if bad is None else self._looked + bad
        _, nll, kl = self.rows[number].tolist()
        raise (non_finite_weights if bad is None else non_finite_loss)(number, nll, kl)

    def mend(self, error: NonFiniteLoss) -> None:
        """Put weights that are not finite back to what they were at the last look, and say so in the error."""
        if self.weights_are_finite():
            error.add_note("The weights are those from before that step.")
            return
        self._kept.restore()
        note = f"The weights were put back to those after {self._looked} steps; make a new optimizer before going on."
        error.add_note(note)

    def weights_are_finite(self) -> bool:
        """Whether every number that learns is; waits for the device."""
        modules = (self._step.model, self._step.elbo)
        whole = [parameter.detach().isfinite().all() for module in modules for parameter in module.parameters()]
        return bool(torch.stack([one.to(whole[0].device) for one in whole]).all())

    def history(self) -> History:
        """Everything, read."""
        self.look()
        return History(*torch.stack(self.rows).T.tolist())
