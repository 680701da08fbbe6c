"""One training step: guards, one draw of the weights, gradient, update; on a GPU recorded and replayed."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from tribayes._errors import check_positive, refusal, wrong_type
from tribayes._graphs import RecordedCall, aside, noting_waits
from tribayes.inference.objective import ELBO, ELBOTerms, Objective
from tribayes.nn.convert import stabilise_
from tribayes.posterior.parametrisation import rule_of
from tribayes.posterior.streams import Randomness, generator_of

AUTO = "auto"

_WARM_UP = 3  # steps before a recording: what torch allocates once, it allocates then


class TrainingStep:
    """One step of training as a callable (inputs, targets) → `ELBOTerms`.

    On a GPU a step is recorded as a CUDA graph, after three that run as they are, which spares the time between its
    launches; numbers are the same. Only the batch, the learning rates and ν are copied in, so schedules of the rate
    and of `kl_weight` go on all the same. A batch of another shape (often the last) is run as it is. Models by
    `torch.compile` and every torch optimizer can be used; the update is part of the recording where the optimizer reads
    its rate from the device (SGD with `fused=True`, others with `capturable=True`), else it runs after each replay.

    The returned terms have no graph, for the backward pass is over, and may be overwritten by the next step: read or
    clone them before.

    Args:
        model: a Bayesian model, or any module that contains Bayesian ones (a plain one with `MaximumLikelihood`).
        elbo: the objective.
        optimizer: any of torch's, made of `tribayes.parameter_groups(model, ...)`.
        clip: bounds every entry of the gradient. A mean next to zero feels ν/m of the divergence, up to 1e6 ν: with the
            paper's small ν that is harmless, but for plain SGD with `kl_weight=1` on a small data set it is a jump.
        rule: the numerical guards applied before each step, "closed_form" or "paper" (`tribayes.stabilise_`).
        generator: a torch.Generator on the model's device, or a seed, for the draws; None uses torch's global one.
        capture: "auto" records on a GPU, unless the network keeps state in Python, waits for the GPU or draws Python's
            random numbers; False never does.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> elbo = tribayes.ELBO(tribayes.Categorical(), data_size=8)
        >>> optimizer = torch.optim.SGD(tribayes.parameter_groups(model, lr=0.01), momentum=0.9, fused=True)
        >>> step = TrainingStep(model, elbo, optimizer)
        >>> step(torch.randn(8, 4), torch.randint(3, (8,))).loss.shape
        torch.Size([])
    """

    def __init__(
        self,
        model: nn.Module,
        elbo: Objective,
        optimizer: torch.optim.Optimizer,
        *,
        clip: float | None = None,
        rule: str = "closed_form",
        generator: Randomness = None,
        capture: bool | str = AUTO,
    ) -> None:
        _check(elbo, optimizer, capture)
        if clip is not None:
            check_positive("clip", clip, "it bounds the absolute value of every entry of the gradient")
        rule_of(rule)
        self.model, self.elbo, self.optimizer = model, elbo, optimizer
        self.clip, self.rule = clip, rule
        self.device = next(model.parameters()).device
        self.generator = generator_of(generator, self.device)
        self.count = 0  # steps taken: what a schedule of kl_weight is asked for
        self._stage = elbo.stage(model)
        kind = torch.promote_types(next(model.parameters()).dtype, torch.float32)
        self._one = torch.ones((), dtype=kind, device=self.device)
        self._nu, self._nu_now = torch.zeros_like(self._one), 0.0  # ν on the device, where a recording reads it
        self._capture = bool(capture) and self.device.type == "cuda"
        self._left = _WARM_UP
        self._recorded: _RecordedStep | None = None

    @property
    def captured(self) -> bool:
        """Whether steps are replayed by now."""
        return self._recorded is not None

    def __call__(self, inputs: Any, targets: Tensor) -> ELBOTerms:
        batch = _moved((inputs, targets), self.device)
        nu = self.elbo.nu(self.count)
        if nu != self._nu_now:
            self._nu.fill_(nu)
            self._nu_now = nu
        self.count += 1
        if not self._capture:
            return self.take(*batch)
        if self._left:
            self._left -= 1
            with aside(self.device):
                return self.take(*batch) if self._left else self._rehearse(batch)
        if self._recorded is None:
            self._recorded = _RecordedStep(self, batch, whole=_reads_its_rate(self.optimizer))
        elif self._recorded.outdated:  # a schedule of more than the rate: the update is no longer recorded
            self._recorded = _RecordedStep(self, batch, whole=False)
        if not self._recorded.call.fits(batch):
            with aside(self.device):
                return self.take(*batch)
        return self._recorded.replay(batch)

    def take(self, inputs: Any, targets: Tensor, nu: Tensor | None = None) -> ELBOTerms:
        """The step itself, everything on the device, so that it can be recorded; ν may be given in a tensor."""
        terms = self.descend(inputs, targets, nu)
        self.optimizer.step()
        return terms

    def descend(self, inputs: Any, targets: Tensor, nu: Tensor | None = None) -> ELBOTerms:
        """The step without its update: guards, draw, terms and gradients."""
        if isinstance(self.elbo, ELBO):
            stabilise_(self.model, self.rule, self.generator)
        nll, divergence, outputs = self.elbo.parts(self._stage, inputs, targets, self.generator)
        self.optimizer.zero_grad(set_to_none=True)
        weight = (self._nu if nu is None else nu).to(divergence)
        with torch.autocast(self.device.type, enabled=False):
            # the gradient of nll + ν kl, without a pass through that sum
            roots, weights = [nll, divergence], [self._one.to(nll), weight]
            torch.autograd.backward(roots[: 1 + divergence.requires_grad], weights[: 1 + divergence.requires_grad])
        if self.clip is not None:
            nn.utils.clip_grad_value_([p for group in self.optimizer.param_groups for p in group["params"]], self.clip)
        with torch.no_grad():
            loss = torch.addcmul(nll, weight.to(nll), divergence.to(nll))
        return ELBOTerms(loss, nll.detach(), divergence.detach(), outputs.detach())

    def _rehearse(self, batch: tuple[Any, Tensor]) -> ELBOTerms:
        """The last step before the recording, which also looks whether the network can be recorded."""
        drawn, held = _random_state(), _held_by(self.model)
        with noting_waits(self.device) as waits:
            terms = self.take(*batch)
        kept = all(one is other for one, other in zip_longest(held, _held_by(self.model)))
        self._capture = kept and not waits and drawn == _random_state()
        return terms


class _RecordedStep:
    """The graph of a step, and the places that change from replay to replay.

    With `whole`, the update is part of it: its learning rates lie on the device and are read anew in each replay, its
    other numbers (momentum, betas, decay) are recorded as they are.
    """

    def __init__(self, step: TrainingStep, batch: tuple[Any, Tensor], whole: bool) -> None:
        self._optimizer, self._whole = step.optimizer, whole
        groups = step.optimizer.param_groups
        given = self._now = [group["lr"] for group in groups]
        self._rates = [torch.tensor(float(rate), device=step.device) for rate in given]
        self._others = self._fixed()
        try:
            self._put(self._rates)
            generators = [] if step.generator is None else [step.generator]
            run = step.take if whole else step.descend
            self.call = RecordedCall(run, batch, step.device, generators)
        finally:
            self._put(given)
        # gradients lie in the graph's memory; a step that was not replayed puts others in their place
        self._gradients = [(parameter, parameter.grad) for group in groups for parameter in group["params"]]

    @property
    def outdated(self) -> bool:
        """Whether a number that was recorded as it was has changed."""
        return self._whole and self._fixed() != self._others

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

    def _put(self, rates: Sequence[Tensor | float]) -> None:
        for group, rate in zip(self._optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def _fixed(self) -> list[dict[str, Any]]:
        skipped = ("params", "lr", "initial_lr", "max_lr", "min_lr")
        groups = self._optimizer.param_groups
        return [{key: value for key, value in group.items() if key not in skipped} for group in groups]


def _reads_its_rate(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a recorded update finds its learning rate on the device."""
    groups = optimizer.param_groups
    if all("capturable" in group for group in groups):
        return all(group["capturable"] for group in groups)
    return all(group.get("fused") for group in groups)


