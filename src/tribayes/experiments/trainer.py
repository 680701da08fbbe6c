"""The training of one experiment: all state on the device, a step without a word from the host.

A step finds its batch and its rates in tables on the device and leaves its loss there. So the same step runs eagerly on
a CPU and, captured once, as a CUDA graph; the host comes in once a window of steps, to lay out the tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tribayes.experiments.compiling import compiled, is_compiled
from tribayes.experiments.models import Cifar10Full, DigitsNet, LeNet, SeededDropout
from tribayes.experiments.setting import Setting
from tribayes.experiments.sgd import CaffeSGD, Parameter
from tribayes.inference.estimator import mirror_image
from tribayes.nn.convert import stabilise_, to_bayesian
from tribayes.nn.holding import seed_of
from tribayes.nn.module import BayesianModule
from tribayes.posterior import Prior
from tribayes.posterior.parametrisation import rho_of

WINDOW = 1000  # steps between two visits of the host

NETWORKS: dict[str, Callable[[Setting], nn.Module]] = {
    "lenet-100": lambda setting: LeNet(100, setting.dropout),
    "lenet-250": lambda setting: LeNet(250, setting.dropout),
    "cifar10-full": lambda setting: Cifar10Full(setting.xavier),
    "digits": lambda _: DigitsNet(),
}


@dataclass(frozen=True)
class Examples:
    """Images as the network takes them, and labels, on one device."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


