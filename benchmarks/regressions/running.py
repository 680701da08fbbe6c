"""Train what is missing, choose by held-out rows, and then ask, once, about test rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import torch

from benchmarks.defaults.regression import Table, table
from benchmarks.regressions import alone, together
from benchmarks.regressions.answers import Answers, best_factor, nll, scores
from benchmarks.regressions.plan import (
    ARMS,
    ENSEMBLES,
    LAPLACE,
    MEMBERS,
    PLAIN,
    SETS,
    SPLITS,
    STEPS,
    TOGETHER,
    Arm,
    Job,
    jobs,
)
from benchmarks.store import RESULTS as FOLDER
from benchmarks.store import made_with, rounded
from tribayes._files import make_folder, read_json, store_json
from tribayes._progress import progress_bar

RESULTS = FOLDER / "regressions.json"

Asked = list[tuple[Answers, Answers]]  # of each split: of its held-out rows, and of its test rows


class Study:
    """The file of figures, and beside it what the networks said, so that test rows are scored for the chosen alone.

    Args:
        path: the file; None keeps nothing.
        said: a folder for answers, which git ignores; missing ones are made again.
        folder: where the data are.
    """

    def __init__(
        self,
        path: Path | None,
        said: Path,
        folder: Path | None,
        sets: Sequence[str] = SETS,
        arms: Sequence[Arm] = ARMS,
        splits: int = SPLITS,
        steps: int = STEPS,
    ) -> None:
        self.path, self.said, self.steps = path, said, steps
        self.sets, self.arms = sets, arms
        self.tables = {name: [table(name, folder, number) for number in range(splits)] for name in sets}
        stored = read_json(path) if path is not None and path.is_file() else {}
        self.held_out: dict[str, list[float]] = stored.get("held_out", {})
        self.test: dict[str, dict[str, list[dict[str, float]]]] = stored.get("test", {})

    def choose(self) -> None:
        """The held-out NLL of every arm with every value."""
        planned = [job for job in jobs(self.sets, self.arms) if job.name not in self.held_out]
        with progress_bar("held-out rows", len(planned)) as advance:
            for job in planned:
                own = zip(self.asked(job), self.tables[job.data_set], strict=True)
                self.held_out[job.name] = [nll(held, one.held_out.targets) for (held, _), one in own]
                self._store()
                advance(1, job.name)

    def chosen(self, data_set: str, arm: Arm) -> Job:
        """The value with the smallest mean NLL of held-out rows."""
        return min((Job(data_set, arm, value) for value in arm.values), key=lambda job: fmean(self.held_out[job.name]))

    def look(self) -> None:
        """The test rows, by the chosen of each arm and by ensembles of them."""
        for data_set in self.sets:
            rows = {arm.name: self._scores(data_set, self.asked(self.chosen(data_set, arm))) for arm in self.arms}
            for arm in ENSEMBLES:
                rows[f"{arm.name} x {MEMBERS}"] = self._scores(data_set, self._together(data_set, arm))
            self.test[data_set] = rows
            self._store()

    def _together(self, data_set: str, arm: Arm) -> Asked:
        value = self.chosen(data_set, arm).value
        members = [self.asked(Job(data_set, arm, value, member)) for member in range(MEMBERS)]
        pairs = [list(zip(*of_split, strict=True)) for of_split in zip(*members, strict=True)]
        return [(Answers.together(list(held)), Answers.together(list(test))) for held, test in pairs]

    def _scores(self, data_set: str, asked: Asked) -> list[dict[str, float]]:
        found = []
        for (held, test), one in zip(asked, self.tables[data_set], strict=True):
            factor = best_factor(held, one.held_out.targets)
            found.append(scores(test, one.test.targets, one.unit, factor))
        return found

    def asked(self, job: Job) -> Asked:
        """What the networks of a job say, trained now if they were not before."""
        from safetensors.torch import load_file, save_file

        path = self.said / f"{job.name}.safetensors"
        splits = range(len(self.tables[job.data_set]))
        if path.is_file():
            kept = load_file(path)
            return [(_read(kept, split, "held"), _read(kept, split, "test")) for split in splits]
        answers = answered(job, self.tables[job.data_set], self.steps)
        kept = {
            f"{split}.{rows}.{what}": value.contiguous()
            for split, pair in enumerate(answers)
            for rows, one in zip(("held", "test"), pair, strict=True)
            for what, value in (("means", one.means), ("noise", one.noise))
        }
        make_folder(self.said)
        save_file(kept, path)
        return answers

    def _store(self) -> None:
        if self.path is None:
            return
        make_folder(self.path.parent)
        store_json(self.path, rounded({"made_with": made_with(), "held_out": self.held_out, "test": self.test}))


def answered(job: Job, tables: Sequence[Table], steps: int) -> Asked:
    """Train the networks of a job, and ask them."""
    seeds = [job.seed(split) for split in range(len(tables))]
    if job.arm in TOGETHER:
        trained = together.trained(job, tables, steps)
        ask = [
            lambda rows, own=own, seed=seed: together.ask(own, rows, seed)
            for own, seed in zip(trained, seeds, strict=True)
        ]
    elif job.arm == LAPLACE:
        plain = together.trained(Job(job.data_set, PLAIN, job.value, job.member), tables, steps)
        ask = [alone.laplace(*one) for one in zip(plain, tables, seeds, strict=True)]
    else:
        ask = [alone.trained(job, split, one, steps) for split, one in enumerate(tables)]
    return [(say(one.held_out.inputs), say(one.test.inputs)) for say, one in zip(ask, tables, strict=True)]


def _read(kept: dict[str, torch.Tensor], split: int, rows: str) -> Answers:
    return Answers(kept[f"{split}.{rows}.means"], kept[f"{split}.{rows}.noise"])
