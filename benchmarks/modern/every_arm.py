"""The part of docs/modern.md about LeNet-100 on Fashion-MNIST: small enough for every arm to be run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.modern.archive import Record
from benchmarks.modern.figures import equivalent_text, paired_difference
from benchmarks.modern.keeping import Ensemble, Trial
from benchmarks.modern.networks import NETWORKS
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
{batch}, rate 0.02 with warm-up and cosine, decay 5e-4 where nothing else was tried, {precision}, on {device}. All arms
are trained alike, and each had three trials, of one seed, of the number that is its own; the one with the best NLL on
5,000 held-out training images was then trained with all seeds. The same images choose temperatures. Mean field has the
prior N(0, 0.1²); IVON's ess is N; SWAG holds its rate in the last quarter, as it is then or at a share of the highest.
The larger decay that serves *plain* best was tried for no other arm, whose own number was another
(`python -m benchmarks.modern tuned`).
{samples} sampled networks answer. *Far*: telling 2,000 Japanese letters from test images by entropy. Test images were
looked at once, with nothing chosen by them.

"auto" is the default of *ours*, whose c was chosen on other networks, one of them on these images
([defaults.md](defaults.md)).
"""

OWN = {  # what was tried of each arm; else its only option
    "plain": ("weight_decay", "decay"),
    "dropout": ("dropout", "share dropped"),
    "mean_field": ("kl", "kl_weight"),
    "ivon": ("hessian", "hess_init"),
    "laplace": ("precision", "precision of the prior"),
    "swag": ("rate", "rate"),
    "ours": ("kl", "kl_weight"),
    "ours_tridiagonal": ("kl", "kl_weight"),
}

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


def section(cells: Mapping[str, Runs], together: Mapping[str, Ensemble], trials: Mapping[str, Sequence[Trial]]) -> str:
    """The section; nothing where no such run is kept."""
    arms = {_arm(runs): runs for runs in cells.values()}
    if "plain" not in arms:
        return ""
    first = next(iter(arms["plain"].values()))
    told = {"precision": "bf16" if first["machine"]["cuda"] else "float32", "device": first["machine"]["device"]}
    ordered = [name for name in TITLES if name in arms]
    tried = [trial for found in trials.values() for trial in found]
    introduction = INTRODUCTION.format(**first["settings"], **told)
    parts = [introduction, _choices(tried, ordered), _table(arms, ordered, together)]
    for own in OURS:
        if own in arms:
            parts.append(
                f"**{TITLES[own].capitalize()} minus the others**, paired by seed, with Student's 95 % interval:\n"
            )
            parts.append(_differences(arms, own, [name for name in ordered if name != own]))
    parts.append("Bold: beyond the interval. No correction is made for looking at many.\n")
    parts += [_equivalents(arms, ordered, one) for one in together.values() if _of_plain(one)]
    return "\n".join(parts)


def best_trials(trials: Sequence[Trial]) -> dict[str, Trial]:
    """Of each arm the trial with the best NLL on held-out images."""
    ranked = sorted(trials, key=lambda trial: -float(trial["held_out"]["nll"]))
    return {trial["settings"]["arm"]: trial for trial in ranked}


def _choices(trials: Sequence[Trial], ordered: Sequence[str]) -> str:
    best = best_trials(trials)
    rows = []
    for arm in ordered:
        own = [trial for trial in trials if trial["settings"]["arm"] == arm]
        shown = [_choice(trial, trial is best[arm]) for trial in sorted(own, key=_in_order)]
        rows.append([TITLES[arm], OWN[arm][1], *shown])
    return markdown_table(["", "its number", *(f"trial {number}: held-out NLL" for number in (1, 2, 3))], rows)


def _choice(trial: Trial, best: bool) -> str:
    text = f"{tried(trial)}: {trial['held_out']['nll']:.4f}"
    return f"**{text}**" if best else text


def _in_order(trial: Trial) -> tuple[bool, float, str]:
    """Words, such as "auto", first."""
    value = tried(trial)
    return (True, float(value), "") if isinstance(value, int | float) else (False, 0.0, str(value))


def tried(trial: Trial) -> float | str:
    """The value of the arm's own number."""
    settings = trial["settings"]
    value: float | str | None = {**settings, **settings["options"]}[OWN[settings["arm"]][0]]
    return NETWORKS[settings["network"]].weight_decay if value is None else value


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
        rows.append([f"ensemble of {len(one['members'])}, {TITLES[_arm_of(one)]}", "1", *shown])
    return markdown_table(["", "seeds", *(column[0] for column in COLUMNS)], rows)


def _arm_of(one: Ensemble) -> str:
    """Cells are called DATA-NETWORK-ARM-…"""
    name: str = one["cell"].split("-")[2]
    return name


def _of_plain(one: Ensemble) -> bool:
    return _arm_of(one) == "plain"


def _equivalents(arms: Mapping[str, Runs], ordered: Sequence[str], plain: Ensemble) -> str:
    """How many plain networks reach the same log-likelihood at the best temperature (Ashukha et al. 2020)."""
    reached = plain["log_likelihoods"]
    worth = []
    for name in ordered:
        own = [-_at(record["test"], ("scaled", "nll")) for record in arms[name].values()]
        if name != "plain":
            worth.append(f"{TITLES[name]} {equivalent_text(sum(own) / len(own), reached)}")
    return f"**Deep-ensemble equivalent**, in plain networks, of {len(reached)}: {'; '.join(worth)}.\n"


def _differences(arms: Mapping[str, Runs], own: str, others: Sequence[str]) -> str:
    rows = [[TITLES[other], *(_difference(arms[own], arms[other], column) for column in COLUMNS)] for other in others]
    return markdown_table(["", *(column[0] for column in COLUMNS)], rows)


def _difference(own: Runs, other: Runs, column: tuple[str, Path, float, int]) -> str:
    _, path, factor, digits = column
    by_seed = [{seed: factor * _at(record["test"], path) for seed, record in runs.items()} for runs in (own, other)]
    return difference_text(paired_difference(*by_seed), digits)


def _at(figures: Record, path: Path) -> float:
    """The number at the end of a path."""
    found: Any = figures
    for name in path:
        found = found[name]
    return float(found)
