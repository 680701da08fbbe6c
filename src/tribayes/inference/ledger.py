"""The losses of a training, left on the device and read now and then; and the weights from before a damage."""

from __future__ import annotations

from array import array

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
        self._new: list[Tensor] = []  # since the last look; on a GPU half a kilobyte each
        self._read = array("d")  # before it: loss, nll and kl in turns
        self._kept = Snapshot([step.model, step.elbo])

    def add(self, terms: ELBOTerms) -> Tensor:
        """Keep (and return) the terms of a step, which the next one may overwrite; now and then, look at them."""
        row = torch.stack([terms.loss, terms.nll, terms.kl.to(terms.loss)])
        self._new.append(row)
        if len(self._new) >= _STEPS_BETWEEN_LOOKS:
            self.look()
        return row

    def look(self) -> None:
        """Raise if a loss since the last look, or a weight, is not finite; else keep the weights."""
        if not self._new:
            return
        rows = torch.stack(self._new)
        bad = first_bad(rows)
        if bad is None and self.weights_are_finite():
            self._read.extend(rows.flatten().tolist())
            self._new.clear()
            self._kept.take()
            return
        place = len(rows) - 1 if bad is None else bad
        _, nll, kl = rows[place].tolist()
        raise (non_finite_weights if bad is None else non_finite_loss)(self._looked + place, nll, kl)

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
        loss, nll, kl = (self._read[place::3].tolist() for place in range(3))
        return History(loss, nll, kl)

    @property
    def _looked(self) -> int:
        """Steps up to the last look."""
        return len(self._read) // 3
