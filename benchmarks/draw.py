"""What one draw of K weights and its backward pass cost, beside a copy of K numbers and mean field.

    python -m benchmarks.draw [--device cpu|cuda] [--quick]

Every figure is GPU time of a CUDA graph, or time of the clock on a CPU. The floor of a draw is a copy (the means are
read, the draw is written), that of its backward pass a copy and a half (means and gradients read, gradients written).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import command
from benchmarks.checks import check_draw, weights_model
from benchmarks.isolation import isolated
from benchmarks.racing import Absence, candidate, race
from tribayes._text import format_table

SIZES = (10**4, 10**5, 10**6, 10**7, 2**26, 10**8)  # 2²⁶: the 67 million of the target
QUICK_SIZES = (10**3, 10**4)
SECONDS_A_SIZE = 3.0
COPY = "copy"
OURS, OURS_BOTH, OURS_KL = "ours, forward", "ours, forward + backward", "ours with KL, forward + backward"
PIECES = 16
OURS_PIECES = f"ours in {PIECES} tensors, forward + backward"  # whose gradients are first put together
EAGER, EAGER_BOTH = "mean field eager, forward", "mean field eager, forward + backward"
COMPILED, COMPILED_BOTH = "mean field compiled, forward", "mean field compiled, forward + backward"
COPIES = {"forward": 1.0, "forward + backward": 2.5}  # the floor, in copies of K numbers


def main(words: Sequence[str] | None = None) -> None:
    arguments = command.parsed(command.parser(__doc__), words)
    sizes = QUICK_SIZES if arguments.quick else SIZES
    rows = isolated(partial(_rows, arguments, sizes), arguments.device)
    print(_table(rows))
    command.keep("draw", {"sampler": weights_model(arguments.device, 1).sampler, "sizes": rows}, arguments)


def _rows(arguments: argparse.Namespace, sizes: Sequence[int], eager: Mapping[str, str]) -> list[dict[str, object]]:
    command.settle(arguments)
    check_draw(arguments.device)
    return [_row(arguments, size, eager) for size in sizes]


def _row(arguments: argparse.Namespace, size: int, eager: Mapping[str, str]) -> dict[str, object]:
    """All candidates at one size."""
    device = arguments.device
    runs, absences = _runs(size, device, compiling=not arguments.quick)
    field = [candidate(name, run, device, eager) for name, run in runs.items()]
    timings = race(field, device, SECONDS_A_SIZE / (100 if arguments.quick else 1), base=COPY)
    return {"size": size, "timings": [asdict(one) for one in timings], "absent": [asdict(one) for one in absences]}


def _runs(size: int, device: torch.device, compiling: bool) -> tuple[dict[str, Callable[[], object]], list[Absence]]:
    source, upstream = torch.randn(2, size, device=device)
    target = torch.empty_like(source)
    runs: dict[str, Callable[[], object]] = {COPY: lambda: target.copy_(source)}
    runs |= _runs_of_ours(size, device, upstream) | _runs_of_mean_field(_mean_field, EAGER, EAGER_BOTH, upstream)
    if not compiling:
        return runs, [Absence("mean field compiled", "left out: --quick")]
    torch._dynamo.reset()  # else the sizes before this one count as attempts at the same function
    compiled = torch.compile(_mean_field, dynamic=False)
    return runs | _runs_of_mean_field(compiled, COMPILED, COMPILED_BOTH, upstream), []


def _runs_of_ours(size: int, device: torch.device, upstream: Tensor) -> dict[str, Callable[[], object]]:
    model = weights_model(device, size)
    pieces = weights_model(device, *(len(piece) for piece in upstream.tensor_split(PIECES)))
    one = upstream.new_ones(())

    def forward() -> None:
        with torch.no_grad():
            model.sample_weights()

    def both(model: nn.Module, gradients: Sequence[Tensor]) -> None:
        torch.autograd.grad(list(model.sample_weights().values()), _leaves(model), gradients)

    def both_with_divergence() -> None:
        weights, divergence = model.sample_weights_and_kl()
        torch.autograd.grad([*weights.values(), divergence], _leaves(model), [upstream, one])

    return {
        OURS: forward,
        OURS_BOTH: partial(both, model, [upstream]),
        OURS_PIECES: partial(both, pieces, upstream.tensor_split(PIECES)),
        OURS_KL: both_with_divergence,
    }


def _leaves(model: nn.Module) -> list[Tensor]:
    return [value for value in model.parameters() if value.requires_grad]


def _runs_of_mean_field(
    draw: Callable[[Tensor, Tensor], Tensor], name: str, name_of_both: str, upstream: Tensor
) -> dict[str, Callable[[], object]]:
    mean = torch.randn_like(upstream).requires_grad_()
    raw = torch.full_like(upstream, -3.0).requires_grad_()

    def forward() -> None:
        with torch.no_grad():
            draw(mean, raw)

    def both() -> None:
        torch.autograd.grad(draw(mean, raw), (mean, raw), upstream)

    return {name: forward, name_of_both: both}


def _mean_field(mean: Tensor, raw: Tensor) -> Tensor:
    return mean + F.softplus(raw) * torch.randn_like(mean)


def _table(rows: Sequence[Mapping[str, object]]) -> str:
    header = {"copy": COPY, "ours forward": OURS, "both": OURS_BOTH, f"both in {PIECES}": OURS_PIECES}
    header |= {"both with KL": OURS_KL, "mean field eager": EAGER_BOTH, "compiled": COMPILED_BOTH}
    lines = []
    for row in rows:
        micro = {one["name"]: 1e6 * one["seconds"][1] for one in row["timings"]}
        lines.append([row["size"], *(micro.get(name) for name in header.values())])
    return format_table(["K", *header], lines) + '\n\nMicroseconds; "both", mean field: forward + backward.'


if __name__ == "__main__":
    main()
