"""The study behind kl_weight="auto", min(1, c N / K), and behind the default prior.

    python -m benchmarks.defaults --data-dir DIR          # train what is not stored, and judge it on held-out rows
    python -m benchmarks.defaults --data-dir DIR --test   # once, with c fixed: ask the same networks about test rows
    python -m benchmarks.defaults --page                  # docs/defaults.md, its picture, README's part
    python -m benchmarks.defaults --check                 # are they up to date?
    python -m benchmarks.defaults --data-dir DIR --quick  # does it run? nothing is written

DIR is laid out as $TRIBAYES_DATA, which is the default: uci/ and fashion-mnist/. Results are stored after each job, and
what is stored is not run again; `--seconds` begins no job later than that. About an hour and a half on two cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import tribayes as tb
from benchmarks.defaults.classification import data_folder
from benchmarks.defaults.document import document, readme_block
from benchmarks.defaults.keeping import Keep
from benchmarks.defaults.picture import picture
from benchmarks.defaults.plan import DIAGONAL, PLAIN, PRIORS, TASKS, USUAL, Arm, Job, Task, queue
from benchmarks.defaults.results import RESULTS, Results
from benchmarks.defaults.running import run
from benchmarks.defaults.verdict import excess, mean_nll, verdict
from benchmarks.store import ROOT
from pages.files import out_of_date, with_block, write_texts

COMMAND = "python -m benchmarks.defaults"
KEPT = ROOT / "runs" / "defaults"  # which git ignores
DOCS, README = ROOT / "docs", ROOT / "README.md"


def main(words: Sequence[str] | None = None) -> None:
    arguments = _arguments(words)
    results = Results(arguments.results)
    if arguments.page:
        write_texts(texts(results, arguments.docs))
    elif arguments.check:
        if stale := out_of_date(texts(results, arguments.docs)):
            raise SystemExit(f"{stale[0].name} is not what the results say; run {COMMAND} --page")
    else:
        _run(arguments, results)


def texts(results: Results, docs: Path = DOCS) -> dict[Path, str]:
    """The page and its picture, and README's part where the page is the manual's own."""
    excesses = {prior: excess(mean_nll(results.held_out, prior)) for prior in PRIORS}
    made = {docs / "defaults.md": document(results), docs / "images" / "defaults.svg": picture(excesses)}
    if docs == DOCS:
        made[README] = with_block(README.read_text("utf-8"), "defaults", readme_block(results))
    return made


def _run(arguments: argparse.Namespace, results: Results) -> None:
    tasks = [TASKS[name] for name in arguments.task or TASKS]
    keep = Keep(KEPT)
    jobs: Iterator[Job] = queue(tasks, arguments.seeds)
    if arguments.quick:
        results, keep = Results(None), Keep(None)
        jobs = (job for job in queue([_short(task) for task in tasks], seeds=1) if job.arm in (Arm("relative"), PLAIN))
    elif arguments.test:
        arms = tested(results)
        jobs = (job for job in jobs if job.arm in arms and results.has(job, test=False))
    left = run(jobs, results, keep, data_folder(arguments.data_dir), arguments.test, arguments.seconds)
    if left:
        print(f"{left} jobs are left; the same command goes on")


def _short(task: Task) -> Task:
    return replace(task, length=20 if task.regression else 1, seeds=min(task.seeds, 2), networks=10)


def tested(results: Results) -> tuple[Arm, ...]:
    """Who answers about test rows: both priors at the rule's c and at those found, the diagonal, the plain network."""
    found = [verdict(excess(mean_nll(results.held_out, prior))) for prior in PRIORS]
    if None in found:
        raise SystemExit(f"c is not chosen yet: no task has every c; run {COMMAND} first")
    shares = {USUAL, *(one.share for one in found if one is not None)}
    return (*(Arm(prior, share=share) for share in sorted(shares) for prior in PRIORS), DIAGONAL, PLAIN)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=None, help="default: $TRIBAYES_DATA")
    parser.add_argument("--task", action="append", choices=TASKS, help="only this one; may be repeated")
    parser.add_argument("--seeds", type=int, default=None, help="only the first seeds of classifications")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no job later than this")
    parser.add_argument("--test", action="store_true", help="ask about test rows: once, when c is fixed")
    parser.add_argument("--quick", action="store_true", help="a few steps of each task; nothing is written")
    parser.add_argument("--page", action="store_true", help="write docs/defaults.md and its picture")
    parser.add_argument("--check", action="store_true", help="compare them with the results instead")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the results file")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder for the page")
    return parser.parse_args(words)


if __name__ == "__main__":
    tb.keep_freed_memory()
    main()
