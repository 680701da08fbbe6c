"""The training of a setting: its network, its learning rates, Caffe's SGD, and steps that a CUDA graph holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes._graphs import Recording, aside
from tribayes._own_randomness import lent
from tribayes.distributed.processes import processes
from tribayes.inference import ELBO, Categorical, MaximumLikelihood
from tribayes.inference.objective import ELBOTerms, Objective
from tribayes.nn.convert import to_bayesian
from tribayes.nn.module import BayesianModule
from tribayes.posterior import Prior, Stream
from tribayes.posterior.parametrisation import rho_of
from tribayes.recipes.examples import memory_format
from tribayes.recipes.networks import NETWORKS, SeededDropout
from tribayes.recipes.setting import Setting
from tribayes.runs.batches import Examples, Inputs
from tribayes.runs.trainer import WINDOW, Trainer

RECORDED = 10  # steps in a recording, and steps before it, as torch asks for; divides WINDOW

# Iterations that make up for the compiling, with an empty cache, on an H200: LeNet-100 takes 9 s to compile and then
# 0.06 ms less per step (docs/performance.md), CIFAR10_full about 18 s and 0.19 ms. LeNet-250 is taken to be like it.
PAYS_FROM = {"lenet-100": 150_000, "lenet-250": 150_000, "cifar10-full": 100_000}


class RecipeTrainer(Trainer):
    """The trainer of a setting: the setting and the seed say all."""

    on_device = True
    optimizer: CaffeSGD

    def __init__(self, setting: Setting, train: Examples, seed: int) -> None:
        (images,) = train.arguments
        model = build_model(setting, seed).to(images.device)
        # torch's stubs lack this signature, which its documentation has
        model.to(memory_format=memory_format(images))  # type: ignore[call-overload]
        self.setting = setting
        self.compiled = is_compiled(setting, images.device)
        self._recording: Recording | None = None
        # deterministic: torch would choose between ways to sum by timing them, so a resumed run might have other bits
        compiled = torch.compile(model, dynamic=False, options={"deterministic": True}) if self.compiled else model
        super().__init__(
            model,
            _objective(setting, len(train)),
            CaffeSGD(_parameters(setting, model), setting.momentum),
            train,
            batch_size=setting.batch,
            iterations=setting.iterations,
            seed=seed,
            rule=setting.guards,
            called=cast(nn.Module, compiled),
        )
        for module in model.modules():
            if isinstance(module, SeededDropout):
                module.generator = self.generator

    def learning_rate(self, iteration: int) -> float:
        return learning_rate(self.setting, iteration)

    def description(self) -> dict[str, Any]:
        """Nothing: the run's config holds the setting."""
        return {}

    def advance(self, steps: int) -> None:
        """Train some steps, at most to the end of the window; on a GPU most of them by a recording of ten."""
        if self.device.type == "cpu" or not self.processes.alone:
            super().advance(steps)
            return
        last = self.iteration + min(steps, WINDOW - self.iteration % WINDOW)
        self.prepare()
        if self._recording is None:
            with aside(self.device):
                super().advance(min(RECORDED, steps))
            self._recording = Recording(self.take_recorded_steps, self.device, [self.generator])
        while last - self.iteration >= RECORDED:
            self._recording.replay()
            self.iteration += RECORDED
        if self.iteration < last:
            with aside(self.device):
                super().advance(last - self.iteration)
        torch.cuda.synchronize(self.device)

    def take_recorded_steps(self) -> None:
        """What is recorded; the host's count of iterations is left to whoever replays it."""
        for _ in range(RECORDED):
            self.step()

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        super().load_state(tensors)
        self._recording = None  # the optimizer's tensors are others now

    def _take_step(self, inputs: Inputs, targets: Tensor, weights: Tensor) -> ELBOTerms:
        """Entirely on the device."""
        self.optimizer.inverse_rate, nu = weights.unbind()
        self.take_step.count = self.iteration  # for the words of an error
        if not self.compiled:
            return self.take_step.take(inputs, targets, nu)
        from torch._dynamo.exc import BackendCompilerFailed  # takes a second, and only this needs it

        try:
            return self.take_step.take(inputs, targets, nu)
        except BackendCompilerFailed as error:
            requirement = f"be false where torch cannot compile ({error.inner_exception})"
            remedy = "install what it misses, such as g++ on a CPU, or start anew with --set compiled=false"
            raise refusal("compiled", True, requirement, remedy) from error


def build_model(setting: Setting, seed: int) -> nn.Module:
    """The network of a setting, freshly initialised from the seed, Bayesian unless the setting is frequentist."""
    with lent([Stream((seed, 0)).generator(torch.device("cpu"))]):  # torch initialises by its global one
        network = NETWORKS[setting.network].build(setting.dropout, setting.xavier)
        if not setting.bayesian:
            return network
        prior = {pattern: Prior(scale=scale) for pattern, scale in setting.prior_scale.items()}
        prior.setdefault("*", Prior())  # the paper's, where no pattern matches
        rho = _initial_rho(setting, network) if setting.family == "tridiagonal" else 0.0
        return to_bayesian(network, prior=prior, tau=setting.tau, rho=rho, family=setting.family)


