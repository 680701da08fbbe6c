"""What the network's outputs say about the targets: ln p(y | outputs), one value per example, and what is predicted.

The likelihoods of classes and the Gaussian are here; values.py has the other likelihoods of values (docs/likelihoods.md
shows all of them, and how to write one).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tribayes._errors import check_whole, is_number, refusal, wrong_type
from tribayes.inference.noise import Noise, NormalNoise
from tribayes.inference.positive import put_positive, rows_of_values
from tribayes.inference.targets import (
    check_batch,
    check_classes,
    check_each,
    check_numbers,
    check_outputs,
    check_same_shape,
    check_shares,
    check_unit,
    per_example,
)
from tribayes.posterior.draw.plain import single
from tribayes.posterior.parametrisation import rescale_, tau_of

CLASSES, LABELS, VALUES = "classes", "labels", "values"  # what a likelihood may predict

_NO_LABEL = -(2**31) + 1  # torch ignores one label; this one nobody has, and it fits into every kernel's integers


class Likelihood(nn.Module, ABC):
    """Base of the likelihoods. Parameters of a likelihood (a learned noise) are ordinary parameters.

    `predicts` says what `tribayes.predict` makes of the networks' answers; without it a likelihood can be trained with,
    but not predict:

    - "classes": `response` is class probabilities (N, …, C), the classes last; the answer is a `ClassPredictive`;
    - "labels": `response` is the probabilities of no and yes (N, …, L, 2); a `LabelPredictive`;
    - "values": `response` is what is said about D values, (N, D) or more by the `Noise` that `noise_law` names; a
      `RegressionPredictive`;
    - or a subclass of `Predictive` of your own.

    Example:
        >>> class Exponential(Likelihood):
        ...     def nll(self, outputs, targets):  # outputs: the logarithm of the rate, (N, 1)
        ...         return (outputs.exp() * targets - outputs).squeeze(1)
        ...     def response(self, outputs):
        ...         return outputs
        >>> Exponential().mean_nll(torch.zeros(2, 1), torch.tensor([[1.0], [3.0]]))
        tensor(2.)
    """

    predicts: ClassVar[Any] = None

    @abstractmethod
    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """−ln p(y | outputs) in nats, (N,): summed over whatever an example has beyond its first axis."""

    def each_nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """`nll`, refused where it is not one number per example."""
        nll = self.nll(outputs, targets)
        check_each(nll, type(self).__name__)
        return nll

    def mean_nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean of `nll` over the examples: what a step descends."""
        return self.each_nll(outputs, targets).mean()

    @abstractmethod
    def response(self, outputs: Tensor) -> Tensor:
        """What one network's outputs say, one row per example, as `predicts` has it."""

    def noise_law(self) -> Noise:
        """How observations scatter about the response, as it is now: for likelihoods that predict "values"."""
        remedy = "let noise_law() return e.g. tb.NormalNoise(scale)"
        raise refusal("likelihood", type(self).__name__, "say how observations scatter about its values", remedy)

    def widen_(self, factor: float) -> None:
        """Multiply the scale of the noise, in place; asked where the `Noise` says `can_widen`."""
        remedy = "define it, or let can_widen be False"
        raise refusal("likelihood", type(self).__name__, f"have widen_({factor:.3g}) for its noise", remedy)


