"""The training of a setting: its network, its learning rates, and a step that a CUDA graph can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tribayes.inference import ELBO, Categorical
from tribayes.inference.estimator import mirror_image
from tribayes.nn.convert import stabilise_, to_bayesian
from tribayes.nn.holding import seed_of
from tribayes.nn.module import BayesianModule
from tribayes.posterior import Prior
from tribayes.posterior.parametrisation import rho_of
from tribayes.recipes.caffe_sgd import CaffeSGD, Parameter
from tribayes.recipes.compiling import compiled, is_compiled
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
        super().__init__(
            model,
            _objective(setting, len(train)),
            CaffeSGD(_parameters(setting, model), setting.momentum),
            train,
            batch_size=setting.batch,
            iterations=setting.iterations,
            seed=seed,
            rule=setting.guards,
        )
        self.setting = setting
        for module in model.modules():
            if isinstance(module, SeededDropout):
                module.generator = self.generator
        self.compiled = is_compiled(setting, self.device)
        self._nll = compiled(self._plain_nll) if self.compiled else self._plain_nll
        self._nothing = torch.zeros((), device=self.device)  # the divergence of a frequentist network

    def learning_rate(self, iteration: int) -> float:
        return learning_rate(self.setting, iteration)

    def description(self) -> dict[str, Any]:
        """Nothing: the run's config holds the setting."""
        return {}

    def _take_step(self, inputs: Inputs, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """As Caffe does it, entirely on the device."""
        assert isinstance(inputs, Tensor)
        rate, rate_of_divergence = weights.unbind()
        nll, divergence = self._find_terms(inputs, targets)
        self.optimizer.zero_grad()
        # the gradient of learning rate × loss, without a loss
        terms = [nll, divergence] if divergence.requires_grad else [nll]
        torch.autograd.backward(terms, [rate, rate_of_divergence][: len(terms)])
        self.optimizer.step_at(rate)
        return nll, divergence

    def _find_terms(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The mean NLL of a batch, and the divergence."""
        model = self.model
        if not isinstance(model, BayesianModule):
            return self._nll({}, images, labels), self._nothing
        stabilise_(model, self.rule, self.generator)
        weights, divergence = model.sample_weights_and_kl(generator=self.generator)
        nll = self._nll(weights, images, labels)
        if self.setting.estimator == "antithetic":
            nll = 0.5 * (nll + self._nll(mirror_image(model, weights), images, labels))
        return nll, divergence

    def _plain_nll(self, weights: Mapping[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
        """The mean NLL of a batch under a draw, which for a frequentist network is empty."""
        model = self.model
        return F.cross_entropy(
            model.apply_weights(weights, images) if isinstance(model, BayesianModule) else model(images), labels
        )


def build_model(setting: Setting, seed: int) -> nn.Module:
    """The network of a setting, freshly initialised from the seed, Bayesian unless the setting is frequentist."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, 0))
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


def _objective(setting: Setting, data_size: int) -> ELBO:
    draws = 2 if setting.estimator == "antithetic" else 1
    return ELBO(
        Categorical(),
        data_size=data_size,
        kl_weight=lambda iteration: setting.kl_weight * warm_up(setting, iteration),
        samples=draws,
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
