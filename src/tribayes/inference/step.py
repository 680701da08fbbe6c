"""One training step: guards, one draw of the weights, gradient, update; on a GPU recorded and replayed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from tribayes._errors import check_module, check_positive, refusal, wrong_type
from tribayes._graphs import aside, noting_waits
from tribayes._modes import modes_kept
from tribayes.inference.finite import check_examples, non_finite_loss
from tribayes.inference.learned import check_complete, check_steps
from tribayes.inference.objective import ELBO, ELBOTerms, Objective, Parts
from tribayes.inference.precision import Precision
from tribayes.inference.processes import CommonNoise, check_optimizer, generators_for, is_parallel
from tribayes.inference.rates import RateWatch
from tribayes.inference.recorded import RecordedStep, held_by, random_state, reads_its_rate
from tribayes.inference.snapshot import Statistics
from tribayes.nn.calling import Home
from tribayes.nn.convert import stabilise_
from tribayes.nn.module import BayesianModule
from tribayes.nn.sharded import holds_shards, reshard_
from tribayes.posterior.parametrisation import rule_of
from tribayes.posterior.streams import Randomness

AUTO = "auto"

_LARGEST_CLIP = 1e38  # about the largest number of float32

_MOST_CHANGES = 50  # of a recorded model: one that always changes is not worth it
_WARM_UP = 3  # steps before a recording: what torch allocates once, it allocates then
_WARM_UP_AGAIN = 2  # before the next: the first puts tables for other places onto the device, which waits for it


class TrainingStep:
    """One step of training as a callable (inputs, targets) → `ELBOTerms`.

    Inputs are a tensor, a tuple or list of several arguments, or a Mapping or dataclass of named ones; tensors are
    moved to the model's device, and arrays (NumPy, pandas) become tensors.

    On a GPU a step is recorded as a CUDA graph, after three that run as they are, which spares the time between its
    launches; numbers are the same. Only the batch, the learning rates and ν are copied in, so schedules of the rate
    and of `kl_weight` go on all the same. A batch of another shape (often the last) is run as it is. Where the model's
    modes, plain numbers (a share of dropout) or priors change, or what learns (`requires_grad`), or where it lies in
    memory, the step is recorded anew. Models by `torch.compile` and every torch optimizer can be used; the update is
    part of the recording where the optimizer reads its rate from the device (SGD with `fused=True`, others with
    `capturable=True`), else it runs after each replay.

    The returned terms have no graph, for the backward pass is over, and may be overwritten by the next step: read or
    clone them before. On a CPU a loss that is not finite is an error (`NonFiniteLoss`), and nothing of that step is
    applied; on a GPU looking would wait, so it is `fit` that looks, now and then.

    What the optimizer lacks would not learn, so that is an error; for training in parts freeze the others by
    `requires_grad_(False)`. A schedule that sets one rate for all groups is warned of.

    Args:
        model: a Bayesian model, or any module that contains Bayesian ones (a plain one with `MaximumLikelihood`).
        elbo: the objective.
        optimizer: any of torch's, made of `tribayes.parameter_groups(model, ...)`.
        precision: torch.bfloat16 or torch.float16 for autocast; float16, on a GPU alone, scales gradients so that they
            do not underflow, leaves out steps where they overflow, and is not recorded.
        clip: bounds every entry of the gradient. A mean next to zero feels ν/m of the divergence, up to 1e6 ν: with the
            paper's small ν that is harmless, but for plain SGD with `kl_weight=1` on a small data set it is a jump.
        rule: the numerical guards applied before each step, "closed_form" or "paper" (`tribayes.stabilise_`).
        generator: a torch.Generator on the model's device, or a seed, for the draws; None uses torch's global one.
        same_draw: under DistributedDataParallel, whether all processes meet the same weights in a step, as one process
            with the whole batch would. By default each draws its own, seeded by its rank, which makes the averaged
            gradient less noisy (docs/distributed.md). A sharded model always has one draw.
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
        same_draw: bool = False,
        capture: bool | str = AUTO,
        precision: torch.dtype | None = None,
    ) -> None:
        check_module("model", model)
        if not any(True for _ in model.parameters()):
            raise refusal("model", type(model).__name__, "have parameters to train", "pass the network itself")
        _check(elbo, optimizer, capture)
        reshard_(model)
        check_optimizer(model, optimizer)
        if clip is not None:
            check_positive("clip", clip, "it bounds the absolute value of every entry of the gradient")
            if clip > _LARGEST_CLIP:
                raise refusal("clip", clip, f"be at most {_LARGEST_CLIP:g}", "leave it out to bound nothing")
        rule_of(rule)
        self.model, self.elbo, self.optimizer = model, elbo, optimizer
        self.clip, self.rule = clip, rule
        self._home = Home.of(model)
        self.device = self._home.device
        by_example = getattr(elbo, "estimator", "") == "local"
        self.generator, self._coins = generators_for(model, generator, same_draw, by_example, self.device)
        self.count = 0  # steps taken: what a schedule of kl_weight is asked for
        self._stage, self._noise = elbo.stage(model), CommonNoise(model, elbo)
        check_complete(model, elbo, optimizer)
        for module in model.modules():
            if isinstance(module, BayesianModule):
                module.warn_of_zeros()
        self._watch = RateWatch(optimizer)
        self._watch.look()
        self._precision = Precision(precision, self.device)
        self._looks = self.device.type == "cpu"  # elsewhere it would wait
        self._statistics = Statistics(model) if self._looks else None
        kind = torch.promote_types(next(model.parameters()).dtype, torch.float32)
        self._one = torch.ones((), dtype=kind, device=self.device)
        self._nu, self._nu_now = torch.zeros_like(self._one), 0.0  # ν on the device, where a recording reads it
        recordable = not self._precision.scales and not is_parallel(model)
        self._capture = bool(capture) and self.device.type == "cuda" and recordable
        self._sharded = holds_shards(model)
        self._left, self._changes = _WARM_UP, 0
        self._recorded: RecordedStep | None = None

    @property
    def captured(self) -> bool:
        """Whether steps are replayed by now."""
        return self._recorded is not None

    def __call__(self, inputs: Any, targets: Any) -> ELBOTerms:
        with modes_kept(self.device.type):
            terms = self._run(self._placed(inputs, targets))
        self.count += 1
        return terms

    def _run(self, batch: tuple[Any, Tensor]) -> ELBOTerms:
        """The step as it is, or its recording."""
        check_examples(*batch)
        self._begin()
        if self._recorded is not None and self._recorded.has_other_form:
            self._recorded, self._left, self._changes = None, _WARM_UP_AGAIN, self._changes + 1
            self._capture = self._changes < _MOST_CHANGES
        if not self._capture:
            return self.take(*batch)
        if self._left:
            self._left -= 1
            with aside(self.device):
                return self.take(*batch) if self._left else self._rehearse(batch)
        if self._recorded is None:
            self._recorded = self._record(batch, whole=reads_its_rate(self.optimizer))
        elif self._recorded.outdated:  # a schedule of more than the rate: the update is no longer recorded
            self._recorded = self._record(batch, whole=False)
        if not self._recorded.call.fits(batch):
            with aside(self.device):
                return self.take(*batch)
        return self._recorded.replay(batch)

    def accumulate(self, batches: Sequence[tuple[Any, Tensor]]) -> ELBOTerms:
        """One step for several batches, as if they were one: for batches that do not fit into memory.

        The divergence counts once, and every example alike, however many its batch has. Each batch meets a draw of its
        own, which leaves less noise in the gradient than one for all. Runs as it is, without a recording. The terms are
        those of the whole; their outputs, of the last batch.
        """
        remedy = "pass a list of (inputs, targets)"
        if not isinstance(batches, Sequence) or not all(isinstance(b, tuple | list) and len(b) == 2 for b in batches):
            raise wrong_type("batches", batches, "be a sequence of pairs", remedy)
        if not batches:
            raise refusal("batches", batches, "have at least one batch", remedy)
        placed = [self._placed(*batch) for batch in batches]
        for batch in placed:
            check_examples(*batch)
        self._begin()
        with modes_kept(self.device.type), aside(self.device):
            terms = self._accumulated(placed)
        self.count += 1
        return terms

    def _accumulated(self, batches: Sequence[tuple[Any, Tensor]]) -> ELBOTerms:
        self._guard()
        self.optimizer.zero_grad(set_to_none=True)
        sizes = [len(tree_leaves(targets)[0]) for _, targets in batches]
        total, divergence = torch.zeros_like(self._one), None
        for batch, size in zip(batches, sizes, strict=True):
            nll, again, outputs = self._parts(*batch, self._nu)
            share = self._one * (size / sum(sizes))
            self._backward(nll, share.to(nll), again, None if divergence is not None else self._nu.to(again))
            total += share * nll.detach()
            divergence = again.detach() if divergence is None else divergence
        self._finish_gradients()
        self._update()
        assert divergence is not None
        return ELBOTerms(torch.addcmul(total, self._nu, divergence.to(total)), total, divergence, outputs.detach())

    def take(self, inputs: Any, targets: Tensor, nu: Tensor | None = None) -> ELBOTerms:
        """The step itself, everything on the device, so that it can be recorded; ν may be given in a tensor."""
        terms = self.descend(inputs, targets, nu)
        self._update()
        return terms

    def descend(self, inputs: Any, targets: Tensor, nu: Tensor | None = None) -> ELBOTerms:
        """The step without its update: guards, draw, terms and gradients."""
        self._guard()
        nll, divergence, outputs = self._parts(inputs, targets, self._nu if nu is None else nu)
        self.optimizer.zero_grad(set_to_none=True)
        weight = (self._nu if nu is None else nu).to(divergence)
        self._backward(nll, self._one.to(nll), divergence, weight)
        self._finish_gradients()
        with torch.no_grad():
            loss = torch.addcmul(nll, weight.to(nll), divergence.to(nll))
        return ELBOTerms(loss, nll.detach(), divergence.detach(), outputs.detach())

    def _begin(self) -> None:
        """What the host does before a step."""
        if not torch.is_grad_enabled():
            remedy = "take the training out of torch.no_grad() and torch.inference_mode()"
            raise refusal("torch.is_grad_enabled()", False, "be True where something learns", remedy)
        self._watch.look()
        nu = self.elbo.nu(self.count)
        if nu != self._nu_now:
            self._nu.fill_(nu)
            self._nu_now = nu

    def _guard(self) -> None:
        if self._statistics is not None:
            self._statistics.take()
        if self._sharded:
            reshard_(self.model)
        if isinstance(self.elbo, ELBO):
            stabilise_(self.model, self.rule, self._coins)

    def _parts(self, inputs: Any, targets: Tensor, nu: Tensor) -> Parts:
        """NLL, divergence and outputs; on a CPU an error where they are not finite, before anything is changed."""
        with self._precision.autocast():
            nll, divergence, outputs = self.elbo.parts(self._stage, inputs, targets, self.generator)
        if self._looks:
            found, kl = nll.item(), divergence.item()
            if not abs(found + nu.item() * kl) <= torch.finfo(nll.dtype).max:
                assert self._statistics is not None
                self._statistics.restore()
                after = "Nothing of this step was applied."
                raise non_finite_loss(self.count, found, kl, self.model, (inputs, targets), after)
        return nll, divergence, outputs

    def _backward(self, nll: Tensor, share: Tensor, divergence: Tensor, weight: Tensor | None) -> None:
        """Add the gradient of share · nll + weight · kl, without a pass through that sum."""
        roots, weights = [nll], [self._precision.scaled(share)]
        if weight is not None and divergence.requires_grad:
            roots.append(divergence)
            weights.append(self._precision.scaled(weight))
        with torch.autocast(self.device.type, enabled=False):
            torch.autograd.backward(roots, weights)

    def _finish_gradients(self) -> None:
        self._noise.average_()
        self._precision.unscale_(self.optimizer)
        if self.clip is not None:
            nn.utils.clip_grad_value_([p for group in self.optimizer.param_groups for p in group["params"]], self.clip)

    def _update(self) -> None:
        if self._precision.may_update(self.optimizer):
            self.optimizer.step()

    def _placed(self, inputs: Any, targets: Any) -> tuple[Any, Tensor]:
        """The batch on the model's device, in containers that a recording can look into."""
        if all(isinstance(value, Tensor) and value.device == self.device for value in (inputs, targets)):
            return inputs, targets
        place = self._home.place
        placed = place("inputs", inputs) if isinstance(inputs, Tensor) else self._home.arguments(inputs)
        return placed, place("targets", targets)

    def _record(self, batch: tuple[Any, Tensor], whole: bool) -> RecordedStep:
        generators = [] if self.generator is None else [self.generator]
        run = self.take if whole else self.descend
        return RecordedStep(run, self.model, self.optimizer, generators, batch, self.device, whole)

    def _rehearse(self, batch: tuple[Any, Tensor]) -> ELBOTerms:
        """The last step before the recording, which also looks whether the network can be recorded."""
        drawn, held = random_state(), held_by(self.model)
        with noting_waits(self.device) as waits:
            terms = self.take(*batch)
        kept = all(one is other for one, other in zip_longest(held, held_by(self.model)))
        self._capture = kept and not waits and drawn == random_state()
        return terms


def _check(elbo: object, optimizer: object, capture: object) -> None:
    if not isinstance(elbo, Objective):
        raise wrong_type("elbo", elbo, "be an ELBO", "pass e.g. tb.ELBO(tb.Categorical(), data_size=len(dataset))")
    if not isinstance(optimizer, torch.optim.Optimizer):
        remedy = "pass e.g. torch.optim.SGD(tb.parameter_groups(model, lr=0.01))"
        raise wrong_type("optimizer", optimizer, "be a torch optimizer", remedy)
    check_steps(optimizer)
    if capture not in (AUTO, False):
        raise refusal("capture", capture, 'be "auto" or False', "correct the word")
