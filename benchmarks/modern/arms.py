"""The arms: ways to train one network and to ask it. All have one form, so that one loop trains them all.

| arm | training | asking |
| --- | --- | --- |
| plain | as usual | one network |
| dropout | with dropout after every stage and before the last layer | dropout stays on (Gal and Ghahramani 2016) |
| mean_field | a free standard deviation for each weight (Blundell et al. 2015), by tribayes | sampled networks |
| ivon | the optimizer IVON (Shen et al. 2024), from the folder of peers | its samples |
| laplace | plain, then Laplace's approximation of the last layer (last_layer.py) | its logits, drawn exactly |
| swag | plain; the rate is held in the last quarter, its weights noted (swag.py) | samples, with renewed statistics |
| ours, ours_tridiagonal | tribayes with the diagonal and the paper's tridiagonal law | sampled networks |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tribayes as tb
from benchmarks import peers
from benchmarks.modern.last_layer import LastLayer
from benchmarks.modern.networks import Classifier, Image
from benchmarks.modern.swag import Passage, flat, put, renew_statistics
from benchmarks.modern.task import MOMENTUM, Task, Value, warm_up_and_cosine

ASKED_AT_ONCE = 1000  # images per pass
PARTS = {"one": 1, "halves": 2, "quarters": 4}  # draws per batch, each for its share of it

Batches = Callable[[bool], Iterator[tuple[Tensor, Tensor]]]  # one pass over the training images; augmented?


class Arm(ABC):
    """A network in training, and afterwards a source of class probabilities.

    Args:
        network: fresh, on the CPU.
        task: how it is trained, and where.
    """

    options: ClassVar[Mapping[str, Value]] = {}  # what may be chosen on held-out images, and the defaults
    note = ""  # what a reader of its row should know

    def __init__(self, network: Classifier, task: Task) -> None:
        self.task, self.network = task, network
        self.model: nn.Module = self.converted(network).to(task.device)
        # torch's stubs lack this signature, which its documentation has
        self.model.to(memory_format=task.memory_format)  # type: ignore[call-overload]
        self.optimizer = self.make_optimizer()

    def option(self, name: str) -> Any:
        return self.task.settings.options.get(name, self.options[name])

    def converted(self, network: Classifier) -> nn.Module:
        """The network in the arm's own form."""
        return network

    def make_optimizer(self) -> torch.optim.Optimizer:
        return self.task.optimizer(self.model.parameters())

    def rate(self, step: int) -> float:
        """The share of the learning rate at a step."""
        return warm_up_and_cosine(step, self.task.steps)

    @abstractmethod
    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        """One step; returns its loss, which the next step may overwrite."""

    def finish(self, batches: Batches) -> None:
        """What is left to do when the last step is taken."""
        del batches

    @abstractmethod
    def predict(self, images: Tensor) -> Tensor:
        """(S, N, C) on the CPU: class probabilities by S sampled networks, or S = 1."""

    def posterior(self) -> dict[str, dict[str, Any]]:
        """What is known of each tensor's law, for arms that learn one."""
        return {}

    @contextmanager
    def asking(self, sample: int = 0) -> Iterator[None]:
        """In evaluation mode, without gradients, in the run's precision; random numbers by seed and sample."""
        mode = self.model.training
        self.model.eval()
        devices = [self.task.device] if self.task.device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices), torch.no_grad(), self.task.precision():
                torch.manual_seed(1_000_003 * (self.task.settings.seed + 1) + sample)
                yield
        finally:
            self.model.train(mode)


class Plain(Arm):
    """Maximum likelihood by the library's own step, which records itself on a GPU."""

    def __init__(self, network: Classifier, task: Task) -> None:
        super().__init__(network, task)
        self._step = tb.TrainingStep(self.model, self.objective(), self.optimizer)

    def objective(self) -> Any:
        return tb.MaximumLikelihood(tb.Categorical())

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        with self.task.precision():
            return self._step(images, labels).loss

    def predict(self, images: Tensor) -> Tensor:
        with self.asking():
            return answers(self.model, images)[None].cpu()


class Dropout(Plain):
    """MC dropout; the network was built with it."""

    options: ClassVar[Mapping[str, Value]] = {"dropout": 0.1}

    def predict(self, images: Tensor) -> Tensor:
        return torch.stack([self._once(images, sample) for sample in range(self.task.settings.samples)])

    def _once(self, images: Tensor, sample: int) -> Tensor:
        with self.asking(sample):
            for module in self.model.modules():
                if isinstance(module, nn.Dropout):
                    module.train()
            return answers(self.model, images).cpu()


