"""A loss that is not finite: which step, which term, and what it probably comes from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from tribayes._errors import refusal
from tribayes.nn.module import BayesianModule
from tribayes.nn.stage import own_names
from tribayes.nn.zeros import count_zeros

_USUAL = "Usual causes are a learning rate too high (see also `clip`), NaN in the data, targets far from the outputs"


class NonFiniteLoss(FloatingPointError):
    """A loss became NaN or infinite. `step` (counted from 0), `nll` and `kl` say where and what.

    Example:
        >>> model, x = tb.to_bayesian(nn.Linear(1, 1)), torch.full((8, 1), math.nan)
        >>> elbo = tb.ELBO(tb.Gaussian(noise=0.1), data_size=8)
        >>> optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.01))
        >>> tb.fit(model, elbo, [(x, x)], optimizer, progress=False)
        Traceback (most recent call last):
        tribayes.inference.finite.NonFiniteLoss: the loss of step 0 is not finite: its nll is nan. Inputs of ...
    """

    def __init__(self, text: str, step: int, nll: float, kl: float) -> None:
        super().__init__(text)
        self.step, self.nll, self.kl = step, nll, kl


def non_finite_loss(
    step: int, nll: float, kl: float, model: nn.Module | None = None, batch: Any = None, afterwards: str = ""
) -> NonFiniteLoss:
    """The error, ready to be raised; causes are looked for in model and batch, where they are still as they were."""
    terms = {"nll": nll, "kl": kl}
    bad = [f"its {name} is {value}" for name, value in terms.items() if not math.isfinite(value)]
    what = " and ".join(bad) or f"nll {nll:.4g} and kl {kl:.4g} do not fit into one number"
    found = [*_in_batch(batch), *_in_model(model)]
    cause = "; ".join(found) if found else _USUAL
    text = f"the loss of step {step} is not finite: {what}. {cause[0].upper()}{cause[1:]}. {afterwards}".strip()
    return NonFiniteLoss(text, step, nll, kl)


def non_finite_weights(step: int, nll: float, kl: float) -> NonFiniteLoss:
    """The error where a loss was finite and the update after it was not."""
    text = f"the weights after step {step} are not finite, though its loss was: its gradient was not. {_USUAL}."
    return NonFiniteLoss(text, step, nll, kl)


def check_examples(inputs: Any, targets: Any) -> None:
    """Refuse a batch without examples, whose mean loss would be NaN."""
    for name, values in (("targets", targets), ("inputs", inputs)):
        for value in [values] if isinstance(values, Tensor) else tree_leaves(values):
            if isinstance(value, Tensor) and value.ndim and not value.shape[0]:
                raise refusal(name, value, "have at least one example", "leave empty batches out")


def _in_batch(batch: Any) -> list[str]:
    """What is wrong with a batch (inputs, targets)."""
    if batch is None:
        return []
    return [
        f"{name} of the batch hold NaN or infinity ({count})"
        for name, part in zip(("inputs", "targets"), batch, strict=True)
        for count in _counted(value for value in tree_leaves(part) if isinstance(value, Tensor))
    ]


def _in_model(model: nn.Module | None) -> list[str]:
    """What is wrong with a model."""
    if model is None:
        return []
    lost = [name for parameter, name in own_names(model).items() if not parameter.isfinite().all()]
    found = [f"weights are not finite any more ({', '.join(lost[:3])}): a step before was too long"] if lost else []
    for module in model.modules():
        if isinstance(module, BayesianModule):
            zeros = count_zeros(module.means_without_density(infinite=True))
            found += [f"{count} means of {name!r} are exactly zero" for name, count in zeros.items()]
    return found


def _counted(values: Iterable[Tensor]) -> list[str]:
    pairs = [(value, int((~value.isfinite()).sum())) for value in values]
    return [f"{count:,} of {value.numel():,} entries" for value, count in pairs if count]


def first_bad(rows: Tensor) -> int | None:
    """The number of the first row (loss, nll, kl) that is not finite; None where all are. Waits for the device."""
    bad = ~rows.isfinite().all(1)
    return int(bad.to(torch.uint8).argmax()) if bool(bad.any()) else None
