"""The part of docs/modern.md about LeNet-100 on Fashion-MNIST: small enough for every arm to be run on a CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.modern.archive import Record
from benchmarks.modern.figures import paired_difference
from benchmarks.modern.keeping import Ensemble
from benchmarks.modern.table import Runs, difference_text, mean_text
from pages.markdown import markdown_table

DATA = "fashion"
TITLES = {
    "plain": "plain",
    "dropout": "MC dropout",
    "mean_field": "mean field",
    "ivon": "IVON",
    "laplace": "last-layer Laplace",
    "swag": "SWAG",
    "ours": "ours, diagonal",
    "ours_tridiagonal": "ours, tridiagonal",
}
OURS = ("ours", "ours_tridiagonal")

INTRODUCTION = """\
## LeNet-100 on Fashion-MNIST, every arm

A small network without normalisation: {epochs} epochs of SGD (Nesterov, 0.9) on 55,000 images as they are, batch
{batch}, rate 0.02 with warm-up and cosine, decay 5e-4, float32, on a CPU. The last 5,000 training images are held out
for temperatures. All arms are trained alike, and none was tuned here: dropout 0.1; mean field with the prior
N(0, 0.1²) and kl_weight 0.01; IVON with hess_init 0.9 and ess N; Laplace's precision by the evidence; SWAG holds its
rate in the last quarter; *ours* has the defaults, whose c was chosen on other networks, one of them on these images
([defaults.md](defaults.md)). {samples} sampled networks answer. *Far*: telling 2,000 Japanese letters from test images
by entropy. Test images were looked at once, with nothing chosen by them.
"""

Path = tuple[str, ...]
COLUMNS: tuple[tuple[str, Path, float, int], ...] = (
    ("error %", ("error",), 100, 2),
    ("NLL", ("nll",), 1, 4),
    ("ECE %", ("ece",), 100, 2),
    ("Brier", ("brier",), 1, 4),
    ("NLL, scaled", ("scaled", "nll"), 1, 4),
    ("AUROC of errors", ("auroc_errors",), 1, 3),
    ("AUROC, far", ("foreign", "far", "entropy"), 1, 3),
)


def section(cells: Mapping[str, Runs], together: Mapping[str, Ensemble]) -> str:
    """The section; nothing where no such run is kept."""
    arms = {_arm(runs): runs for runs in cells.values()}
    if "plain" not in arms:
        return ""
    settings = next(iter(arms["plain"].values()))["settings"]
    ordered = [name for name in TITLES if name in arms]
    parts = [INTRODUCTION.format(**settings), _table(arms, ordered, together)]
    for own in OURS:
        if own in arms:
            parts.append(
                f"**{TITLES[own].capitalize()} minus the others**, paired by seed, with Student's 95 % interval:\n"
            )
            parts.append(_differences(arms, own, [name for name in ordered if name != own]))
    return "\n".join([*parts, "Bold: beyond the interval. No correction is made for looking at many.\n"])


def _arm(runs: Runs) -> str:
    name: str = next(iter(runs.values()))["settings"]["arm"]
    return name


def _table(arms: Mapping[str, Runs], ordered: Sequence[str], together: Mapping[str, Ensemble]) -> str:
    rows = []
    for name in ordered:
        tested = [record["test"] for record in arms[name].values()]
        shown = [mean_text([factor * _at(one, path) for one in tested], digits) for _, path, factor, digits in COLUMNS]
        rows.append([TITLES[name], str(len(tested)), *shown])
    for one in together.values():
        shown = [f"{factor * _at(one['figures'], path):.{digits}f}" for _, path, factor, digits in COLUMNS]
        rows.append([f"ensemble of {len(one['members'])} plain", "1", *shown])
    return markdown_table(["", "seeds", *(column[0] for column in COLUMNS)], rows)


def _differences(arms: Mapping[str, Runs], own: str, others: Sequence[str]) -> str:
    rows = [[TITLES[other], *(_difference(arms[own], arms[other], column) for column in COLUMNS)] for other in others]
    return markdown_table(["", *(column[0] for column in COLUMNS)], rows)


def _difference(own: Runs, other: Runs, column: tuple[str, Path, float, int]) -> str:
    _, path, factor, digits = column
    by_seed = [{seed: factor * _at(record["test"], path) for seed, record in runs.items()} for runs in (own, other)]
    return difference_text(paired_difference(*by_seed), digits)


def _at(figures: Record, path: Path) -> float:
    for name in path:
        figures = figures[name]
    return float(figures)  # type: ignore[arg-type]  # a number, at the end of a path
