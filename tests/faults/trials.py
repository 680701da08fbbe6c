"""Every trial: what it promises, how often it is tried at scale 1, and what tries it."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import torch

from tests.faults import calls, files, greed, models, processes, products
from tests.faults.tally import Tally, Trial

TRIALS = {
    "kills": Trial("a run killed at random times ends with the same bits", 500, processes.kill_at_random),
    "operations": Trial("a run killed before any file operation does, too", 500, processes.kill_at_operations),
    "full disk": Trial("a full disk is said, and the run goes on later", 200, processes.fill_the_disk),
    "read-only": Trial("a folder that may not be written to is said, and the run goes on later", 60, processes.forbid),
    "copies": Trial("a run goes on where it was copied or moved to", 200, processes.move_and_copy),
    "clocks": Trial("clocks that jump change no bit", 100, processes.turn_the_clock),
    "tensors": Trial("a damaged checkpoint or network is refused", 20_000, files.damage_tensors),
    "models": Trial("a damaged file of tb.save is refused", 10_000, products.damage_models),
    "json": Trial("a changed setting or record is noticed, other JSON gives no traceback", 20_000, files.damage_json),
    "own runs": Trial("so are the other files of a run of one's own data", 5000, products.damage_own_runs),
    "tables": Trial("a damaged table is read or refused, without traceback", 10_000, products.damage_tables),
    "images": Trial("a damaged image is read or refused, without traceback or warning", 20_000, files.damage_images),
    "pictures": Trial("so is one of a folder, or sent to the server", 10_000, products.damage_pictures),
    "data": Trial("a damaged data file or archive is refused", 5000, files.damage_data),
    "junk": Trial(
        "no file takes over 4 times its size or 512 MB of memory, or 10 seconds to refuse", 300, greed.read_junk
    ),
    "calls": Trial("odd arguments give an answer without NaN, or our own error", 100_000, calls.call_at_random),
    "streams": Trial("no two of (seed, sample, module) share random numbers", 1_000_000, models.name_streams),
    "threads": Trial("threads that share a model get the answers they get alone", 2000, models.ask_in_threads),
    "forks": Trial("a forked process gives its parent's answers", 500, models.ask_after_a_fork),
    "questions": Trial(  # at every bytecode, of which there are fewer
        "an interrupt anywhere in predict leaves the model as it was", 100_000, models.interrupt_questions
    ),
    "steps": Trial("an interrupt anywhere in a step leaves a model that trains on", 100_000, models.interrupt_steps),
    "memory": Trial("memory stays flat over predictions and steps, a thousand of each a try", 100, models.ask_for_ever),
}  # fmt: skip


def attempt(name: str, scale: float, seed: int = 0) -> Tally:
    """One trial in a folder of its own."""
    torch.set_num_threads(1)  # trials fork, and threads do not survive that; as in the tests
    trial = TRIALS[name]
    with tempfile.TemporaryDirectory() as folder:
        return trial.run(max(3, round(scale * trial.count)), random.Random(f"{seed} {name}"), Path(folder))


def timed(name: str, scale: float, seed: int) -> tuple[Tally, float]:
    """The same, and the seconds that it took."""
    started = time.monotonic()
    return attempt(name, scale, seed), time.monotonic() - started