class Variational(Plain):
    """The library's Bayesian network. `family` and defaults differ between arms."""

    family = "diagonal"
    options: ClassVar[Mapping[str, Value]] = {
        "kl": "auto",
        "prior": "relative",
        "tau": 0.05,
        "draws": "one",
        "decay": "all",  # parameters that decay, as in a plain network; or "means", those of random weights alone
    }
    model: tb.BayesianModule

    def converted(self, network: Classifier) -> nn.Module:
        return tb.to_bayesian(network, prior=self._prior(), family=self.family, tau=float(self.option("tau")))

    def _prior(self) -> tb.Prior | tb.RelativePrior:
        scale = self.option("prior")
        return tb.RelativePrior() if scale == "relative" else tb.Prior(scale=float(scale))

    def make_optimizer(self) -> torch.optim.Optimizer:
        decay, everywhere = self.task.weight_decay, self.option("decay") == "all"
        groups = tb.parameter_groups(self.model, lr=self.task.lr, weight_decay=None if everywhere else decay)
        return self.task.optimizer({"weight_decay": decay if everywhere else 0.0} | group for group in groups)

    def objective(self) -> Any:
        made = SharedBatch(tb.Categorical(), data_size=self.task.data_size, kl_weight=self.option("kl"))
        made.draws = PARTS[self.option("draws")]
        return made

    def predict(self, images: Tensor) -> Tensor:
        seed, count = self.task.settings.seed, self.task.settings.samples
        precision = torch.bfloat16 if self.task.device.type == "cuda" else None
        asked = tb.predict(self.model, images, samples=count, seed=seed, precision=precision, progress=False)
        return asked.samples.float().cpu()

    def posterior(self) -> dict[str, dict[str, Any]]:
        rows = self.model.posterior().as_dict()
        return {name: {key: _finite(value) for key, value in row.items()} for name, row in rows.items()}


class SharedBatch(tb.ELBO):
    """The library's objective; with several draws per step each is for its part of the batch."""

    draws = 1

    def parts(self, stage: Any, inputs: Any, targets: Tensor, generator: Any = None) -> tuple[Tensor, Tensor, Tensor]:
        if self.draws == 1:
            return super().parts(stage, inputs, targets, generator)
        found = []
        for images, labels in zip(inputs.chunk(self.draws), targets.chunk(self.draws), strict=True):
            found.append(super().parts(stage, images, labels, generator))
        nll = torch.stack([part[0] for part in found]).mean()
        return nll, found[0][1], torch.cat([part[2] for part in found])


class Tridiagonal(Variational):
    family = "tridiagonal"


class MeanField(Variational):
    family = "mean_field"
    options: ClassVar[Mapping[str, Value]] = {**Variational.options, "kl": 0.01, "prior": 0.1}


class Ivon(Arm):
    """IVON by its authors' package. It replaces parameters in every step, so that no CUDA graph is made of it."""

    options: ClassVar[Mapping[str, Value]] = {"hessian": 0.9, "beta2": "auto"}
    note = "IVON's rate is lr / (1 − β1), since its momentum is an average: the first steps are as long as SGD's"

    def make_optimizer(self) -> torch.optim.Optimizer:
        peers.learner("IVON")  # looks into the folder of peers, or says that it is missing
        from ivon import IVON  # type: ignore[import-not-found]  # installed only by benchmarks.peers.install

        beta2 = self.option("beta2")
        made: torch.optim.Optimizer = IVON(
            self.model.parameters(),
            lr=self.task.lr / (1 - MOMENTUM),
            ess=self.task.data_size,
            hess_init=float(self.option("hessian")),
            beta1=MOMENTUM,
            # its authors' 0.99999 is for 200,000 steps, two of the average's lengths; the same share of fewer steps
            beta2=max(0.9, 1 - 2 / self.task.steps) if beta2 == "auto" else float(beta2),
            weight_decay=self.task.weight_decay,
        )
        return made

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        optimizer: Any = self.optimizer
        with optimizer.sampled_params(train=True):
            optimizer.zero_grad()
            with self.task.precision():
                loss = F.cross_entropy(self.model(images), labels)
            loss.backward()
        optimizer.step()
        return loss.detach()

    def predict(self, images: Tensor) -> Tensor:
        return torch.stack([self._once(images, sample) for sample in range(self.task.settings.samples)])

    def _once(self, images: Tensor, sample: int) -> Tensor:
        optimizer: Any = self.optimizer
        with self.asking(sample), optimizer.sampled_params():
            return answers(self.model, images).cpu()