class Categorical(Likelihood):
    """Classification: outputs are logits (N, C, …), targets class indices (N, …) or probabilities (N, C, …).

    So it is for labels (N, C), pixels (N, C, H, W) and, with `class_axis=-1`, tokens (N, T, C): an example is all of
    its pixels or tokens, and its negative log likelihood their sum. In predictions logits are divided by `temperature`,
    if there is one: `tribayes.calibrate` may choose it.

    On a CPU a label that is no class is refused; on a GPU, where to look would mean to wait, it is torch's device
    assertion, and probabilities are not looked at.

    Args:
        class_weights: a factor for each class on its log likelihood. The mean is still over examples, not over weights.
        label_smoothing: share of each label that is spread over all classes, in training.
        ignore_index: a label that counts as not observed: 0 nats, and not judged. torch's own is −100; here it is none.
        class_axis: where the classes are: 1, as torch has it, or −1.

    Example:
        >>> Categorical().nll(torch.zeros(2, 4), torch.tensor([0, 3]))
        tensor([1.3863, 1.3863])
        >>> Categorical(class_axis=-1, ignore_index=0).nll(torch.zeros(2, 3, 4), torch.tensor([[1, 2, 3], [1, 0, 0]]))
        tensor([4.1589, 1.3863])
    """

    predicts = CLASSES

    temperature: Tensor | None
    class_weights: Tensor | None

    def __init__(
        self,
        class_weights: Sequence[float] | Tensor | None = None,
        label_smoothing: float = 0.0,
        ignore_index: int | None = None,
        class_axis: int = 1,
    ) -> None:
        super().__init__()
        if not is_number(label_smoothing) or not 0 <= label_smoothing < 1:
            raise refusal("label_smoothing", label_smoothing, "lie in [0, 1)", "0.1 is usual")
        if ignore_index is not None:
            check_whole("ignore_index", ignore_index, "pass the label of what was not observed, e.g. -100")
        if class_axis not in (1, -1):
            raise refusal("class_axis", class_axis, "be 1 or -1", "move the classes there: outputs.movedim(axis, 1)")
        self.label_smoothing, self.ignore_index, self.class_axis = float(label_smoothing), ignore_index, class_axis
        self.register_buffer("temperature", None)
        self.register_buffer("class_weights", None if class_weights is None else _weights(class_weights))

    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        targets = self._checked(outputs, targets)
        return per_example(self._cross_entropy(outputs, targets, "none").reshape(self._positions(outputs)))

    def mean_nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        targets = self._checked(outputs, targets)
        if outputs.ndim == 2 and self.ignore_index is None and self.class_weights is None:
            return self._cross_entropy(outputs, targets, "mean")  # in one kernel
        return self._cross_entropy(outputs, targets, "sum") / len(outputs)

    def _cross_entropy(self, outputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
        """By torch, with the classes on axis 1: of (N, …, C) every position is an example to it."""
        given = targets
        if self.class_axis == -1:
            outputs = outputs.flatten(0, -2)
            targets = targets.flatten(0, -2) if targets.is_floating_point() else targets.flatten()
        ignored = _NO_LABEL if self.ignore_index is None else self.ignore_index
        try:
            return F.cross_entropy(
                outputs,
                targets,
                weight=self._weights_beside(outputs),
                ignore_index=ignored,
                reduction=reduction,
                label_smoothing=self.label_smoothing,
            )
        except IndexError:
            check_classes(given, outputs.shape[1], self.ignore_index)
            raise

    def _weights_beside(self, outputs: Tensor) -> Tensor | None:
        weights = self.class_weights
        if weights is None:
            return None
        if len(weights) != outputs.shape[1]:
            requirement = f"have one for each of the {outputs.shape[1]} classes"
            raise refusal("class_weights", weights, requirement, "check the network's last layer")
        if weights.device != outputs.device:
            weights = self.class_weights = weights.to(outputs.device)  # once: the copy waits
        return weights.to(outputs.dtype)

    def _positions(self, outputs: Tensor) -> torch.Size:
        """The shape of the labels beside these logits."""
        return outputs.shape[:-1] if self.class_axis == -1 else outputs.shape[:1] + outputs.shape[2:]

    def _checked(self, outputs: Tensor, targets: Tensor) -> Tensor:
        check_batch(outputs, targets)
        if outputs.ndim < 2:
            shape = "(N, C, …)" if self.class_axis == 1 else "(N, …, C)"
            raise refusal("outputs", outputs, f"have the shape {shape}", "give one logit per class")
        if targets.is_floating_point():
            check_same_shape(outputs, targets, "pass class indices as integers, or one probability per class")
            if self.ignore_index is not None:
                remedy = "pass class indices, or leave ignore_index out"
                raise refusal("targets", targets, "be class indices where one of them is ignored", remedy)
            check_shares(targets, self.class_axis)
            return targets
        if targets.dtype == torch.bool:
            raise wrong_type("targets", targets, "be class indices", "convert them with targets.long()")
        expected = self._positions(outputs)
        if targets.shape != expected:
            raise self._misshapen(outputs, targets, expected)
        return targets.long()

    def _misshapen(self, outputs: Tensor, targets: Tensor, expected: torch.Size) -> ValueError:
        requirement = f"have the shape {tuple(expected)} for logits {tuple(outputs.shape)}"
        remedy = "give one class index per example"
        if outputs.ndim > 2:
            requirement += f" with the classes on axis {self.class_axis}"
            other = "for (N, …, C) pass" if self.class_axis == 1 else "for (N, C, …) pass"
            remedy = f"give one class index per position, or {other} tb.Categorical(class_axis={-self.class_axis})"
        return refusal("targets", targets, requirement, remedy)

    def response(self, outputs: Tensor) -> Tensor:
        """(N, …, C): class probabilities, the classes last."""
        check_outputs(outputs)
        if outputs.ndim < 2 or outputs.shape[self.class_axis] < 2:
            shape = "(N, C, …)" if self.class_axis == 1 else "(N, …, C)"
            requirement = f"have the shape {shape} with at least two classes on axis {self.class_axis}"
            remedy = "see tb.Bernoulli for one logit, or say what they are: likelihood=tb.Gaussian(...)"
            raise refusal("outputs", outputs, requirement, remedy)
        logits = outputs if self.temperature is None else outputs / self.temperature.to(outputs)
        return logits.movedim(self.class_axis, -1).softmax(-1)

    def extra_repr(self) -> str:
        weights = None if self.class_weights is None else f"{len(self.class_weights)} of them"
        said = [("class_weights", weights, None), ("label_smoothing", self.label_smoothing, 0.0)]
        said += [("ignore_index", self.ignore_index, None), ("class_axis", self.class_axis, 1)]
        return ", ".join(f"{name}={value}" for name, value, usual in said if value != usual)

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

    predicts = VALUES

    raw_noise: Tensor

    def __init__(self, noise: float = 1.0, learned: bool = False) -> None:
        super().__init__()
        self.learned = learned
        put_positive(self, "noise", noise, learned, "it is the standard deviation of the observation noise")

    @property
    def noise(self) -> Tensor:
        """The standard deviation of the observation noise, a scalar tensor."""
        return tau_of(self.raw_noise)

    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        check_same_shape(outputs, targets, "reshape one of them: (N, 1) against (N,) would broadcast to (N, N)")
        check_numbers(targets)
        outputs = single(outputs)
        noise = self.noise.to(outputs.dtype)
        return per_example(0.5 * ((targets - outputs) / noise).square() + noise.log() + 0.5 * math.log(2 * math.pi))

    def response(self, outputs: Tensor) -> Tensor:
        """(N, D): the mean of a new observation."""
        return rows_of_values(outputs)

    def noise_law(self) -> NormalNoise:
        return NormalNoise(float(self.noise.detach()))

    def widen_(self, factor: float) -> None:
        rescale_(self.raw_noise, factor)

    def extra_repr(self) -> str:
        return f"noise={float(self.noise.detach()):.4g}, learned={self.learned}"


class Bernoulli(Likelihood):
    """Yes or no: outputs are logits, targets 0 or 1 (or probabilities) of the same shape.

    It predicts one answer per example, outputs (N,) or (N, 1); `MultiLabel` predicts any number of them.

    Example:
        >>> Bernoulli().nll(torch.zeros(2), torch.tensor([0.0, 1.0]))
        tensor([0.6931, 0.6931])
    """

    predicts = CLASSES

    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        check_same_shape(outputs, targets, "give one target per logit")
        targets = targets.to(outputs.dtype)
        check_unit(targets)
        return per_example(F.binary_cross_entropy_with_logits(outputs, targets, reduction="none"))

    def response(self, outputs: Tensor) -> Tensor:
        """(N, 2): the probabilities of no and yes."""
        check_outputs(outputs)
        if outputs.ndim > 2 or (outputs.ndim == 2 and outputs.shape[1] != 1):
            requirement = "be one logit per example, (N,) or (N, 1)"
            raise refusal("outputs", outputs, requirement, "pass likelihood=tb.MultiLabel() for several answers")
        logits = outputs.reshape(-1, 1)
        return torch.cat([-logits, logits], dim=1).sigmoid()


class MultiLabel(Bernoulli):
    """Any number of independent answers yes or no: logits (N, L) or (N, L, …), targets 0 or 1 of the same shape.

    Example:
        >>> MultiLabel().nll(torch.zeros(2, 3), torch.tensor([[0, 1, 1], [0, 0, 0]]))
        tensor([2.0794, 2.0794])
    """

    predicts = LABELS

    def response(self, outputs: Tensor) -> Tensor:
        """(N, L, …, 2): for each label the probabilities of no and yes."""
        check_outputs(outputs)
        if outputs.ndim < 2:
            raise refusal("outputs", outputs, "have the shape (N, L)", "see tb.Bernoulli for one answer per example")
        return torch.stack([-outputs, outputs], dim=-1).sigmoid()


def _weights(given: Sequence[float] | Tensor) -> Tensor:
    requirement = "be numbers, one per class, finite and not negative"
    remedy = "pass e.g. the inverse of each class's share"
    try:
        weights = torch.as_tensor(given, dtype=torch.get_default_dtype()).detach().clone()
    except (TypeError, ValueError, RuntimeError):  # as torch refuses a list of tensors, a dict, words
        raise wrong_type("class_weights", given, "be numbers", remedy) from None
    except OverflowError:  # of whole numbers that no float holds
        raise refusal("class_weights", given, requirement, remedy) from None
    if weights.ndim != 1 or not bool((weights.isfinite() & (weights >= 0)).all()) or not bool((weights > 0).any()):
        raise refusal("class_weights", weights, requirement, remedy)
    return weights
