"""A network that computes a loss from labels by itself, and is trained by that alone: noticed, and said once.

Networks of transformers do so, and its Trainer takes that loss. It has no divergence, so nothing holds the posterior:
the noise only disturbs, and is trained away. The rule: passes in training whose answer has a loss with a graph, two
updates of the weights between them, and nobody asked for KL(q ‖ p) meanwhile.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

_UPDATES = 2  # without the divergence

_steps: list[int] = []  # how many any optimizer has made, once someone looks: [count]


class LossWatch:
    """What was seen of one model's passes."""

    def __init__(self) -> None:
        if not _steps:  # a weight's own version number will not do: fused optimizers leave it as it is
            _steps.append(0)
            register_optimizer_step_post_hook(_count)
        self._at, self._updates, self._said = _steps[0], 0, False
        self.asked = False  # for the divergence, since the last update

    def look(self) -> None:
        """At another pass with a loss: whether weights were updated without a divergence since the one before."""
        if _steps[0] == self._at:
            return
        self._updates = 0 if self.asked else self._updates + 1
        self._at, self.asked = _steps[0], False
        if self._updates == _UPDATES and not self._said:
            self._said = True
            warnings.warn(_WORDS, UserWarning, stacklevel=4)


def _count(*_: Any) -> None:
    _steps[0] += 1


_WORDS = (
    "the network computes its own loss from `labels`, and is trained by it without the divergence KL(q ‖ p): its "
    "uncertainty will mean nothing. For transformers' Trainer use tribayes.integrations.transformers.TriBayesTrainer; "
    "in your own loop minimise tb.ELBO(...)(model, inputs, labels).loss, or answer.loss + tb.kl(model) / data_size."
)


def watch_own_loss(model: Any, answer: Any) -> None:
    """After a pass that was given labels."""
    if not model.training or torch.compiler.is_compiling():
        return
    loss = answer.get("loss") if isinstance(answer, Mapping) else getattr(answer, "loss", None)
    if not (isinstance(loss, Tensor) and loss.requires_grad):
        return
    if model._loss_watch is None:
        model._loss_watch = LossWatch()
    else:
        model._loss_watch.look()