class Laplace(Plain):
    """A plain network and, when it is trained, the law of its last layer. δ by the evidence, or a number."""

    options: ClassVar[Mapping[str, Value]] = {"precision": "evidence"}
    note = "own code: Kronecker-factored Gauss-Newton of the last layer, logits drawn exactly"

    def adopt(self, state: Mapping[str, Tensor]) -> None:
        """Take the weights of a plain network that was trained already."""
        self.model.load_state_dict(dict(state))

    def finish(self, batches: Batches) -> None:
        chosen = self.option("precision")
        with self.asking():
            features = (self.network.features(images).float() for images, _ in batches(False))
            self.layer = LastLayer.fit(self.network.head, features, None if chosen == "evidence" else float(chosen))

    def predict(self, images: Tensor) -> Tensor:
        source = torch.Generator(self.task.device).manual_seed(self.task.settings.seed)
        with self.asking():
            features = [self.network.features(part).float() for part in images.split(ASKED_AT_ONCE)]
        drawn = [self.layer.sample(part, self.task.settings.samples, source).cpu() for part in features]
        return torch.cat(drawn, 1)

    def posterior(self) -> dict[str, dict[str, Any]]:
        return {"head": {"precision": self.layer.precision}}


class Swag(Plain):
    """Notes its weights in the last quarter, in which the rate stays as it is at its beginning (or at `rate` of lr)."""

    options: ClassVar[Mapping[str, Value]] = {"rate": "held"}
    note = "the rate is held in the last quarter, as SWAG wants it, instead of going to 0"
    snapshots = 40
    renewing = 40  # batches for the statistics of each sampled network

    def __init__(self, network: Classifier, task: Task) -> None:
        super().__init__(network, task)
        self.passage, self.taken = Passage(), 0
        self.begin = math.floor(0.75 * task.steps)
        self.every = max(1, (task.steps - self.begin) // self.snapshots)

    def rate(self, step: int) -> float:
        if step < self.begin:
            return super().rate(step)
        chosen = self.option("rate")
        return super().rate(self.begin) if chosen == "held" else float(chosen)

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        loss = super().step(images, labels)
        self.taken += 1
        if self.taken > self.begin and (self.task.steps - self.taken) % self.every == 0:
            self.passage.see(flat(self.model))
        return loss

    def finish(self, batches: Batches) -> None:
        """Draw the networks that will be asked, each with statistics of its own."""
        source = torch.Generator(self.task.device).manual_seed(self.task.settings.seed)
        self.drawn: list[tuple[Tensor, dict[str, Tensor]]] = []
        for _ in range(self.task.settings.samples):
            weights = self.passage.sample(source)
            put(weights, self.model)
            some = (images for (images, _), _ in zip(batches(True), range(self.renewing), strict=False))
            with self.task.precision():
                renew_statistics(self.model, some)
            self.drawn.append((weights, {name: buffer.clone() for name, buffer in self.model.named_buffers()}))

    def predict(self, images: Tensor) -> Tensor:
        found = []
        for weights, buffers in self.drawn:
            put(weights, self.model)
            for name, buffer in self.model.named_buffers():
                buffer.copy_(buffers[name])
            with self.asking():
                found.append(answers(self.model, images).cpu())
        return torch.stack(found)


ARMS: dict[str, type[Arm]] = {
    "plain": Plain,
    "dropout": Dropout,
    "mean_field": MeanField,
    "ivon": Ivon,
    "laplace": Laplace,
    "swag": Swag,
    "ours": Variational,
    "ours_tridiagonal": Tridiagonal,
}


def build(task: Task, image: Image, classes: int) -> Arm:
    """The arm with a fresh network: a seed gives all arms the same first weights."""
    torch.manual_seed(task.settings.seed)
    dropout = float(task.settings.options.get("dropout", 0.0))
    return ARMS[task.settings.arm](task.kind.build(image, classes, dropout), task)


def answers(model: nn.Module, images: Tensor) -> Tensor:
    """(N, C): probabilities, some images at a time."""
    return torch.cat([model(part).float().softmax(-1) for part in images.split(ASKED_AT_ONCE)])


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
