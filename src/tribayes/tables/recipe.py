"""How a network for a table is made and trained, where nobody says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from tribayes._errors import check_decay, check_rate, check_whole, refusal, wrong_type
from tribayes.inference.objective import AUTO, check_weight

Network = Callable[[int, int], nn.Module]
"""(inputs, outputs) → a network from (N, inputs) to (N, outputs)."""

CANDIDATES = ("auto", 1.0)  # the rule, and the evidence lower bound itself, where most of a target is noise


def multilayer_perceptron(inputs: int, outputs: int, hidden: int = 50) -> nn.Module:
    """One hidden layer of 50 ReLUs: what the tables of docs/coverage.md and docs/uci.md were learned with.

    >>> sum(weights.numel() for weights in multilayer_perceptron(10, 1).parameters())
    601
    """
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


@dataclass(frozen=True)
class Recipe:
    """How to train: AdamW, its rate falling to 0 along half a cosine.

    Attributes:
        network: makes it from the numbers of inputs and outputs.
        kl_weights: weights of the divergence to choose from by held-out rows (`tribayes.ELBO`'s); one is not chosen.
        calibrate: whether to hold rows out at all: to choose the weight and the widths by, and for the guarantee of
            intervals and sets.
        steps: of training, each time; more where that would be fewer than 20 epochs.
        batch_size: rows per step; more where there are more than 20,000 rows.
        lr: of the means, at the start.
        weight_decay: of the means.
        samples: networks that answer.
        device: to train and predict on, such as "cuda".

    Example:
        >>> Recipe(network=lambda inputs, outputs: nn.Linear(inputs, outputs), steps=100).batch_size
        64
    """

    network: Network = multilayer_perceptron
    kl_weights: tuple[float | str, ...] = CANDIDATES
    calibrate: bool = True
    steps: int = 2000
    batch_size: int = 64
    lr: float = 0.01
    weight_decay: float = 0.01
    samples: int = 200
    device: str = "cpu"

    def __post_init__(self) -> None:
        if isinstance(self.network, nn.Module) or not callable(self.network):
            requirement = "be a function of the numbers of inputs and outputs"
            remedy = "pass a function that makes a new network each time, e.g. lambda inputs, outputs: nn.Linear(...)"
            raise wrong_type("network", self.network, requirement, remedy)
        if isinstance(self.kl_weights, str) or not isinstance(self.kl_weights, Sequence):
            raise wrong_type("kl_weights", self.kl_weights, "be a sequence of weights", 'pass e.g. ("auto", 1.0)')
        _check_device(self.device)
        if not self.kl_weights:
            raise refusal("kl_weights", self.kl_weights, "have at least one", 'pass e.g. ("auto",)')
        for weight in self.kl_weights:
            if weight != AUTO:
                check_weight(weight)
        check_whole("steps", self.steps, "it counts steps of training", least=1)
        check_whole("batch_size", self.batch_size, "it counts rows", least=1)
        check_whole("samples", self.samples, "it counts networks that answer, such as 200", least=2)
        check_rate("lr", self.lr, "it is a learning rate, such as 0.01")
        check_decay("weight_decay", self.weight_decay, "pass e.g. 0.01, or 0")


def _check_device(word: object) -> None:
    """Refuse what is no device, or a GPU that is not there, before torch stumbles over it in the midst of a fit."""
    if not isinstance(word, str):
        raise wrong_type("device", word, "be text", 'pass "cpu" or "cuda"')
    try:
        place = torch.device(word)
    except RuntimeError as error:
        raise refusal("device", word, "be one that torch knows", 'pass "cpu" or "cuda"') from error
    if place.type == "cuda" and not torch.cuda.is_available():
        raise refusal("device", word, "be there, but torch sees no GPU", 'pass "cpu", or install torch for CUDA')
