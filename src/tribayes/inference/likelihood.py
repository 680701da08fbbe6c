"""What the network's outputs say about the targets: ln p(y | outputs), one value per example."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tribayes._errors import check_positive, refusal, wrong_type
from tribayes.posterior.parametrisation import delta_of, tau_of


class Likelihood(nn.Module, ABC):
    """Base of the likelihoods. Parameters of a likelihood (a learned noise) are ordinary parameters."""

    @abstractmethod
    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """−ln p(y | outputs) in nats, (N,): summed over whatever an example has beyond its first axis."""

    def mean_nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean of `nll` over the examples: what a step descends."""
        return self.nll(outputs, targets).mean()

    @abstractmethod
    def response(self, outputs: Tensor) -> Tensor:
        """What a network's outputs say, (N, C): class probabilities, or the mean of a new observation."""


class Categorical(Likelihood):
    """Classification: outputs are logits (N, C, …), targets class indices (N, …) or probabilities (N, C, …).

    In predictions logits are divided by `temperature`, if there is one: `tribayes.calibrate` may choose it.

    Example:
        >>> Categorical().nll(torch.zeros(2, 4), torch.tensor([0, 3]))
        tensor([1.3863, 1.3863])
    """

    temperature: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("temperature", None)

    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return _per_example(F.cross_entropy(outputs, self._checked(outputs, targets), reduction="none"))

    def mean_nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.ndim != 2:
            return super().mean_nll(outputs, targets)
        return F.cross_entropy(outputs, self._checked(outputs, targets))  # in one kernel

    def _checked(self, outputs: Tensor, targets: Tensor) -> Tensor:
        _check_batch(outputs, targets)
        if outputs.ndim < 2:
            raise refusal("outputs", outputs, "have the shape (N, C, …)", "give one logit per class")
        if targets.is_floating_point():
            _check_same_shape(outputs, targets, "pass class indices as integers, or one probability per class")
            return targets
        if targets.dtype == torch.bool:
            raise wrong_type("targets", targets, "be class indices", "convert them with targets.long()")
        expected = outputs.shape[:1] + outputs.shape[2:]
        if targets.shape != expected:
            requirement = f"have the shape {tuple(expected)} for logits {tuple(outputs.shape)}"
            raise refusal("targets", targets, requirement, "give one class index per example")
        return targets.long()

    def response(self, outputs: Tensor) -> Tensor:
        if outputs.ndim != 2 or outputs.shape[1] < 2:
            raise refusal("outputs", outputs, "have the shape (N, C) with at least two classes", "see tb.Bernoulli")
        return (outputs if self.temperature is None else outputs / self.temperature.to(outputs)).softmax(-1)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        if f"{prefix}temperature" in state_dict:
            self.temperature = torch.ones(())  # a place for it
        super()._load_from_state_dict(state_dict, prefix, *args)


class Gaussian(Likelihood):
    """Regression: y ~ N(outputs, noise²), targets of the outputs' shape.

    With `noise=1` this is the paper's Euclidean loss ½‖y − f(x)‖² plus the constant ½ ln 2π for each value.

    Args:
        noise: standard deviation of the observation noise.
        learned: whether it is a parameter, starting at `noise` (add it by `parameter_groups(model, likelihood=...)`).

    Example:
        >>> Gaussian(noise=0.1, learned=True).noise
        tensor(0.1000, grad_fn=<SoftplusBackward0>)
    """

    raw_noise: Tensor

    def __init__(self, noise: float = 1.0, learned: bool = False) -> None:
        super().__init__()
        check_positive("noise", noise, "it is the standard deviation of the observation noise")
        raw = delta_of(torch.tensor(float(noise), dtype=torch.float64)).to(torch.get_default_dtype())
        self.learned = learned
        if learned:
            self.raw_noise = nn.Parameter(raw)
        else:
            self.register_buffer("raw_noise", raw)

    @property
    def noise(self) -> Tensor:
        """The standard deviation of the observation noise, a scalar tensor."""
        return tau_of(self.raw_noise)

    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        _check_same_shape(outputs, targets, "reshape one of them: (N, 1) against (N,) would broadcast to (N, N)")
        noise = self.noise.to(outputs.dtype)
        return _per_example(0.5 * ((targets - outputs) / noise).square() + noise.log() + 0.5 * math.log(2 * math.pi))

    def response(self, outputs: Tensor) -> Tensor:
        return outputs.unsqueeze(-1) if outputs.ndim == 1 else outputs.flatten(1)

    def extra_repr(self) -> str:
        return f"noise={float(self.noise.detach()):.4g}, learned={self.learned}"


class Bernoulli(Likelihood):
    """Yes or no, any number of them: outputs are logits, targets 0 or 1 (or probabilities) of the same shape.

    Example:
        >>> Bernoulli().nll(torch.zeros(2), torch.tensor([0.0, 1.0]))
        tensor([0.6931, 0.6931])
    """

    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        _check_same_shape(outputs, targets, "give one target per logit")
        targets = targets.to(outputs.dtype)
        return _per_example(F.binary_cross_entropy_with_logits(outputs, targets, reduction="none"))

    def response(self, outputs: Tensor) -> Tensor:
        """(N, 2): the probabilities of no and yes."""
        if outputs.ndim > 2 or (outputs.ndim == 2 and outputs.shape[1] != 1):
            requirement = "be one logit per example, (N,) or (N, 1)"
            raise refusal("outputs", outputs, requirement, "predict one answer at a time")
        logits = outputs.reshape(-1, 1)
        return torch.cat([-logits, logits], dim=1).sigmoid()


def _per_example(values: Tensor) -> Tensor:
    return values.flatten(1).sum(1) if values.ndim > 1 else values


def _check_batch(outputs: Tensor, targets: Tensor) -> None:
    for name, value in (("outputs", outputs), ("targets", targets)):
        if not isinstance(value, Tensor):
            raise wrong_type(name, value, "be a tensor", "a network that returns more needs its own likelihood")
    if outputs.shape[:1] != targets.shape[:1]:
        raise refusal("targets", targets, f"have one entry for each of the {len(outputs)} examples", "check the batch")


def _check_same_shape(outputs: Tensor, targets: Tensor, remedy: str) -> None:
    _check_batch(outputs, targets)
    if outputs.shape != targets.shape:
        raise refusal("targets", targets, f"have the outputs' shape {tuple(outputs.shape)}", remedy)