def _initial_rho(setting: Setting, network: nn.Module) -> dict[str, float]:
    """|γ| as set, with a random sign for each tensor."""
    names = [name for name, _ in network.named_parameters()]
    signs = torch.randint(0, 2, (len(names),)) * 2 - 1
    rho = rho_of(torch.tensor(setting.gamma, dtype=torch.float64))
    return {name: float(rho * sign) for name, sign in zip(names, signs, strict=True)}


def _objective(setting: Setting, data_size: int) -> Objective:
    if not setting.bayesian:
        return MaximumLikelihood(Categorical())
    return ELBO(
        Categorical(),
        data_size=data_size,
        kl_weight=lambda iteration: setting.kl_weight * warm_up(setting, iteration),
        samples=2 if setting.estimator == "antithetic" else 1,
        estimator=setting.estimator,
    )


def learning_rate(setting: Setting, iteration: int) -> float:
    """The learning rate at an iteration."""
    if setting.policy == "inverse":
        return setting.learning_rate * (1 + setting.policy_gamma * iteration) ** -0.75
    if setting.policy == "cosine":
        return setting.learning_rate * 0.5 * (1 + math.cos(math.pi * iteration / setting.iterations))
    return setting.learning_rate


def warm_up(setting: Setting, iteration: int) -> float:
    """The share of the divergence that counts at an iteration."""
    return min(1.0, iteration / setting.kl_warmup) if setting.kl_warmup else 1.0


def _parameters(setting: Setting, model: nn.Module) -> list[Parameter]:
    """All that is learned, each with its learning rate multiplier and L2 penalty."""
    network = model.module if isinstance(model, BayesianModule) else model
    learned = []
    for name, value in network.named_parameters():
        multiplier = setting.bias_rate if name.endswith("bias") else 1.0
        decays = (decay for pattern, decay in setting.weight_decay.items() if fnmatchcase(name, pattern))
        learned.append(Parameter(name, value, multiplier, next(decays, 0.0)))
    if isinstance(model, BayesianModule):
        scales, correlations = model.family.scale_parameters(), model.family.correlation_parameters()
        learned += [Parameter(f"scale.{i}", value, setting.scale_rate) for i, value in enumerate(scales)]
        learned += [Parameter(f"correlation.{i}", value, setting.kappa) for i, value in enumerate(correlations)]
    return learned


def is_compiled(setting: Setting, device: torch.device) -> bool:
    """Whether a setting's network is compiled: as it says; else on a GPU, where the training is long enough.

    Dropout draws from a generator of its own, which torch cannot trace. On a CPU a C++ compiler is needed, which not
    everyone has: there one asks for it.
    """
    if not processes().alone:
        if setting.compiled:
            remedy = "leave it out, or train in one process"
            raise refusal("compiled", True, "be false where several processes train together", remedy)
        return False
    if setting.compiled is not None:
        return setting.compiled
    long = setting.iterations >= PAYS_FROM.get(setting.network, math.inf) and not setting.dropout
    return device.type == "cuda" and long and find_spec("triton") is not None


class Parameter(NamedTuple):
    """What is learned, with its multiplier of the learning rate and its L2 penalty."""

    name: str
    value: Tensor
    multiplier: float = 1.0
    decay: float = 0.0


class CaffeSGD(torch.optim.SGD):
    """Gradient descent with momentum as Caffe does it: v ← μ v + lr (g + decay · w), w ← w − v.

    torch's SGD multiplies by the learning rate after the momentum; with a decaying rate that is another path. Here
    torch's fused update divides the gradient by a scale, `inverse_rate`, one over the learning rate: a scalar tensor on
    the parameters' device, so that a recorded step can change it; set it before each step. Its own rate never changes:
    it is the parameter's multiplier. The only state is a velocity for each parameter, without the multiplier.
    """

    def __init__(self, parameters: Sequence[Parameter], momentum: float) -> None:
        multipliers = sorted({parameter.multiplier for parameter in parameters})
        groups = [{"params": [p.value for p in parameters if p.multiplier == m], "lr": m} for m in multipliers]
        super().__init__(groups, momentum=momentum, fused=True)
        self._names, self._values, _, self._decays = zip(*parameters, strict=True)
        for value in self._values:
            self.state[value]["momentum_buffer"] = torch.zeros_like(value)
        self.inverse_rate = torch.ones((), device=self._values[0].device)
        self.found_inf = torch.zeros((), device=self._values[0].device)  # torch wants it beside a scale

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update."""
        gradients = [value.grad for value in self._values]
        missing = [name for name, gradient in zip(self._names, gradients, strict=True) if gradient is None]
        if missing:
            raise RuntimeError(f"no gradient reached {', '.join(missing)}")
        if any(self._decays):
            torch._foreach_add_(gradients, list(torch._foreach_mul(self._values, self._decays)))
        self.grad_scale = self.inverse_rate
        return super().step(closure)
