"""The one way to look into a training that runs, or to end it: for logs, plots, schedules of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tribayes._errors import wrong_type
from tribayes.inference.history import ValidationRecord
from tribayes.inference.objective import Objective
from tribayes.nn.stage import posterior_rows


@dataclass
class FitState:
    """Where a training stands. Its numbers are read when they are asked for, which waits for a GPU: not too often.

    Example:
        >>> model, x = tb.to_bayesian(nn.Linear(1, 1)), torch.randn(8, 1)
        >>> elbo = tb.ELBO(tb.Gaussian(noise=0.1), data_size=8)
        >>> seen: list[float] = []
        >>> optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.01))
        >>> def log(state: FitState) -> None:
        ...     seen.append(state.nll)
        >>> history = tb.fit(model, elbo, [(x, 2 * x)], optimizer, epochs=3, callbacks=log, progress=False)
        >>> seen == history.nll
        True
    """

    model: nn.Module
    elbo: Objective
    optimizer: torch.optim.Optimizer
    epochs: int
    epoch: int = 0  # the one under way, counted from 1
    step: int = 0  # updates so far
    validation: list[ValidationRecord] = field(default_factory=list)
    latest: Tensor | None = None  # loss, NLL and divergence of the last step, on the device

    @property
    def loss(self) -> float:
        """nll + ν kl of the last step."""
        return self._number(0)

    @property
    def nll(self) -> float:
        """The likelihood term of the last step, nats per example."""
        return self._number(1)

    @property
    def kl(self) -> float:
        """KL(q ‖ p) at the last step, nats."""
        return self._number(2)

    def _number(self, place: int) -> float:
        return float("nan") if self.latest is None else float(self.latest[place])

    def scalars(self) -> dict[str, float]:
        """Everything worth a curve, by a name as TensorBoard and Weights & Biases group them.

        "loss", "nll", "kl", "validation/nll", "lr/means", and for every random tensor "tau/…" and "rho/…".
        """
        groups = self.optimizer.param_groups
        rates = {f"lr/{group.get('name', number)}": float(group["lr"]) for number, group in enumerate(groups)}
        rows = posterior_rows(self.model)
        numbers = {"loss": self.loss, "nll": self.nll, "kl": self.kl, **rates}
        numbers |= {f"tau/{name}": row.tau for name, row in rows.items()}
        numbers |= {f"rho/{name}": row.rho for name, row in rows.items()}
        return numbers | ({"validation/nll": self.validation[-1].nll} if self.validation else {})


class Callback:
    """What `fit` tells of its steps and epochs. Subclass it, or pass a function, which is told of every epoch.

    Each may return True to end the training.

    Example:
        >>> class Curves(Callback):
        ...     def on_step(self, state):
        ...         if state.step % 100 == 0:
        ...             print(state.step, state.scalars())
    """

    def on_step(self, state: FitState) -> bool | None:
        """After every update."""

    def on_epoch(self, state: FitState) -> bool | None:
        """After every epoch and its validation."""


Told = Callback | Callable[[FitState], bool | None]


class Audience:
    """All callbacks of a training."""

    def __init__(self, callbacks: Told | Iterable[Told]) -> None:
        if not isinstance(callbacks, Callback | Iterable) and not callable(callbacks):
            raise wrong_type("callbacks", callbacks, "be Callbacks or functions", "pass one of them, or a list")
        members = [callbacks] if isinstance(callbacks, Callback) or callable(callbacks) else list(callbacks)
        for one in members:
            if not isinstance(one, Callback) and not callable(one):
                remedy = "subclass tb.Callback, or pass a function of the state"
                raise wrong_type("callbacks", one, "be Callbacks or functions", remedy)
        watching = [one for one in members if isinstance(one, Callback)]
        self._step = [one.on_step for one in watching if type(one).on_step is not Callback.on_step]
        self._epoch = [one.on_epoch if isinstance(one, Callback) else one for one in members]

    def after_step(self, state: FitState) -> bool:
        """Tell of a step; whether to stop."""
        return _tell(self._step, state) if self._step else False

    def after_epoch(self, state: FitState) -> bool:
        """Tell of an epoch; whether to stop."""
        return _tell(self._epoch, state)


def _tell(functions: Sequence[Callable[[FitState], bool | None]], state: FitState) -> bool:
    answers = [(function, function(state)) for function in functions]
    for function, answer in answers:
        if answer is not None and not isinstance(answer, bool):
            name = getattr(function, "__qualname__", type(function).__name__)
            requirement = f"be None, or True to stop, where {name} returns"
            remedy = f"mend its return, which is of type {type(answer).__name__}: bool(...) makes True of what is true"
            raise wrong_type("callbacks", answer, requirement, remedy)
    return any(answer for _, answer in answers)
