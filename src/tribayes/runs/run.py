"""A run of your own: any model, objective, optimizer and data, trained in a folder, whatever happens to the process."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from tribayes._arrays import is_array
from tribayes._errors import check_module, check_whole, refusal, wrong_type
from tribayes._files import only_one
from tribayes._tensor_files import plain_values
from tribayes.distributed.processes import processes
from tribayes.inference.objective import Objective
from tribayes.nn.calling import Home
from tribayes.nn.sharded import check_unsharded
from tribayes.runs.batches import Examples, Inputs
from tribayes.runs.environment import repeatable
from tribayes.runs.evaluation import evaluate
from tribayes.runs.folder import RunFolder, check_same
from tribayes.runs.records import Record
from tribayes.runs.session import CHECKPOINT_SECONDS, Session, Stopped, train_sessions
from tribayes.runs.trainer import Schedule, Trainer

Pair = Examples | tuple[Inputs, Tensor]


class Run(RunFolder):
    """One run, in a folder: it is trained there with checkpoints, and continues to the very same bits after any kill.

    `Run.at` begins a run or finds it again; `create` and `open` do one of the two.

    Example:
        >>> import torch, tribayes as tb
        >>> x = torch.linspace(-1, 1, 64).unsqueeze(1)
        >>> model = tb.to_bayesian(torch.nn.Linear(1, 1))
        >>> elbo = tb.ELBO(tb.Gaussian(noise=0.1), data_size=64)
        >>> optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.01, correlation_lr_multiplier=1.0))
        >>> run = tb.runs.Run.at(folder / "mine", seed=0, config={"lr": 0.01})
        >>> records = run.train(model, elbo, optimizer, train=(x, 2 * x), iterations=20, batch_size=8, progress=False)
        >>> run.finished, records[-1].iteration
        (True, 20)
    """

    @classmethod
    def at(
        cls,
        folder: Path | str,
        *,
        seed: int = 0,
        config: Mapping[str, Any] | None = None,
        device: torch.device | str = "cpu",
    ) -> Self:
        """The run in a folder, begun now where there is none yet. What is there must be of this seed and config.

        Args:
            folder: of this run alone.
            seed: determines batches and draws.
            config: plain values of your own to be kept with the run, such as what your program was told.
            device: where the training examples will lie.
        """
        seed = check_whole("seed", seed, "pass e.g. 0")
        group, begun = processes(), Path(folder) / "config.json"
        group.after_first(lambda: begun.is_file() or cls.create(folder, config or {}, seed, device))
        run = cls.open(folder)
        now = {**plain_values("config", config or {}), "seed": seed, "device": torch.device(device).type}
        check_same({**run.config, "seed": run.seed, "device": run.device}, now, run.folder)
        return run

    def train(
        self,
        model: nn.Module,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        *,
        train: Pair,
        test: Pair | None = None,
        iterations: int,
        batch_size: int = 64,
        schedule: Schedule | None = None,
        rule: str = "closed_form",
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        progress: bool = True,
    ) -> list[Record]:
        """Train to the last iteration, from wherever the run stands, and return what was written down on the way.

        Ctrl-C and SIGTERM write a checkpoint and end the program; run it again, and it continues to the very same
        bits, as it does after any kill. A run that is finished puts its trained weights into the model and returns.
        What was given at first must be given again: a difference is refused by its name.

        Where torch has a process group (`torchrun`, `torch.distributed.init_process_group`), call it in every process:
        each takes its share of every batch, and the first writes. That is the training of one process but for rounding.

        Args:
            model: the network, on the device of the run.
            objective: what is minimised: `tribayes.ELBO(...)`, or `MaximumLikelihood(...)` for a plain network.
            optimizer: any of torch's. Its learning rates follow `schedule`.
            train: (inputs, targets), tensors or arrays (NumPy, pandas) of as many examples, in memory. Inputs may be a
                tuple of them for a network of several arguments.
            test: the same, to be looked at now and then: error and NLL under a single draw.
            iterations: steps of the whole training.
            batch_size: examples per step. Every epoch has an order of its own; the last batch runs on into the next.
            schedule: factor of all learning rates at each iteration, counted from 0, such as
                `lambda i: (1 + 0.001 * i) ** -0.75`.
            rule: the guards before each step, as of `tribayes.stabilise_`.
            checkpoint_seconds: between two checkpoints.
            progress: show how far it is.
        """
        check_module("model", model)
        check_unsharded(model)
        examples = _examples("train", train, model)
        tested = None if test is None else _examples("test", test, model)
        places = {tensor.device.type for tensor in (*model.parameters(), examples.targets)}
        if places != {self.device}:
            remedy = "move both there, or begin the run with Run.at(..., device=...)"
            raise refusal("model, train", sorted(places), f"lie on the run's device, {self.device!r}", remedy)
        if schedule is not None and not callable(schedule):
            remedy = "pass a function such as lambda i: 0.5 ** (i // 1000)"
            raise wrong_type("schedule", type(schedule).__name__, "be a function of the iteration", remedy)
        with repeatable(self.threads), only_one(self.folder) if processes().first else nullcontext():
            trainer = Trainer(
                model,
                objective,
                optimizer,
                examples,
                batch_size=batch_size,
                iterations=iterations,
                seed=self.seed,
                schedule=schedule,
                rule=rule,
            )
            if self.finished:
                weights, learned, facts = self.trained()
                check_same(facts.get("training", {}), trainer.description(), self.folder)
                model.load_state_dict(weights)
                objective.load_state_dict(learned)
            else:
                self._train(Session(self, trainer, tested, checkpoint_seconds), progress)
        return self.records()

    def evaluate(self, model: nn.Module, test: Pair, *, samples: int = 200, progress: bool = True) -> dict[str, Any]:
        """Judge a trained classifier by test examples, and keep the figures in evaluation.json.

        `tribayes.runs.evaluate` says what they are; `tribayes.runs.comparison` sets several runs beside each other.
        """
        check_module("model", model)
        examples = _examples("test", test, model)
        result = evaluate(model, examples, self.seed, samples, progress)
        self.save_evaluation(result, examples.targets.device)
        return result

    def _train(self, session: Session, progress: bool) -> None:
        resumed = self.checkpoint.exists() and processes().first
        for change in self.note_resumption(session.trainer.iteration) if resumed else []:
            warnings.warn(f"{change}; the result may differ from an uninterrupted run's", stacklevel=3)
        session.checkpoint()  # at iteration 0 too: the initial weights may be another program run's only
        try:
            train_sessions([session], progress=progress)
        except Stopped as stopped:
            if stopped.number == signal.SIGINT:
                raise KeyboardInterrupt(f"{stopped}; the same program continues") from stopped
            sys.exit(stopped.exit_code)
        finally:
            session.trainer.scale_rates(1.0)


def _examples(name: str, pair: Pair, model: nn.Module) -> Examples:
    """The pair that was given; its arrays as tensors where the model is."""
    if isinstance(pair, Examples):
        return pair
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise wrong_type(name, pair, "be a pair (inputs, targets)", "pass two tensors")
    home = Home.of(model)
    return Examples(*tree_map(lambda leaf: home.place(name, leaf) if is_array(leaf) else leaf, tuple(pair)))
