"""Trainings that survive: a folder per run, with checkpoints, lock, log and evaluation, for any model and data.

    import tribayes as tb

    run = tb.runs.Run.at("runs/mine", seed=0, config={"lr": 0.01})
    run.train(model, elbo, optimizer, train=(x, y), test=(xt, yt), iterations=5000, batch_size=64)
    run.evaluate(model, (xt, yt))

Kill it at any moment and run the same program again: it ends with the same bits.

Inside: `trainer` takes steps, `folder` knows the files, `session` writes what is due, `run` puts them together.
"""

from tribayes.runs.batches import Examples
from tribayes.runs.evaluation import comparison, evaluate
from tribayes.runs.records import Record
from tribayes.runs.run import Run
from tribayes.runs.session import Session, Stopped, train_sessions
from tribayes.runs.trainer import Trainer

__all__ = ["Examples", "Record", "Run", "Session", "Stopped", "Trainer", "comparison", "evaluate", "train_sessions"]