class Trainer:
    """A network on its way. `advance` trains; `state` and `load_state` carry everything a resumed run needs."""

    def __init__(self, setting: Setting, train: Examples, seed: int) -> None:
        self.setting, self.train, self.seed = setting, train, seed
        self.device = train.images.device
        self.model = build_model(setting, seed).to(self.device)
        # torch's stubs lack this signature, which its documentation has
        self.model.to(memory_format=memory_format(train.images))  # type: ignore[call-overload]
        if isinstance(self.model, BayesianModule):
            self.model.sampler = sampler_for(setting, self.device)
        self.generator = torch.Generator(self.device).manual_seed(seed_of(seed, 1))
        for module in self.model.modules():
            if isinstance(module, SeededDropout):
                module.generator = self.generator
        self.optimizer = CaffeSGD(_parameters(setting, self.model), setting.momentum)
        self.compiled = is_compiled(setting, self.device)
        self._nll = compiled(self._plain_nll) if self.compiled else self._plain_nll
        self.nu = setting.kl_weight / len(train)
        self.iteration = 0
        # the window under way, on the device: where it stands, and a row a step: the images, their labels, and the
        # weights of likelihood and divergence, two float32 in the room of an int64. So a step looks things up once
        self._place = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._rows = torch.zeros(WINDOW, 2 * setting.batch + 1, dtype=torch.int64, device=self.device)
        self._terms = torch.zeros(WINDOW, 2, device=self.device)  # what each step found: NLL and divergence
        self._nus = torch.zeros(WINDOW, device=self.device)
        self._nothing = torch.zeros((), device=self.device)  # the divergence of a frequentist network

    def advance(self, steps: int) -> None:
        """Train some steps, at most to the end of the window."""
        self.prepare()
        steps = min(steps, WINDOW - self.iteration % WINDOW)
        for _ in range(steps):
            self.step()
        self.note_steps(steps)

    def prepare(self) -> None:
        """Lay out the batches and rates of a window that begins."""
        if self.iteration % WINDOW == 0:
            self._lay_out_window()

    def note_steps(self, steps: int) -> None:
        """Tell the host that the device has been told to do so many steps."""
        self.iteration += steps

    def window_losses(self) -> Tensor:
        """Loss and NLL of the steps of the window that ended last or is under way, (steps, 2), on the device."""
        steps = (self.iteration - 1) % WINDOW + 1
        nll, divergence = self._terms[:steps].unbind(1)
        return torch.stack([nll + self._nus[:steps] * divergence, nll], 1)

    def step(self) -> None:
        """One step, entirely on the device: it can be captured."""
        row = self._rows.index_select(0, self._place).squeeze(0)
        batch, labels, packed = row.split([self.setting.batch, self.setting.batch, 1])
        rate, rate_of_divergence = packed.view(torch.float32).unbind()
        nll, divergence = self._find_terms(self.train.images[batch], labels)
        self.optimizer.zero_grad()
        # the gradient of learning rate × loss, without a loss
        terms = [nll, divergence] if divergence.requires_grad else [nll]
        torch.autograd.backward(terms, [rate, rate_of_divergence][: len(terms)])
        self.optimizer.step(rate)
        self._terms.index_copy_(0, self._place, torch.stack([nll, divergence]).detach().unsqueeze(0))
        self._place += 1

    def _find_terms(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The mean NLL of a batch, and the divergence."""
        model = self.model
        if not isinstance(model, BayesianModule):
            return self._nll({}, images, labels), self._nothing
        stabilise_(model, self.setting.guards, self.generator)
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

    def _lay_out_window(self) -> None:
        start = self.iteration - self.iteration % WINDOW
        order = batch_order(len(self.train), self.setting.batch, start, WINDOW, self.seed).to(self.device)
        steps = range(start, start + WINDOW)
        rates, nus = ([rule(i) for i in steps] for rule in (self._rate, self._nu))
        weights = torch.tensor([(rate, rate * nu) for rate, nu in zip(rates, nus, strict=True)], device=self.device)
        torch.cat([order, self.train.labels[order], weights.view(torch.int64)], 1, out=self._rows)
        self._nus.copy_(torch.tensor(nus))
        self._place.fill_(self.iteration - start)

    def _rate(self, iteration: int) -> float:
        return learning_rate(self.setting, iteration)

    def _nu(self, iteration: int) -> float:
        return self.nu * warm_up(self.setting, iteration)

    def state(self) -> dict[str, Tensor]:
        """Everything that changes, as tensors by name, on the CPU: what a checkpoint holds."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        velocities = zip(self.optimizer.names, self.optimizer.velocities, strict=True)
        tensors |= {f"velocity.{name}": value for name, value in velocities}
        tensors["generator"] = self.generator.get_state()
        tensors["iteration"] = torch.tensor(self.iteration)
        tensors["terms"] = self._terms  # those of the window under way are still to be written down
        return {name: value.detach().cpu().clone() for name, value in tensors.items()}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Continue where `state` was taken."""
        self.model.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})
        for name, value in zip(self.optimizer.names, self.optimizer.velocities, strict=True):
            value.copy_(tensors[f"velocity.{name}"])
        self.generator.set_state(tensors["generator"])
        self.iteration = int(tensors["iteration"])
        self._terms.copy_(tensors["terms"])
        self._lay_out_window()

    @torch.no_grad()
    def one_sample_error(self, test: Examples, chunk: int = 2500) -> float:
        """The share of wrong predictions with a single draw of the weights for every `chunk` images (a rough figure).

        Draws from a generator of its own, so that looking does not change the training.
        """
        self.model.eval()
        source = torch.Generator(self.device).manual_seed(seed_of(self.seed, 3, self.iteration))
        wrong = torch.zeros((), device=self.device)
        for images, labels in zip(test.images.split(chunk), test.labels.split(chunk), strict=True):
            wrong += (self._outputs(images, source).argmax(-1) != labels).sum()
        self.model.train()
        return float(wrong) / len(test)

    def _outputs(self, images: Tensor, source: torch.Generator) -> Tensor:
        if not isinstance(self.model, BayesianModule):
            return self.model(images)
        return self.model.apply_weights(self.model.sample_weights(generator=source), images)


def build_model(setting: Setting, seed: int) -> nn.Module:
    """The network of a setting, freshly initialised from the seed, Bayesian unless the setting is frequentist."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, 0))
        network = NETWORKS[setting.network](setting)
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


def memory_format(images: Tensor) -> torch.memory_format:
    """On a GPU, images of several channels and the filters for them lie channels last.

    There cuDNN's kernels for CIFAR10_full leave room for other trainings beside them: six take half the time. For
    LeNet, with its single input channel, it is the other way round.
    """
    return torch.channels_last if images.is_cuda and images.shape[1] > 1 else torch.contiguous_format


def sampler_for(setting: Setting, device: torch.device) -> str:
    """How a setting's weights are drawn: "auto" is fused on a GPU for the families that have it."""
    if setting.sampler != "auto":
        return setting.sampler
    return "fused" if device.type == "cuda" and setting.family != "mean_field" else "torch"


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


def batch_order(examples: int, batch: int, start: int, steps: int, seed: int) -> Tensor:
    """(steps, batch): which examples each step from `start` on sees; every epoch is a permutation of its own seed.

    Batches run on from one epoch into the next, so that no example is left out.
    """
    first, last = start * batch, (start + steps) * batch
    epochs = range(first // examples, (last - 1) // examples + 1)
    sources = (torch.Generator().manual_seed(seed_of(seed, 2, epoch)) for epoch in epochs)
    orders = torch.cat([torch.randperm(examples, generator=source) for source in sources])
    offset = first - epochs[0] * examples
    return orders[offset : offset + steps * batch].view(steps, batch)


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
