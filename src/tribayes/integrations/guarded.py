"""What `TrainingStep` does before its backward pass, for libraries whose trainers do the rest themselves."""

from __future__ import annotations

import warnings
from collections.abc import Sized
from typing import Any

import torch
from torch import nn

from tribayes._errors import wrong_type
from tribayes.inference.finite import non_finite_loss
from tribayes.inference.learned import check_complete
from tribayes.inference.objective import ELBO, ELBOTerms
from tribayes.inference.rates import RateWatch
from tribayes.nn.calling import inputs_and_targets
from tribayes.nn.convert import bayesian_modules, stabilise_


class GuardedLoss:
    """Guards, one fresh draw, and the terms of the ELBO with their graph.

    An optimizer that lacks parameters, a schedule that erases the groups' rates, means of exactly zero and, on a CPU, a
    loss that is not finite are said as `TrainingStep` says them. The guards are those that throw no coins, so processes
    that share a model need not agree on any.

    Example:
        >>> model, elbo = tb.to_bayesian(nn.Linear(4, 3)), tb.ELBO(tb.Categorical(), data_size=8)
        >>> loss = GuardedLoss(model, elbo, torch.optim.Adam(tb.parameter_groups(model, lr=0.01)))
        >>> loss(model, (torch.randn(8, 4), torch.randint(3, (8,))), step=0).loss.backward()
    """

    def __init__(self, model: nn.Module, elbo: ELBO, optimizer: torch.optim.Optimizer) -> None:
        check_complete(model, elbo, optimizer)
        for module in bayesian_modules(model):
            module.warn_of_zeros()
        self._elbo, self._watch = elbo, RateWatch(optimizer)

    def __call__(self, model: nn.Module, batch: Any, step: int) -> ELBOTerms:
        """The terms for a batch as `fit` takes it; `model` may be wrapped by now, and `step` counts updates."""
        self._watch.look()
        stabilise_(model)
        inputs, targets = inputs_and_targets(batch)
        terms = self._elbo(model, inputs, targets, step)
        if terms.loss.device.type == "cpu" and not terms.loss.isfinite():  # elsewhere looking would wait
            nll, divergence = terms.nll.item(), terms.kl.item()
            raise non_finite_loss(step, nll, divergence, model, (inputs, targets), "No update was made.")
        return terms


def check_elbo(elbo: object) -> None:
    """Refuse what is no ELBO."""
    if not isinstance(elbo, ELBO):
        raise wrong_type("elbo", elbo, "be an ELBO", "pass e.g. tb.ELBO(tb.Categorical(), data_size=len(dataset))")


def warn_of_data_size(elbo: ELBO, dataset: object) -> None:
    """Say it where `data_size` is not the number of training examples: the divergence then has another weight."""
    if isinstance(dataset, Sized) and len(dataset) != elbo.data_size:
        share = len(dataset) / elbo.data_size
        warnings.warn(
            f"`data_size` (={elbo.data_size:,}) is not the number of training examples, {len(dataset):,}: the "
            f"divergence weighs {share:.3g} times what it should; pass tb.ELBO(..., data_size={len(dataset)}).",
            UserWarning,
            stacklevel=3,
        )
