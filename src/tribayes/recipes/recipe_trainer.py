"""The training of a setting: its network, its learning rates, and a step that a CUDA graph can hold."""

from __future__ import annotations

import math
from contextlib import nullcontext
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from tribayes.inference import ELBO, Categorical, MaximumLikelihood
from tribayes.nn.convert import to_bayesian
from tribayes.nn.module import BayesianModule
from tribayes.posterior import Prior, Stream
from tribayes.posterior.parametrisation import rho_of
from tribayes.recipes.caffe_sgd import CaffeSGD, Parameter
from tribayes.recipes.compiling import compiled, explained, is_compiled
from tribayes.recipes.examples import memory_format
from tribayes.recipes.networks import NETWORKS, SeededDropout
from tribayes.recipes.setting import Setting
from tribayes.runs.trainer import Examples, Inputs, Trainer


class RecipeTrainer(Trainer):
    """The trainer of a setting: the setting and the seed say all."""

    capturable = True
    optimizer: CaffeSGD

    def __init__(self, setting: Setting, train: Examples, seed: int) -> None:
        (images,) = train.arguments
        model = build_model(setting, seed).to(images.device)
        # torch's stubs lack this signature, which its documentation has
        model.to(memory_format=memory_format(images))  # type: ignore[call-overload]
        self.setting = setting
        self.compiled = is_compiled(setting, images.device)
        super().__init__(
            model,
            _objective(setting, len(train)),
            CaffeSGD(_parameters(setting, model), setting.momentum),
            train,
            batch_size=setting.batch,
            iterations=setting.iterations,
            seed=seed,
            rule=setting.guards,
            called=compiled(model) if self.compiled else model,
        )
        for module in model.modules():
            if isinstance(module, SeededDropout):
                module.generator = self.generator

    def learning_rate(self, iteration: int) -> float:
        return learning_rate(self.setting, iteration)

    def description(self) -> dict[str, Any]:
        """Nothing: the run's config holds the setting."""
        return {}

    def _take_step(self, inputs: Inputs, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Entirely on the device."""
        inverse_rate, nu = weights.unbind()
        self.optimizer.inverse_rate = inverse_rate
        with explained() if self.compiled else nullcontext():
            terms = self.take_step.take(inputs, targets, nu)
        return terms.nll, terms.kl


def build_model(setting: Setting, seed: int) -> nn.Module:
    """The network of a setting, freshly initialised from the seed, Bayesian unless the setting is frequentist."""
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(Stream((seed, 0)).generator(torch.device("cpu")).get_state())
        network = NETWORKS[setting.network].build(setting)
        if not setting.bayesian:
            return network
        prior = {pattern: Prior(scale=scale) for pattern, scale in setting.prior_scale.items()}
        rho = _initial_rho(setting, network) if setting.family == "tridiagonal" else 0.0
        return to_bayesian(network, prior=prior or None, tau=setting.tau, rho=rho, family=setting.family)


def _initial_rho(setting: Setting, network: nn.Module) -> dict[str, float]:
    """|γ| as set, with a random sign for each tensor."""
    names = [name for name, _ in network.named_parameters()]
    signs = torch.randint(0, 2, (len(names),)) * 2 - 1
    rho = rho_of(torch.tensor(setting.gamma, dtype=torch.float64))
    return {name: float(rho * sign) for name, sign in zip(names, signs, strict=True)}


def _objective(setting: Setting, data_size: int) -> ELBO | MaximumLikelihood:
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
    network = model.module if isinstance(model, BayesianModule) else model
    learned = [
        Parameter(name, value, _bias_rate(setting, name), _decay(setting, name))
        for name, value in network.named_parameters()
    ]
    if isinstance(model, BayesianModule):
        family = model.family
        scales = enumerate(family.scale_parameters())
        learned += [Parameter(f"scale.{i}", value, setting.scale_rate) for i, value in scales]
        correlations = enumerate(family.correlation_parameters())
        learned += [Parameter(f"correlation.{i}", value, setting.kappa) for i, value in correlations]
    return learned


def _bias_rate(setting: Setting, name: str) -> float:
    return setting.bias_rate if name.endswith("bias") else 1.0


def _decay(setting: Setting, name: str) -> float:
    return next((decay for pattern, decay in setting.weight_decay.items() if fnmatchcase(name, pattern)), 0.0)
