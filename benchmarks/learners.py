"""Those who take part: a network with its objective and its optimizer. Here the plain network, and ours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tribayes as tb
from benchmarks.networks import Task

LEARNING_RATE = 1e-4  # small: what is timed should not run away from its initial weights
MOMENTUM = 0.9
DETERMINISTIC, OURS = "deterministic", "ours"


class Learner(ABC):
    """A network that learns a task on a device. Every contender is one, with the same optimizer where it can be."""

    random = True  # whether two passes differ
    note = ""  # what a reader of its row should know

    def __init__(self, task: Task, device: torch.device) -> None:
        self.task, self.device = task, device
        self.model = self.converted(task.network()).to(device=device, memory_format=task.memory_format)
        self.optimizer = self.make_optimizer()

    def converted(self, network: nn.Module) -> nn.Module:
        """The network in the contender's own form."""
        return network

    def make_optimizer(self) -> torch.optim.Optimizer:
        return sgd(self.model.parameters())

    def outputs(self, images: Tensor) -> Tensor:
        """(N, classes): logits under one fresh draw of the weights."""
        return self.model(images)

    @abstractmethod
    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """What a step descends."""

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        """One training step, entirely on the device."""
        loss = self.loss(images, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def random_weights(self) -> int:
        """How many weights are drawn; 0 where it is not known."""
        return 0


class Variational(Learner):
    """One that draws its weights while it runs, and tells their divergence afterwards."""

    @abstractmethod
    def divergence(self) -> Tensor:
        """KL(q ‖ p) in nats, after `outputs` was called for the step."""

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        with self.task.precision(self.device):
            nll = F.cross_entropy(self.outputs(images), labels)
            return nll + self.divergence() / self.task.data_size


class Deterministic(Learner):
    """The network as it is: the price that the others are measured by."""

    random = False

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        with self.task.precision(self.device):
            return F.cross_entropy(self.outputs(images), labels)


class Ours(Learner):
    """`tribayes.to_bayesian` and `tribayes.TrainingStep`, as README writes them."""

    def __init__(self, task: Task, device: torch.device, samples: int = 1) -> None:
        super().__init__(task, device)
        self.elbo = tb.ELBO(tb.Categorical(), data_size=task.data_size, samples=samples)
        self.called = self.as_called()
        self._eager = tb.TrainingStep(self.called, self.elbo, self.optimizer, capture=False)

    def converted(self, network: nn.Module) -> nn.Module:
        return tb.to_bayesian(network, family="tridiagonal")  # which costs more than the default

    def as_called(self) -> nn.Module:
        """The model as a user hands it over."""
        return self.model

    def make_optimizer(self) -> torch.optim.Optimizer:
        return sgd(tb.parameter_groups(self.model, lr=LEARNING_RATE))

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        with self.task.precision(self.device):
            return self.elbo(self.called, images, labels).loss

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        with self.task.precision(self.device):
            return self._eager(images, labels).loss

    def recording_step(self) -> tuple[Callable[[Tensor, Tensor], Tensor], tb.TrainingStep]:
        """The public step, which records itself on a GPU, as it is called and as the object it is."""
        step = tb.TrainingStep(self.called, self.elbo, self.optimizer)

        def call(images: Tensor, labels: Tensor) -> Tensor:
            with self.task.precision(self.device):
                return step(images, labels).loss

        return call, step

    def random_weights(self) -> int:
        return sum(mean.numel() for _, mean in self.model.means())


class CompiledDeterministic(Deterministic):
    """The network by torch.compile."""

    def __init__(self, task: Task, device: torch.device) -> None:
        super().__init__(task, device)
        self._network = torch.compile(self.model, dynamic=False)

    def outputs(self, images: Tensor) -> Tensor:
        return self._network(images)


class CompiledOurs(Ours):
    """Ours by torch.compile."""

    def as_called(self) -> nn.Module:
        return torch.compile(self.model, dynamic=False)


OWN: dict[str, type[Learner]] = {DETERMINISTIC: Deterministic, OURS: Ours}
COMPILED: dict[str, type[Learner]] = {
    f"{DETERMINISTIC}, compiled": CompiledDeterministic,
    f"{OURS}, compiled": CompiledOurs,
}


def sgd(parameters: object) -> torch.optim.Optimizer:
    """The optimizer of every arm: momentum, one fused update for all tensors of a group."""
    return torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=MOMENTUM, fused=True)
