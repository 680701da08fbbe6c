"""A training on its way: a step finds its batch in a table on the device and leaves its loss there.

So the same step runs eagerly and, where it asks the host for nothing, as a CUDA graph; the host comes in once per
window of steps, to lay out the tables.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import check_whole, is_number, refusal, wrong_type
from tribayes._own_randomness import OwnRandomness
from tribayes.distributed.processes import processes
from tribayes.inference.alpha import AlphaELBO
from tribayes.inference.objective import AUTO, ELBO, ELBOTerms, Objective
from tribayes.inference.step import TrainingStep
from tribayes.nn.answer import counted
from tribayes.nn.stage import Stage, posterior_rows, sample_model
from tribayes.posterior.streams import Stream
from tribayes.runs.batches import Examples, Inputs, batch_order

WINDOW = 1000  # steps between two visits of the host

_CHUNK = 2500  # test examples under one draw of the weights
_NUMBER = ":number"  # ends the name of a plain number of an optimizer's state, kept as a tensor

Schedule = Callable[[int], float]


class Trainer:
    """A network on its way. `advance` trains; `state` and `load_state` carry everything a resumed run needs.

    Where torch has a process group, its processes train together: each takes its share of every batch, under the same
    draw, so that the training is that of one process but for rounding.

    Args:
        model: the network, on the device of the examples.
        objective: what is minimised.
        optimizer: any of torch's, for parameters of the model and the objective.
        train: the examples to learn from.
        batch_size: examples per step.
        iterations: steps of the whole training.
        seed: determines batches and draws. torch's global generators are left as they are, but while a step lasts of
            a network that draws from them by itself, as dropout does: there the step's own numbers come out of them.
        schedule: factor of the optimizer's learning rates at each iteration, counted from 0; None: always 1.
        rule: the guards before each step, as of `tribayes.stabilise_`.
        called: the model as it is called, where that is another object: by torch.compile.

    Example:
        >>> train = tb.runs.Examples(torch.randn(40, 2), torch.randint(3, (40,)))
        >>> model, elbo = tb.to_bayesian(nn.Linear(2, 3)), tb.ELBO(tb.Categorical(), data_size=40)
        >>> optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.1), momentum=0.9)
        >>> trainer = tb.runs.Trainer(model, elbo, optimizer, train, batch_size=8, iterations=20, seed=0)
        >>> trainer.advance(20)
        >>> trainer.iteration
        20
    """

    on_device = False  # whether a step asks the host for nothing

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        train: Examples,
        *,
        batch_size: int,
        iterations: int,
        seed: int,
        schedule: Schedule | None = None,
        rule: str = "closed_form",
        called: nn.Module | None = None,
    ) -> None:
        batch_size = check_whole("batch_size", batch_size, "pass e.g. 64", least=1)
        self.iterations = check_whole("iterations", iterations, "pass e.g. 1000", least=1)
        self.processes = processes()
        self.processes.check_batch(batch_size)
        if batch_size > len(train):
            most = f"be at most the {len(train):,} training examples"
            raise refusal("batch_size", batch_size, most, "choose a smaller batch")
        self.model, self.objective, self.optimizer, self.train = model, objective, optimizer, train
        self.batch_size, self.seed = batch_size, check_whole("seed", seed, "pass e.g. 0")
        self.schedule, self.rule = schedule, rule
        self.device = train.targets.device
        self.generator = Stream((seed, 1)).generator(self.device)
        called = self.processes.together(model if called is None else called)
        self.take_step = TrainingStep(called, objective, optimizer, rule=rule, generator=self.generator, same_draw=True)
        # for networks that draw from torch's own generators, as dropout does
        places = [] if self.on_device else dict.fromkeys([torch.device("cpu"), self.device])
        lent = [Stream((seed, 5, number)).generator(place) for number, place in enumerate(places)]
        self._own_randomness = OwnRandomness(lent)
        named = {f"global_generator.{number}": each for number, each in enumerate(lent)}
        self._generators = {"generator": self.generator} | named
        self._rates = [float(group["lr"]) for group in optimizer.param_groups]
        self.iteration = 0
        # the window under way, on the device: where it stands, and one row per step: the examples, their labels where
        # they have some, and one over the learning rate and ν, two float32 in the room of an int64. So a step looks
        # things up once
        width = batch_size * (2 if train.are_labelled else 1) + 1
        self._place = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._rows = torch.zeros(WINDOW, width, dtype=torch.int64, device=self.device)
        self._losses = torch.zeros(WINDOW, 2, device=self.device)  # what each step found: loss and NLL

    def advance(self, steps: int) -> None:
        """Train some steps, at most to the end of the window."""
        self.prepare()
        for _ in range(min(steps, WINDOW - self.iteration % WINDOW)):
            self.step()
            self.iteration += 1

    def prepare(self, anew: bool = False) -> None:
        """Lay out the batches and rates of a window that begins, or `anew` those of the one under way."""
        start = self.iteration - self.iteration % WINDOW
        if start != self.iteration and not anew:
            return
        order = batch_order(len(self.train), self.batch_size, start, WINDOW, self.seed).to(self.device)
        steps = range(start, start + WINDOW)
        inverse = [1 / rate if rate else math.inf for rate in map(self.learning_rate, steps)]
        pairs = list(zip(inverse, map(self.objective.nu, steps), strict=True))
        labels = [self.train.targets[order]] if self.train.are_labelled else []
        weights = torch.tensor(pairs, device=self.device, dtype=torch.float32).view(torch.int64)
        torch.cat([order, *labels, weights], 1, out=self._rows)
        self._place.fill_(self.iteration - start)

    def window_losses(self) -> Tensor:
        """Loss and NLL of the steps of the window that ended last or is under way, (steps, 2), on the device."""
        return self._losses[: (self.iteration - 1) % WINDOW + 1]

    def step(self) -> None:
        """One step, in which the tables are read and written on the device."""
        row = self._rows.index_select(0, self._place).squeeze(0)
        batch, labels, packed = row.split([self.batch_size, len(row) - self.batch_size - 1, 1])
        share = self.processes.share(self.batch_size)
        targets = labels[share] if self.train.are_labelled else self.train.targets[batch[share]]
        terms = self._take_step(self.train.chosen(batch[share]), targets, packed.view(torch.float32))
        losses = self.processes.mean_(torch.stack([terms.loss, terms.nll]).to(self._losses))
        self._losses.index_copy_(0, self._place, losses.unsqueeze(0))
        self._place += 1

    def _take_step(self, inputs: Inputs, targets: Tensor, weights: Tensor) -> ELBOTerms:
        """Guards, gradient, update. `weights` has one over the learning rate, and ν, for a step on the device alone."""
        del weights
        self.scale_rates(self._factor(self.iteration))
        self.take_step.count = self.iteration
        with self._own_randomness():
            return self.take_step(inputs, targets)

    def learning_rate(self, iteration: int) -> float:
        """That of the optimizer's first group at an iteration."""
        return self._rates[0] * self._factor(iteration)

    def _factor(self, iteration: int) -> float:
        factor = 1.0 if self.schedule is None else self.schedule(iteration)
        if not (is_number(factor) or (isinstance(factor, Tensor) and factor.numel() == 1)):
            requirement = f"give a number for every iteration, but gave {factor!r} for {iteration}"
            raise wrong_type("schedule", self.schedule, requirement, "mend its return")
        return float(factor)

    def scale_rates(self, factor: float) -> None:
        """Set the optimizer's learning rates to multiples of what they were; 1.0 gives them back."""
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(factor * rate)
            else:
                group["lr"] = factor * rate

    def description(self) -> dict[str, Any]:
        """Everything given that determines the result, as plain values, but for the seed."""
        objective, given = self.objective, getattr(self.objective, "kl_weight", 0.0)
        given = objective.weight() if isinstance(objective, ELBO) and given == AUTO else given
        steps = (0, self.iterations // 2, self.iterations - 1)  # where functions of the iteration are compared
        names = {parameter: name for name, parameter in self.model.named_parameters()}
        names |= {parameter: f"objective.{name}" for name, parameter in objective.named_parameters()}
        groups = []
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            if strange := [parameter for parameter in group["params"] if parameter not in names]:
                remedy = "put what it learns into the model, or into the objective's likelihood"
                raise refusal("optimizer", strange[0], "hold only parameters of the model and the objective", remedy)
            others = {key: value for key, value in group.items() if key not in ("params", "lr")}
            groups.append(others | {"params": [names[parameter] for parameter in group["params"]], "lr": rate})
        plain = json.dumps(groups, default=lambda x: x.tolist() if isinstance(x, Tensor) else type(x).__name__)
        return {
            "iterations": self.iterations,
            "batch_size": self.batch_size,
            "rule": self.rule,
            "schedule": None if self.schedule is None else [self._factor(i) for i in steps],
            "objective": type(objective).__name__,
            "likelihood": type(objective.likelihood).__name__,
            "kl_weight": [float(given(i)) for i in steps] if callable(given) else float(given),
            **{name: getattr(objective, name, None) for name in ("data_size", "samples", "estimator")},
            **({"alpha": objective.alpha} if isinstance(objective, AlphaELBO) else {}),
            "optimizer": type(self.optimizer).__name__,
            "optimizer groups": json.loads(plain),
            "parameters": {name: list(parameter.shape) for parameter, name in names.items()},
            "training examples": self.train.digest(),
        }

    def state(self) -> dict[str, Tensor]:
        """Everything that changes, as tensors by name, on the CPU: what a checkpoint holds."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"objective.{name}": value for name, value in self.objective.state_dict().items()}
        tensors |= _optimizer_state(self.optimizer)
        tensors |= {name: generator.get_state() for name, generator in self._generators.items()}
        tensors["iteration"] = torch.tensor(self.iteration, device="cpu")
        tensors["losses"] = self._losses  # those of the window under way are still to be written down
        return copied(tensors, "state")

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue where `state` was taken."""
        self.model.load_state_dict(_part(tensors, "model."))
        self.objective.load_state_dict(_part(tensors, "objective."))
        self.scale_rates(1.0)
        _load_optimizer_state(self.optimizer, _part(tensors, "optimizer."))
        for name, generator in self._generators.items():
            generator.set_state(tensors[name])
        self.iteration = int(tensors["iteration"])
        self._losses.copy_(tensors["losses"])
        self.prepare(anew=True)

    def one_sample_scores(self, test: Examples) -> tuple[float | None, float]:
        """The share of wrong labels (None where targets are none) and the NLL per example, by a draw per 2,500."""
        wrong = torch.zeros((), device=self.device)
        nll = torch.zeros((), device=self.device, dtype=torch.float64)
        stream, stage = Stream((self.seed, 3, self.iteration)), Stage(self.model, evaluation=True)
        is_random = bool(posterior_rows(self.model))
        with torch.no_grad():
            for number, start in enumerate(range(0, len(test), _CHUNK)):
                part = slice(start, start + _CHUNK)
                draw = sample_model(self.model, stream.child(number)) if is_random else []
                answer = stage.run(draw, *(argument[part] for argument in test.arguments))
                outputs = counted(answer, self.objective.output)
                nll += self.objective.likelihood.each_nll(outputs, test.targets[part]).sum()
                wrong += (outputs.argmax(-1) != test.targets[part]).sum() if test.are_labelled else 0
        return float(wrong) / len(test) if test.are_labelled else None, float(nll) / len(test)


def copied(state: Mapping[str, Any], owner: str) -> dict[str, Tensor]:
    """A state dict as a file takes it: every tensor in memory of its own, on the CPU."""
    for name, value in state.items():
        if not isinstance(value, Tensor):
            remedy = "register it as a buffer, so that it can be kept in a safetensors file"
            raise refusal(f"{owner}.{name}", value, "be a tensor", remedy)
    return {name: value.detach().cpu().clone() for name, value in state.items()}


def _optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    tensors = {}
    for index, values in optimizer.state_dict()["state"].items():
        for key, value in values.items():
            name = f"optimizer.{index}.{key}"
            if isinstance(value, Tensor):
                tensors[name] = value
            elif isinstance(value, int | float):
                kind = torch.float64 if isinstance(value, float) else torch.int64
                tensors[name + _NUMBER] = torch.tensor(value, dtype=kind, device="cpu")
            elif value is not None:
                remedy = "use an optimizer whose state is tensors, such as torch.optim.SGD or Adam"
                raise refusal(name, value, "be a tensor or a number, to be kept in a checkpoint", remedy)
    return tensors


def _load_optimizer_state(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Any]] = {}
    for name, value in tensors.items():
        index, _, key = name.partition(".")
        is_number = key.endswith(_NUMBER)
        state.setdefault(int(index), {})[key.removesuffix(_NUMBER)] = value.item() if is_number else value
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
    for parameter, values in optimizer.state.items():
        for key, value in values.items():  # in the parameter's memory format, as the optimizer had made them
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                values[key] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
