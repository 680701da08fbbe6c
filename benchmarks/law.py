"""What one draw and its backward pass cost, beside mean field, plain normals and the paper's double loop.

    python -m benchmarks.law [--threads N] [--quick]

Everything is timed in one run, the candidates taking turns, and reported as ratios of medians. Correctness comes
first: before timing, the draw's gradients are compared with autograd's. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import math
import platform
import statistics
from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch
import torch.nn.functional as F

from tests.oracle import paper
from tribayes._text import format_table
from tribayes.posterior.draw import CPU, PLAIN, draw

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
LITERAL_SIZES = (30, 100, 300)  # the double loop in Python: 300 weights already take a second
SECONDS_A_SIZE = 4.0


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    _check_gradients()
    sizes = SIZES[:2] if arguments.quick else SIZES
    print(f"{platform.machine()}, {arguments.threads} threads, torch {torch.__version__}, float32")
    print("One draw and its backward pass; medians, spread = interquartile range of the ratio.\n")
    rows, ours_by_size = [], []
    for size in sizes:
        times = _race(_candidates(size), SECONDS_A_SIZE / (4 if arguments.quick else 1))
        ratios = [a / b for a, b in zip(times["ours"], times["mean field"], strict=True)]
        lower, _, upper = statistics.quantiles(ratios, n=4)
        median = {name: statistics.median(values) for name, values in times.items()}
        ours_by_size.append(median["ours"])
        rows.append(
            [size]
            + [1e6 * median[name] for name in ("randn", "mean field", "ours")]
            + [
                median["ours"] / median["mean field"],
                f"{lower:.2f}-{upper:.2f}",
                median["ours"] / median["randn"],
            ]
        )
    header = ["K", "randn µs", "mean field µs", "ours µs", "ours/mean field", "spread", "ours/randn"]
    print(format_table(header, rows))
    print(f"\nours grows as K^{_exponent(sizes, ours_by_size):.2f} over the whole range", end="")
    print(f", K^{_exponent(sizes[1:], ours_by_size[1:]):.2f} from 10^5 on.\n" if len(sizes) > 2 else ".\n")
    _print_literal()


def _candidates(size: int) -> dict[str, Callable[[], None]]:
    mean = torch.randn(size, requires_grad=True)
    raw = torch.full((size,), -3.0, requires_grad=True)
    delta, gamma = (torch.tensor([value], requires_grad=True) for value in (-3.0, -1.0))
    upstream = torch.randn(size)

    def randn() -> None:
        torch.randn(size)

    def mean_field() -> None:
        (mean + F.softplus(raw) * torch.randn(size)).backward(upstream)
        mean.grad = raw.grad = None

    def ours() -> None:
        (drawn,), _ = draw([mean], delta, gamma)
        drawn.backward(upstream)
        mean.grad = delta.grad = gamma.grad = None

    return {"randn": randn, "mean field": mean_field, "ours": ours}


def _race(candidates: dict[str, Callable[[], None]], seconds: float) -> dict[str, list[float]]:
    """Time the candidates in turns until the time is up, so that drift hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for run in candidates.values():
        run()
    end = perf_counter() + seconds
    while perf_counter() < end or len(times["ours"]) < 5:
        for name, run in candidates.items():
            start = perf_counter()
            run()
            times[name].append(perf_counter() - start)
    return times


def _exponent(sizes: tuple[int, ...], times: list[float]) -> float:
    """The slope of ln time against ln size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def _print_literal() -> None:
    """The paper's backward pass as its pseudocode has it, and ours at the same sizes."""
    rows, literal = [], []
    rng = np.random.default_rng(0)
    for size in LITERAL_SIZES:
        m, x, g = rng.standard_normal((3, size))
        start = perf_counter()
        paper.backward(m, -3.0, -1.0, x, g, 0.0, 1.0, 0.01, 50.0)
        literal.append(perf_counter() - start)
        ours = statistics.median(_race({"ours": _candidates(size)["ours"]}, 0.2)["ours"])
        rows.append([size, 1e6 * literal[-1], 1e6 * ours, literal[-1] / ours])
    print("The paper's double loop, literally (NumPy scalars in Python), beside our draw and backward pass:\n")
    print(format_table(["K", "literal µs", "ours µs", "literal/ours"], rows))
    growth = _exponent(LITERAL_SIZES, literal)
    days = literal[-1] * (1e7 / LITERAL_SIZES[-1]) ** growth / 86_400
    print(f"\nthe double loop grows as K^{growth:.2f}: at K = 10^7 one backward pass would take {days:,.0f} days.")


def _check_gradients() -> None:
    leaves = [torch.randn(1000).double(), torch.tensor([-1.0]).double(), torch.tensor([-2.0]).double()]
    for leaf in leaves:
        leaf.requires_grad_()
    means, delta, gamma = leaves
    drawn = [draw([means], delta, gamma, 0, implementation=name)[0][0] for name in (CPU, PLAIN)]
    ours, theirs = (torch.autograd.grad(w.square().sum(), leaves, retain_graph=True) for w in drawn)
    error = max(((a - b).norm() / b.norm()).item() for a, b in zip(ours, theirs, strict=True))
    if not (math.isfinite(error) and error < 1e-12):
        raise SystemExit(f"the draw's gradients are wrong (relative error {error:.1e}); nothing was timed")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="small sizes and a second each: does it run?")
    return parser.parse_args()


if __name__ == "__main__":
    main()
