"""docs/performance.md as a whole: targets first, then a section for each benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tribayes
from benchmarks.performance.markdown import MISSING, number
from benchmarks.performance.sections import INTRODUCTIONS, PARTS, TITLES
from benchmarks.performance.targets import KINDS, TARGETS, Measured, Target
from benchmarks.store import stored
from pages.markdown import markdown_table

INTRODUCTION = """\
# Performance

<!-- Made by `python -m benchmarks.performance` from benchmarks/results/. Not to be edited by hand. -->

What being Bayesian costs beside the plain network, and beside other libraries. Every table comes from one run, in
which the contenders take turns: medians, with quartiles where there is room; ratios are taken turn by turn. Before
anything is timed, the draw's law and gradient are compared with closed forms, and every contender has to give outputs,
a finite loss and a gradient. On a GPU, steps and draws are CUDA graphs timed by events, so that launches do not hide
what is compared; on a CPU it is the clock. All arms have the same torch, batch, precision and memory layout, and
the same optimizer but for IVON, which is one.

`make bench` runs everything on the machine's own device and writes this page. `python -m benchmarks.peers.install` puts
the other libraries, at fixed versions, into a folder of their own. What an earlier version of tribayes was measured
with says so in its heading, and was not measured since.
"""


def document(folder: Path) -> str:
    """The page, from whatever result files there are."""
    results = {name: list(stored(name, folder)) for name in (*PARTS, *(target.benchmark for target in TARGETS))}
    parts = [INTRODUCTION, "## Targets\n", TARGETS_INTRODUCTION, _targets(results)]
    parts += [_section(name, results[name]) for name in PARTS]
    return "\n".join(parts)


TARGETS_INTRODUCTION = """\
Medians, with quartiles where a figure was measured more than once. *Met*: the upper quartile, too, is no more than the
target. *Not met*: the lower one is more, too. *Within error*: else.
"""


def _targets(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    rows = []
    for target in TARGETS:
        figure = _measured(target, results[target.benchmark])
        found = MISSING if figure is None else _figure(figure, target.unit)
        limit = f"≤ {number(target.limit, 4)} {target.unit}"
        rows.append([KINDS[target.kind], target.words, limit, found, _verdict(target, figure)])
    return markdown_table(["on", "what", "target", "measured", ""], rows)


def _figure(figure: Measured, unit: str) -> str:
    quartiles = f" ({number(figure.lower, 4)}–{number(figure.upper, 4)})" if figure.lower < figure.upper else ""
    return f"{number(figure.middle, 4)}{quartiles} {unit}"


def _measured(target: Target, found: Sequence[Mapping[str, Any]]) -> Measured | None:
    whole = [one for one in found if not one["quick"]]
    figures = [one["figures"] for one in whole if one["machine"]["kind"] == target.kind]
    return target.figure(figures[0]) if figures else None


def _verdict(target: Target, figure: Measured | None) -> str:
    if figure is None:
        return "not measured"
    if figure.upper <= target.limit:
        return "met"
    return "**not met**" if figure.lower > target.limit else "within error"


def _section(name: str, found: Sequence[Mapping[str, Any]]) -> str:
    text = [f"## {TITLES[name]}\n", INTRODUCTIONS[name] + f" `python -m benchmarks.{name}`\n"]
    if not found:
        text.append("Not measured yet.\n")
    for result in found:
        text.append(f"### {_machine(result['machine'])}\n")
        text += ["A quick run, to see that it runs: these are no measurements.\n"] if result["quick"] else []
        text.append(PARTS[name](result))
    return "\n".join(text)


def _machine(machine: Mapping[str, Any]) -> str:
    where = machine["name"] if machine["cuda"] else f"{machine['name']} (threads: {machine['threads']})"
    rates = (
        f"copies {number(machine['copy_bytes_per_second'] / 1e9)} GB/s, "
        f"multiplies {number(machine['flops_per_second'] / 1e12)} TFLOP/s"
    )
    earlier = "" if machine["tribayes"] == tribayes.__version__ else f"; by tribayes {machine['tribayes']}"
    return f"{where}, torch {machine['torch']}, Python {machine['python']}; {rates}{earlier}"
