"""Curves of a training for TensorBoard and Weights & Biases: callbacks of `fit`, and what run folders write with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tribayes._errors import check_whole
from tribayes.inference.callbacks import Callback, FitState

_VALIDATION = "validation/"  # new once per epoch


class Curves(Callback):
    """Writes `state.scalars()` every so many steps and after each epoch; a subclass says where to.

    Loss, NLL and divergence, the learning rates, τ and ρ of every tensor, and after an epoch the held-out NLL. Reading
    them waits for a GPU, so `every` should not be small there. As a context manager it is closed in the end.
    """

    def __init__(self, every: int = 100) -> None:
        self.every = check_whole("every", every, "pass the number of steps between two points of a curve", least=1)
        self._last = 0  # the step that was written last

    @abstractmethod
    def write(self, scalars: Mapping[str, float], step: int) -> None:
        """One point of every curve."""

    def close(self) -> None:
        """Nothing more will be written."""

    def on_step(self, state: FitState) -> None:
        if state.step % self.every == 0:
            scalars = state.scalars().items()
            self.write({name: value for name, value in scalars if not name.startswith(_VALIDATION)}, state.step)
            self._last = state.step

    def on_epoch(self, state: FitState) -> None:
        new, scalars = self._last != state.step, state.scalars().items()
        self.write({name: value for name, value in scalars if new or name.startswith(_VALIDATION)}, state.step)
        self._last = state.step

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TensorBoard(Curves):
    """Event files for TensorBoard, `tensorboard --logdir FOLDER`. Needs `pip install 'tribayes[tensorboard]'`.

    Args:
        folder: where the events go; a folder for each training.
        every: steps between two points.
        first: hide events after this step, which a training that was cut short has left in the folder.

    Example:
        >>> model = tb.to_bayesian(nn.Linear(4, 3))
        >>> elbo = tb.ELBO(tb.Categorical(), data_size=8)
        >>> optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.01))
        >>> batches = [(torch.randn(8, 4), torch.randint(3, (8,)))]
        >>> with TensorBoard(folder / "events", every=10) as board:
        ...     history = tb.fit(model, elbo, batches, optimizer, epochs=3, callbacks=board, progress=False)
    """

    def __init__(self, folder: str | Path, every: int = 100, first: int | None = None) -> None:
        super().__init__(every)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "curves are written for TensorBoard, which is not installed; "
                "install it with: pip install 'tribayes[tensorboard]'"
            ) from error
        self._writer = SummaryWriter(str(folder), purge_step=None if first is None else first + 1)

    def write(self, scalars: Mapping[str, float], step: int) -> None:
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()  # whoever looks meanwhile sees it, and a kill loses nothing

    def close(self) -> None:
        self._writer.close()


class WandB(Curves):
    """A run of Weights & Biases. Needs `pip install 'tribayes[wandb]'`.

    Args:
        project: under which the run is filed.
        every: steps between two points.
        options: of `wandb.init`, such as name=…, config=…, dir=…; with mode="offline" the run stays on disk until
            `wandb sync`, but wandb reports its own use all the same, unless the environment has WANDB_MODE=offline.

    Attributes:
        run: the run, for whatever else shall be logged to it.
    """

    def __init__(self, project: str, every: int = 100, **options: Any) -> None:
        super().__init__(every)
        try:
            import wandb
        except ImportError as error:
            raise ImportError(
                "curves go to Weights & Biases by wandb, which is not installed; "
                "install it with: pip install 'tribayes[wandb]'"
            ) from error
        self.run = wandb.init(project=project, **options)

    def write(self, scalars: Mapping[str, float], step: int) -> None:
        self.run.log(dict(scalars), step=step)

    def close(self) -> None:
        self.run.finish()
