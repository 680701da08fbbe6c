"""Equal tuning for all arms: three trials of each arm's own number, then the best of each with all seeds.

Trials are of one seed and judged on held-out images; only the runs that follow look at test images. Every job is a
process of its own, so that several can share a GPU: small networks overlap there under NVIDIA's MPS.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.modern import archive
from benchmarks.modern.every_arm import OWN, best_trials, tried
from benchmarks.modern.task import Value

Words = list[str]
Job = Callable[[Words], int]  # what `python -m benchmarks.modern` is told → its exit status

TRIALS: dict[str, tuple[Value, ...]] = {
    "plain": (1e-4, 5e-4, 2.5e-3),
    "dropout": (0.05, 0.1, 0.2),
    "mean_field": (0.003, 0.01, 0.03),
    "ivon": (0.1, 0.3, 0.9),
    "laplace": ("evidence", 1.0, 10.0),
    "swag": ("held", 0.5, 0.25),
}
KL_WEIGHTS: dict[str, tuple[Value, ...]] = {  # about a third of what "auto" comes to, and three times it
    "lenet100": (0.0155, "auto", 0.155),
    "resnet18": (0.00012, "auto", 0.0012),
}


def values_of(arm: str, network: str) -> tuple[Value, ...]:
    """What is tried of an arm's own number.

    >>> values_of("ours", "lenet100"), values_of("dropout", "lenet100")
    ((0.0155, 'auto', 0.155), (0.05, 0.1, 0.2))
    """
    return TRIALS.get(arm) or KL_WEIGHTS.get(network, ("auto",))


def tune_and_run(
    usual: Sequence[str],
    network: str,
    arms: Sequence[str],
    seeds: Sequence[int],
    folder: Path,
    together: int,
    job: Job | None = None,
) -> list[Words]:
    """Trials into FOLDER/trials, runs into FOLDER/runs; returns the jobs that failed. What is there is not run again.

    Args:
        usual: words for every job: data, network, epochs and so on.
        job: runs one; for tests.
    """
    trials, runs = folder / "trials", folder / "runs"
    failed = _all(
        [_words(usual, arm, value, 0, trials) for arm in arms for value in values_of(arm, network)], together, job
    )
    best = {arm: tried(trial) for arm, trial in best_trials(archive.records(trials)).items() if arm in arms}
    chosen = [_words(usual, arm, value, seed, runs) for arm, value in best.items() for seed in seeds]
    return failed + _all([[*words, "--test"] for words in chosen], together, job)


def _words(usual: Sequence[str], arm: str, value: Value, seed: int, folder: Path) -> Words:
    option = OWN[arm][0].replace("_", "-")
    return ["run", *usual, "--arm", arm, f"--{option}", str(value), "--seed", str(seed), "--to", str(folder)]


def _all(jobs: Sequence[Words], together: int, job: Job | None) -> list[Words]:
    with ThreadPoolExecutor(together) as pool:
        ended = list(pool.map(job or _process, jobs))
    return [words for words, status in zip(jobs, ended, strict=True) if status]


def _process(words: Words) -> int:
    done = subprocess.run([sys.executable, "-m", "benchmarks.modern", *words], capture_output=True, text=True)
    told = [line.strip() for line in done.stdout.splitlines() if "held out" in line or "failed" in line]
    print(" ".join(words), *told, done.stderr[-500:] if done.returncode else "", sep="\n  ", flush=True)
    return done.returncode
