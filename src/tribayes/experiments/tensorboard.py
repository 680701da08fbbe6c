"""Records for TensorBoard, beside metrics.jsonl."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tribayes.experiments.metrics import Record


@contextmanager
def tensorboard_log(folder: Path, first: int) -> Iterator[Callable[[Record], None]]:
    """What a session tells of every record; events after iteration `first`, of a run cut short, are hidden."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError(
            "--tensorboard writes with TensorBoard, which is not installed; "
            "install it with: pip install 'tribayes[tensorboard]'"
        ) from error
    with SummaryWriter(str(folder), purge_step=first + 1) as writer:

        def listen(record: Record) -> None:
            for name in ("loss", "nll", "one_sample_error", "learning_rate"):
                writer.add_scalar(name, getattr(record, name), record.iteration)
            for kind, values in (("tau", record.tau), ("rho", record.rho)):
                for tensor, value in values.items():
                    writer.add_scalar(f"{kind}/{tensor}", value, record.iteration)
            writer.flush()

        yield listen
