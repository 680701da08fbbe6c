"""README's table of training steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.learners import DETERMINISTIC, OURS
from benchmarks.performance.markdown import MISSING, by_name
from benchmarks.performance.targets import KINDS
from benchmarks.store import stored
from pages.markdown import markdown_table

_COLUMNS = {  # column → contender
    "**tribayes**": OURS,
    "tribayes, compiled": f"{OURS}, compiled",
    "plain, compiled": f"{DETERMINISTIC}, compiled",
    "bayesian-torch": "bayesian-torch, reparameterization",
    "BLiTZ": "BLiTZ",
    "torchbnn": "torchbnn",
    "torch_blue": "torch_blue",
    "IVON": "IVON",
}


def speed_block(folder: Path) -> str:
    """A training step of each network on each machine, relative to the plain network's."""
    rows = []
    for result in stored("step", folder):
        where = KINDS.get(result["machine"]["kind"], result["machine"]["name"])
        for row in result["figures"]["networks"]:
            times = by_name(row["timings"])
            found = [_cell(times[name]) if name in times else MISSING for name in _COLUMNS.values()]
            rows.append([f"{where}, {row['title']}", f"**{found[0]}**", *found[1:]])
    return markdown_table(["training step, × the plain network's", *_COLUMNS], rows) if rows else "Not measured yet.\n"


def _cell(timing: Mapping[str, Any]) -> str:
    remark = " (no graph)" if timing["how"].startswith("not capturable") else ""
    return f"{timing['ratio'][1]:.2f}{remark}"