def _random_state() -> object:
    """Of Python's and NumPy's random numbers, which a recording would freeze."""
    numpy = sys.modules.get("numpy")
    drawn = None if numpy is None else (numpy.random.get_state()[2], numpy.random.get_state()[1].tobytes())
    return random.getstate(), drawn


def _held_by(model: nn.Module) -> list[object]:
    """The attributes and buffers of a network. A pass that puts others in their places keeps state in Python."""
    return [value for module in model.modules() for value in (*vars(module).values(), *module._buffers.values())]


def _moved(batch: tuple[Any, Tensor], device: torch.device) -> tuple[Any, Tensor]:
    """Tensors on the model's device."""
    if all(isinstance(value, Tensor) and value.device == device for value in batch):
        return batch
    return tree_map_only(Tensor, lambda value: value.to(device, non_blocking=True), batch)


def _check(elbo: object, optimizer: object, capture: object) -> None:
    if not isinstance(elbo, Objective):
        raise wrong_type("elbo", elbo, "be an ELBO", "pass e.g. tb.ELBO(tb.Categorical(), data_size=len(dataset))")
    if not isinstance(optimizer, torch.optim.Optimizer):
        remedy = "pass e.g. torch.optim.SGD(tb.parameter_groups(model, lr=0.01))"
        raise wrong_type("optimizer", optimizer, "be a torch optimizer", remedy)
    if capture not in (AUTO, False):
        raise refusal("capture", capture, 'be "auto" or False', "correct the word")
