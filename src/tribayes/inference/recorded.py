"""The recording of a training step, and what a network must not do to be recorded."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._graphs import RecordedCall
from tribayes.inference.objective import ELBOTerms
from tribayes.nn.module import BayesianModule


class RecordedStep:
    """The graph of a step, and the places that change from replay to replay.

    With `whole`, the update is part of it: its learning rates lie on the device and are read anew in each replay, its
    other numbers (momentum, betas, decay) are recorded as they are.
    """

    def __init__(
        self,
        run: Callable[..., ELBOTerms],
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        generators: Sequence[torch.Generator],
        batch: tuple[Any, Tensor],
        device: torch.device,
        whole: bool,
    ) -> None:
        self._optimizer, self._whole = optimizer, whole
        groups = optimizer.param_groups
        given = self._now = [group["lr"] for group in groups]
        self._rates = [torch.tensor(float(rate), device=device) for rate in given]
        self._others = self._fixed()
        modules = list(model.modules())
        self._numbers = [(vars(each), [*_numbers_of(each)]) for each in modules]
        self._buffers = [(each._buffers, name, value) for each in modules for name, value in each._buffers.items()]
        self._bayesian = [each for each in modules if isinstance(each, BayesianModule)]
        try:
            self._put(self._rates)
            self.call = RecordedCall(run, batch, device, generators)
        finally:
            self._put(given)
        # gradients lie in the graph's memory; a step that was not replayed puts others in their place
        self._gradients = [(parameter, parameter.grad) for group in groups for parameter in group["params"]]
        self._form, self._state = self._form_now(), optimizer.state

    @property
    def outdated(self) -> bool:
        """Whether a number that was recorded as it was has changed."""
        return self._whole and self._fixed() != self._others

    @property
    def has_other_form(self) -> bool:
        """Whether the model is otherwise now: its modes and other numbers, its priors, what learns, or where it lies.

        A model that was moved away and back lies elsewhere; an optimizer that was loaded has another state.
        """
        moved = any(held.get(name) is not value for held, name, value in self._buffers)
        return moved or self._optimizer.state is not self._state or self._form_now() != self._form

    def replay(self, batch: tuple[Any, Tensor]) -> ELBOTerms:
        rates = [group["lr"] for group in self._optimizer.param_groups]
        for place, rate, before in zip(self._rates, rates, self._now, strict=True):
            if isinstance(rate, Tensor) or rate != before:
                place.fill_(rate)
        self._now = rates
        terms: ELBOTerms = self.call(*batch)
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        if not self._whole:
            self._optimizer.step()
        return terms

    def _form_now(self) -> list[object]:
        numbers = [held.get(name) for held, names in self._numbers for name in names]
        priors = [module.priors for module in self._bayesian]  # new ones, where they were set
        learns = [(parameter.requires_grad, parameter.data_ptr()) for parameter, _ in self._gradients]
        return [len(self._optimizer.param_groups), *numbers, *priors, *learns]

    def _put(self, rates: Sequence[Tensor | float]) -> None:
        for group, rate in zip(self._optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def _fixed(self) -> list[dict[str, Any]]:
        skipped = ("params", "lr", "initial_lr", "max_lr", "min_lr")
        groups = self._optimizer.param_groups
        return [{key: value for key, value in group.items() if key not in skipped} for group in groups]


def _numbers_of(module: nn.Module) -> Iterator[str]:
    """Names of attributes that are plain numbers or words, such as a mode or a share of dropout."""
    return (name for name, value in vars(module).items() if isinstance(value, bool | int | float | str))


def reads_its_rate(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a recorded update finds its learning rate on the device."""
    groups = optimizer.param_groups
    if all("capturable" in group for group in groups):
        return all(group["capturable"] for group in groups)
    return all(group.get("fused") for group in groups)


def random_state() -> object:
    """Of Python's and NumPy's random numbers, which a recording would freeze."""
    numpy = sys.modules.get("numpy")
    drawn = None if numpy is None else (numpy.random.get_state()[2], numpy.random.get_state()[1].tobytes())
    return random.getstate(), drawn


def held_by(model: nn.Module) -> list[object]:
    """The attributes and buffers of a network. A pass that puts others in their places keeps state in Python."""
    return [value for module in model.modules() for value in (*vars(module).values(), *module._buffers.values())]
