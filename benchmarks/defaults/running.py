"""From jobs to records."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from time import perf_counter

import torch

from benchmarks.defaults import classification, regression
from benchmarks.defaults.judging import Figures, judged_on_held_out, judged_on_test
from benchmarks.defaults.keeping import Keep
from benchmarks.defaults.plan import Job
from benchmarks.defaults.results import Record, Results
from tribayes._progress import Advance, progress_bar


def run(jobs: Iterable[Job], results: Results, keep: Keep, folder: Path | None, test: bool, seconds: float) -> int:
    """Run what is not stored, storing after each job; none is begun after so many seconds. Returns what is left."""
    missing = [job for job in jobs if not results.has(job, test)]
    begin = perf_counter()
    with progress_bar("defaults", len(missing)) as advance:
        for place, job in enumerate(missing):
            if perf_counter() - begin > seconds:
                return len(missing) - place
            results.add(done(job, keep, folder, test, advance), test)
            print(_line(results, job, test), flush=True)
    return 0


def done(job: Job, keep: Keep, folder: Path | None, test: bool, advance: Advance) -> list[Record]:
    """Train, or find, the networks of a job, and judge each."""
    begin = perf_counter()
    torch.set_num_threads(job.task.threads)

    def remarked(amount: float = 1, remark: str = "") -> None:
        advance(amount, remark or f"{job.task.title}: {job.arm.title}, seed {job.seeds[0]}")

    judge = _regression if job.task.regression else _classification
    figures = judge(job, keep, folder, test, remarked)
    each = round((perf_counter() - begin) / len(job.seeds), 1)
    return [Record(job.task.name, job.arm, seed, one, each) for seed, one in zip(job.seeds, figures, strict=True)]


def _classification(job: Job, keep: Keep, folder: Path | None, test: bool, advance: Advance) -> list[Figures]:
    data = classification.images(job.task.name, folder)
    found = classification.trained(job, data, keep, advance)
    networks, seed = job.task.networks, job.seeds[0]
    if test:
        return [judged_on_test(found, data.test, data.held_out, networks, seed)]
    return [judged_on_held_out(found, data.held_out, networks, seed)]


def _regression(job: Job, keep: Keep, folder: Path | None, test: bool, advance: Advance) -> list[Figures]:
    tables = [regression.table(job.task.name, folder, number) for number in job.seeds]
    networks = regression.trained(job, tables, keep, advance)
    figures = []
    for seed, one, found in zip(job.seeds, tables, networks, strict=True):
        if test:
            figures.append(judged_on_test(found, one.test, one.held_out, job.task.networks, seed))
        else:
            figures.append(judged_on_held_out(found, one.held_out, job.task.networks, seed))
    return figures


def _line(results: Results, job: Job, test: bool) -> str:
    new = (results.test if test else results.held_out)[-len(job.seeds) :]
    means = {
        name: sum(one.figures[name] for one in new) / len(new)
        for name in ("nll", job.task.miss, job.task.trust, "rest_nll", "calibrated_nll")
        if name in new[0].figures
    }
    words = ", ".join(f"{name} {value:.4f}" for name, value in means.items())
    return f"{job.task.name}, {job.arm.title}, seed {job.seeds[0]}: {words} ({sum(one.seconds for one in new):.0f} s)"
