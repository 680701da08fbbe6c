"""Which likelihood a model was trained with, kept by the model, so that whoever asks it need not say it again.

It is a plain attribute: no submodule, no parameter, no key of the `state_dict`. A copy and a pickle of the model carry
their own copy of it; a model that is built anew and gets a `state_dict` knows of none.
"""

from __future__ import annotations

from torch import nn

from tribayes.inference.likelihood import Likelihood
from tribayes.nn.twin import bare

_PLACE = "_trained_with"


class _Held:
    """Hides a likelihood from torch, which would register it as a part of the model."""

    def __init__(self, likelihood: Likelihood) -> None:
        self.likelihood = likelihood


def remember(model: nn.Module, likelihood: Likelihood) -> None:
    """Let a model know what its outputs mean. Objectives do so when they meet a model; the last one is kept.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 1))
        >>> remember(model, tribayes.Gaussian(noise=0.1))
        >>> likelihood_of(torch.compile(model))
        Gaussian(noise=0.1, learned=False)
        >>> [name for name, _ in model.named_modules() if "trained" in name]
        []
    """
    if likelihood_of(model) is not likelihood:  # a step that is being traced or recorded sets nothing anew
        setattr(bare(model), _PLACE, _Held(likelihood))


def likelihood_of(model: nn.Module) -> Likelihood | None:
    """The likelihood that a model was trained with last, or None; it is the very object, not a copy."""
    held = vars(bare(model)).get(_PLACE)
    return held.likelihood if isinstance(held, _Held) else None
