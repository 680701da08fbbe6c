"""docs/images/steps.svg: τ/τ* over the size of the tensor."""

from __future__ import annotations

import hashlib
import io
import json
import statistics
from collections.abc import Mapping, Sequence

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.scale_steps.problem import TAU
from benchmarks.scale_steps.rules import TITLES, default_arm
from benchmarks.scale_steps.study import NOISES, STEPS, Results, Unit, sizes_to

_MARKERS = dict(zip(TITLES, "osv<^Dx", strict=True))
_DIGEST = "made from results "

Curves = Mapping[str, Sequence[tuple[int, float]]]  # (K, τ/τ*) for each rule


def curves(results: Results, steps: int) -> dict[str, list[tuple[int, float]]]:
    """The mean of τ/τ* over the seeds, tridiagonal, for every rule and size that was run for so many steps."""
    found: dict[str, list[tuple[int, float]]] = {rule: [] for rule in TITLES}
    for rule, points in found.items():
        for size in sizes_to(results.largest):
            one = results.find(Unit("tridiagonal", size, steps, NOISES[0]), default_arm(rule))
            if one:
                points.append((size, round(statistics.fmean(one["tau"]) / TAU, 4)))
    return found


def picture(results: Results) -> str:
    """The SVG; its first comment has a digest of what it shows, for its paths differ between versions of matplotlib."""
    shown = {steps: curves(results, steps) for steps in STEPS}
    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "tribayes", "svg.fonttype": "none"}):
        draw(shown).savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
    return "\n".join([*lines, f"<!-- {_DIGEST}{digest(shown)} -->"]) + "\n"


def is_current(text: str, results: Results) -> bool:
    """Whether a picture shows these results."""
    return _DIGEST + digest({steps: curves(results, steps) for steps in STEPS}) in text


def digest(shown: Mapping[int, Curves]) -> str:
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def draw(shown: Mapping[int, Curves]) -> Figure:
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    panels = figure.subplots(1, len(shown), sharey=True)
    for axes, (steps, found) in zip(panels, shown.items(), strict=True):
        axes.axhline(1, color="0.6", linewidth=1)
        for rule, points in found.items():
            sizes, ratios = zip(*points, strict=True) if points else ((), ())
            axes.plot(sizes, ratios, marker=_MARKERS[rule], markersize=5, linewidth=1.2, label=TITLES[rule])
        axes.set(xscale="log", yscale="log", xlabel="weights of the tensor, K", title=f"{steps:,} steps")
    panels[0].set_ylabel("τ/τ*")
    panels[0].set_yticks([0.2, 0.5, 1.0], ["0.2", "0.5", "1"])
    panels[0].minorticks_off()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure
