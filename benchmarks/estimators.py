"""Gradient variance and cost of the estimators: plain, antithetic, local.

    python -m benchmarks.estimators [--run FOLDER ...] [--device cuda] [--no-timings] [--quick]

A network trained briefly, and those of finished runs: noise is small at first and large in the end. One batch of 64
images. The variance of the likelihood's gradient (the divergence's has none) is that of some hundred
estimates, summed over the entries of a group, relative to one plain draw's. Timings are of one forward and backward
pass, the estimators taking turns; run them on a quiet machine. The table is printed and kept in
benchmarks/results/estimators.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

import tribayes as tb
from benchmarks.subject import NETWORK, Subject, subject
from tribayes._progress import progress_bar
from tribayes._text import format_table
from tribayes.runs.environment import device_name

RESULTS = Path(__file__).resolve().parent / "results" / "estimators.json"
CANDIDATES = (("plain", 1), ("plain", 2), ("antithetic", 2), ("local", 1), ("local", 2))
BATCH = 64
BASE = ("plain", 1)


@dataclass(frozen=True)
class Row:
    """What was measured of one estimator with so many samples."""

    estimator: str
    samples: int
    nll: float  # mean over the estimates, nats
    nll_error: float  # its standard error
    variance: dict[str, float]  # of the gradient, summed over the entries of a group
    milliseconds: float | None  # median of a forward and backward pass


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    iterations = 50 if arguments.quick else arguments.iterations
    repeats = 20 if arguments.quick else arguments.repeats
    seconds = 0.0 if arguments.no_timings else 2.0 if arguments.quick else 30.0
    subjects = []
    for run in (None, *arguments.run):
        held = subject(run, iterations, arguments.device, arguments.experiment)
        rows = measure(held, repeats, seconds)
        print(f"{held.words}; batch of {BATCH}, {repeats} estimates each\n\n{table(rows)}\n")
        subjects.append({"subject": held.words, "rows": [asdict(row) for row in rows]})
    if not arguments.quick:
        machine = f"{device_name(arguments.device)}, {arguments.threads} threads, torch {torch.__version__}"
        kept = {"batch": BATCH, "estimates": repeats, "machine": machine, "subjects": subjects}
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def measure(held: Subject, repeats: int, seconds: float) -> list[Row]:
    """A row for each candidate."""
    torch.manual_seed(0)
    times = _timings(held, seconds) if seconds else {}
    rows = []
    with progress_bar("estimating", len(CANDIDATES) * repeats) as advance:
        for estimator, samples in CANDIDATES:
            losses, gradients = [], []
            for _ in range(repeats):
                terms = _terms(held, estimator, samples)
                losses.append(terms.nll.item())
                gradients.append(_gradient(held, terms.nll))
                advance()
            variance = {
                group: float(torch.stack([g[group] for g in gradients]).double().var(0).sum()) for group in gradients[0]
            }
            milliseconds = 1e3 * statistics.median(times[estimator, samples]) if times else None
            error = statistics.stdev(losses) / repeats**0.5
            rows.append(Row(estimator, samples, statistics.fmean(losses), error, variance, milliseconds))
    return rows


def _terms(held: Subject, estimator: str, samples: int) -> tb.ELBOTerms:
    elbo = tb.ELBO(tb.Categorical(), data_size=len(held.train), kl_weight=0.01, samples=samples, estimator=estimator)
    terms: tb.ELBOTerms = elbo(held.model, held.train.inputs[:BATCH], held.train.targets[:BATCH])
    return terms


def _gradient(held: Subject, loss: Tensor) -> dict[str, Tensor]:
    """The gradient by groups: the means of each layer's weight, all τ, all ρ."""
    groups = {name.removesuffix(".weight"): [mean] for name, mean in held.model.means() if name.endswith("weight")}
    groups["scales"] = held.model.family.scale_parameters()
    groups["correlations"] = held.model.family.correlation_parameters()
    leaves = [leaf for members in groups.values() for leaf in members]
    flat = iter(torch.autograd.grad(loss, leaves))
    return {name: torch.cat([next(flat).flatten() for _ in members]) for name, members in groups.items() if members}


def _timings(held: Subject, seconds: float) -> dict[tuple[str, int], list[float]]:
    """Seconds of a forward and backward pass, in turns until the time is up."""
    times: dict[tuple[str, int], list[float]] = {candidate: [] for candidate in CANDIDATES}
    for candidate in CANDIDATES:
        _terms(held, *candidate).loss.backward()
    end = perf_counter() + seconds
    while perf_counter() < end or len(times[BASE]) < 5:
        for candidate in CANDIDATES:
            held.model.zero_grad(set_to_none=True)
            start = perf_counter()
            _terms(held, *candidate).loss.backward()
            _wait(held)
            times[candidate].append(perf_counter() - start)
    held.model.zero_grad(set_to_none=True)
    return times


def _wait(held: Subject) -> None:
    """A GPU is still at work when its call returns."""
    if held.train.inputs.is_cuda:
        torch.cuda.synchronize()


def table(rows: list[Row]) -> str:
    """Variances and times relative to one plain draw, and their product: the cost of the same precision."""
    base = next(row for row in rows if (row.estimator, row.samples) == BASE)
    groups = list(base.variance)
    body: list[list[Any]] = []
    for row in rows:
        ratios = [f"{row.variance[group] / base.variance[group]:.3f}" for group in groups]
        cost = None if row.milliseconds is None or not base.milliseconds else row.milliseconds / base.milliseconds
        whole = sum(row.variance[group] for group in groups) / sum(base.variance[group] for group in groups)
        timing = ["-", "-"] if cost is None else [f"{cost:.2f}", f"{cost * whole:.3f}"]
        nll = f"{row.nll:.4f} ± {row.nll_error:.4f}"
        body.append([row.estimator, row.samples, nll, *ratios, *timing])
    return format_table(["estimator", "samples", "NLL", *groups, "time", "time × variance"], body)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, nargs="*", default=[], help="folders of finished runs, besides")
    parser.add_argument("--experiment", default=NETWORK, help="of the catalogue, to be trained briefly")
    parser.add_argument("--iterations", type=int, default=500, help="of the brief training")
    parser.add_argument("--repeats", type=int, default=200, help="gradient estimates of each kind")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-timings", action="store_true", help="only the variances: right on a busy machine")
    parser.add_argument("--quick", action="store_true", help="a few of each, nothing kept: does it run?")
    return parser.parse_args()


if __name__ == "__main__":
    main()
