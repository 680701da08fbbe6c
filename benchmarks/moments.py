"""How far prediction by moments is from many samples, and what both cost.

    python -m benchmarks.moments [--run FOLDER ...] [--device cuda] [--examples N] [--no-timings] [--quick]

The reference is 10,000 sampled networks. Beside it stand 200 others, the default of `tribayes.predict`: what sampling
itself misses; and these same 200 in bf16 against them in float32: what half precision misses. The table is printed and
kept in benchmarks/results/moments.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

import tribayes as tb
from benchmarks.subject import NETWORK, Subject, subject
from tribayes._text import format_table
from tribayes.runs.environment import device_name

RESULTS = Path(__file__).resolve().parent / "results" / "moments.json"
USUAL = 200


@dataclass(frozen=True)
class Errors:
    """How one prediction differs from the reference."""

    mean: float  # mean |difference| of class probabilities
    largest_mean: float
    std: float  # Σ |difference| of their standard deviations, relative to Σ of the reference's
    std_ratio: float  # Σ of standard deviations over the reference's: below 1 is too sure
    bounds: float  # mean |difference| of the 95 % intervals' bounds
    label: float  # share of examples with the same label
    certain: float  # share with the same answer to "quite certain?" at 95 %
    too_sure: float  # share that it calls certain and the reference does not

    @classmethod
    def of(cls, pred: tb.ClassPredictive, reference: tb.ClassPredictive) -> Errors:
        mean, std = (pred.mean - reference.mean).abs(), (pred.std - reference.std).abs()
        bounds = torch.stack(pred.interval()) - torch.stack(reference.interval())
        sure, reference_sure = pred.certain(), reference.certain()
        return cls(
            mean=float(mean.mean()),
            largest_mean=float(mean.max()),
            std=float(std.sum() / reference.std.sum()),
            std_ratio=float(pred.std.sum() / reference.std.sum()),
            bounds=float(bounds.abs().mean()),
            label=_share(pred.label == reference.label),
            certain=_share(sure == reference_sure),
            too_sure=_share(sure & ~reference_sure),
        )


@dataclass(frozen=True)
class Result:
    """Moments and the usual number of samples against the reference, for one network."""

    subject: str
    examples: int
    samples: int  # of the reference
    reference_certain: float
    errors: dict[str, Errors]
    half: Errors  # the usual number of samples in bf16, against the same ones in float32
    seconds: dict[str, float] | None  # for all examples, median


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    examples, samples = (100, 300) if arguments.quick else (arguments.examples, arguments.samples)
    results = []
    for run in arguments.run or [None]:
        held = subject(run, 50 if arguments.quick else arguments.iterations, arguments.device, arguments.experiment)
        results.append(measure(held, examples, samples, repeats=0 if arguments.no_timings else 3))
        print(table(results[-1]), "\n")
    if not arguments.quick:
        machine = f"{device_name(arguments.device)}, {arguments.threads} threads, torch {torch.__version__}"
        RESULTS.write_text(json.dumps({"machine": machine, "results": [asdict(r) for r in results]}, indent=1) + "\n")


def measure(held: Subject, examples: int, samples: int, repeats: int) -> Result:
    """The first test examples, asked in three ways."""
    images = held.test.inputs[:examples]
    reference = tb.predict(held.model, images, samples, seed=1, keep_samples=False)
    preds = {"moments": _by_moments(held, images), f"{USUAL} samples": _by_samples(held, images)}
    errors = {name: Errors.of(pred, reference) for name, pred in preds.items()}
    half = Errors.of(_by_samples(held, images, torch.bfloat16), preds[f"{USUAL} samples"])
    seconds = _timings(held, images, repeats) if repeats else None
    return Result(held.words, len(images), samples, _share(reference.certain()), errors, half, seconds)


def _by_moments(held: Subject, images: Tensor) -> tb.ClassPredictive:
    return tb.predict(held.model, images, samples=tb.Moments(), keep_samples=False, progress=False)


def _by_samples(held: Subject, images: Tensor, precision: torch.dtype | None = None) -> tb.ClassPredictive:
    return tb.predict(held.model, images, USUAL, keep_samples=False, progress=False, precision=precision)


def _timings(held: Subject, images: Tensor, repeats: int) -> dict[str, float]:
    """Medians, the two ways taking turns."""
    ways = {"moments": _by_moments, f"{USUAL} samples": _by_samples}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            start = perf_counter()
            way(held, images)
            times[name].append(perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def table(result: Result) -> str:
    rows = [
        [name, *_cells(errors), "-" if result.seconds is None else f"{result.seconds[name]:.2f}"]
        for name, errors in result.errors.items()
    ]
    rows.append([f"{USUAL} in bf16, against themselves in float32", *_cells(result.half), "-"])
    header = ["way", "mean", "largest", "std", "std ratio", "same label", "same certain", "too sure", "seconds"]
    title = (
        f"{result.subject}: {result.examples:,} test images against {result.samples:,} samples, "
        f"which are certain of {100 * result.reference_certain:.1f} %\n\n"
    )
    return title + format_table(header, rows)


def _cells(errors: Errors) -> list[str]:
    shares = [f"{100 * value:.2f} %" for value in (errors.label, errors.certain, errors.too_sure)]
    spread = [f"{100 * errors.std:.1f} %", f"{errors.std_ratio:.3f}"]
    return [f"{errors.mean:.5f}", f"{errors.largest_mean:.3f}", *spread, *shares]


def _share(flags: Tensor) -> float:
    return float(flags.double().mean())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, nargs="*", help="folders of finished runs; default: train one briefly")
    parser.add_argument("--experiment", default=NETWORK, help="of the catalogue, to be trained briefly")
    parser.add_argument("--iterations", type=int, default=3000, help="of the brief training")
    parser.add_argument("--examples", type=int, default=10_000, help="test images")
    parser.add_argument("--samples", type=int, default=10_000, help="of the reference")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-timings", action="store_true", help="only the errors: right on a busy machine")
    parser.add_argument("--quick", action="store_true", help="a few of each, nothing kept: does it run?")
    return parser.parse_args()


if __name__ == "__main__":
    main()
