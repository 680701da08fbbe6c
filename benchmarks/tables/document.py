"""docs/tables.md from the results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.modern.figures import paired_difference
from benchmarks.tables.arms import BOOSTING, LEVEL, MAPIE, NGBOOST, OURS, POSTERIOR, QUANTILES
from benchmarks.tables.cases import SPLITS, TABLES
from benchmarks.tables.results import Results
from pages.markdown import markdown_table
from tribayes.tables.fitting import ENOUGH
from tribayes.tables.recipe import Recipe

ARMS = (OURS, POSTERIOR, QUANTILES, BOOSTING, NGBOOST, MAPIE)

INTRODUCTION = """\
# Tables: the scikit-learn estimators beside boosting

<!-- Made by `python -m benchmarks.tables` from benchmarks/results/tables.json. Not to be edited by hand. -->

`tb.sklearn.TriBayesRegressor` and `TriBayesClassifier` with no option given, beside scikit-learn's gradient boosting
(`HistGradientBoosting`, one of the quantile loss for each end of an interval), NGBoost (a normal law whose mean and
spread are boosted) and MAPIE (split conformal prediction around boosting). Each split was asked about its test rows
once. Figures are mean ± standard error over the splits, which share rows, so that errors are somewhat too small.
"""

METHOD = f"""\
## What `fit` does

1. About a fifth of the rows (39 to 1,999) is kept aside. The others are standardised, inputs and values alike.
2. About a fifth of the others judges two networks that the rest has trained: one with `kl_weight="auto"`, one with 1.
   `tb.calibrate` sets the widths of each by these rows; the smaller negative log likelihood wins. No rule can choose
   here: "auto" is far too small where most of a target is noise (diabetes), 1 too large where little is (energy).
3. The winner is trained again on all rows but those kept aside, with the same weight and the same change of widths.
4. `tb.conformalise` learns from the rows kept aside, which nothing has looked at, how wide 95 % has to be. So
   `predict_interval` and `predict_set` hold their level whatever the data, on average over rows and fits; the rest
   (`predict`, `predict_proba`, `return_std=True`) is the posterior's.

The rows kept aside do not train the network that predicts: that is the price of the guarantee. Do not fit again on all
rows and keep the old widths: they would be those of another network. `calibrate=False` trains on all rows and promises
nothing; so it is, with a warning, below {ENOUGH} rows. A training has {Recipe.steps:,} steps of {Recipe.batch_size}
rows.

## The same budget for everyone

Each arm tries two settings on a held-out fifth of its training rows, and learns again with the better one. Ours does
that inside `fit`. Boosting has its default learning rate of 0.1 and 0.03, each of its three models by itself (squared
error, two pinball losses); NGBoost 0.01, its default, and 0.003, by likelihood. The number of trees is the default.
MAPIE gets a fifth of the rows for itself, as ours does. The recipe of ours (2,000 steps, two weights) was settled
before, on two random parts of diabetes and energy each: 1,000 steps left the error on energy half as large again, and a
third weight, 0.3, changed little on diabetes. These parts were drawn without regard to the splits here, so many rows
that are tested here had a say in these two numbers. The learning rate and the network are those of docs/coverage.md.
All of this was first run with the tridiagonal family, the default of then, and once more with the present one.
"""

READING = """\
Sets of ours hold at least the label: a classifier that is right in more than 95 % of cases holds more than it promises,
with one class. MAPIE's may be empty, which counts as wrong. Where NGBoost has fewer splits, its own
gradients overflowed on the others at both rates, as they do once it is sure of every row's class.
"""


def document(results: Results) -> str:
    """The page as it should be."""
    parts = [INTRODUCTION, *_missing(results), _in_short(results)]
    for name, table in TABLES.items():
        if splits := results.splits(name):
            parts.append(_section(name, table.classes, splits))
    return "\n".join([*parts, READING, METHOD, _made_with(results)])


def _missing(results: Results) -> list[str]:
    """What was not run, in words; nothing where all was."""
    done = {name: len(results.splits(name)) for name in TABLES}
    short = [f"{name} {count}" for name, count in done.items() if count < SPLITS]
    if not short:
        return []
    words = f"**Not complete.** Of {SPLITS} splits were run: {', '.join(short)}.\nSo few say little about coverage, and"
    return [f"{words} nothing about who is best;\n`python -m benchmarks.tables --data-dir DIR` runs what is missing.\n"]


def _in_short(results: Results) -> str:
    """How much our intervals and sets hold, and which arm errs least."""
    rows = []
    for name in TABLES:
        splits = results.splits(name)
        if not splits:
            continue
        found = [judge(splits, key) for judge in (_least, _beside) for key in ("error", "nll")]
        rows.append([name, _share(_column(splits, OURS, "coverage")), _chance(splits), *found])
    header = ["table", f"ours hold, promised {100 * LEVEL:.0f} %", "by chance", "smallest error", "smallest NLL"]
    header += ["ours beside the others, error", "the same, NLL"]
    return "## In short\n\n" + markdown_table(header, rows) + "\n" + CHANCE


def _least(splits: list[dict[str, Any]], key: str) -> str:
    """The arms whose mean is smallest, all of them where they are equal; a dash where splits are missing."""
    arms = [arm for arm in ARMS if arm in splits[0]["arms"] and arm != POSTERIOR and _column(splits, arm, key)]
    means = {arm: statistics.mean(said) for arm in arms if len(said := _column(splits, arm, key)) == len(splits)}
    return ", ".join(arm for arm in means if means[arm] == min(means.values())) if len(splits) == SPLITS else "–"


def _beside(splits: list[dict[str, Any]], key: str) -> str:
    """How many arms ours is better or worse than, and how many it cannot be told from, paired over the splits."""
    known = [{at: split["arms"].get(arm, {}).get(key) for at, split in enumerate(splits)} for arm in ARMS]
    figures = {arm: {at: x for at, x in one.items() if x is not None} for arm, one in zip(ARMS, known, strict=True)}
    others = [one for arm, one in figures.items() if arm not in (OURS, POSTERIOR) and one]
    differences = [paired_difference(figures[OURS], other) for other in others]
    better, worse = (sum(one.clear and (one.mean < 0) == less for one in differences) for less in (True, False))
    words = {"better": better, "worse": worse, "within error": len(differences) - better - worse}
    return ", ".join(f"{word} {count}" for word, count in words.items() if count) or "–"


CHANCE = """\
A smallest mean is not beyond error by itself. *Ours beside the others*: how many of them ours is better or worse than
beyond a 95 % t-interval of the difference, paired over the splits, and from how many it cannot be told.

*By chance*: the standard error of that figure if the promise were exactly kept, from as many test rows and rows kept
aside; a row tested in several splits counts as several, so it is a little too small.
"""


def _chance(splits: list[dict[str, Any]]) -> str:
    """Binomial over the test rows of all splits, and a beta law over the threshold of each."""
    tested = sum(split["rows"]["tested"] for split in splits)
    spread = LEVEL * (1 - LEVEL)
    aside = [0.2 * split["rows"]["learned"] for split in splits]
    variance = spread / tested + sum(spread / (count + 2) for count in aside) / len(splits) ** 2
    return f"± {math.sqrt(variance):.1%}".replace("%", " %")


def _section(name: str, classes: bool, splits: list[dict[str, Any]]) -> str:
    rows = []
    for arm in ARMS:
        if arm not in splits[0]["arms"]:
            continue
        error, nll, coverage, width = (_column(splits, arm, key) for key in ("error", "nll", "coverage", "width"))
        said = arm if len(error) == len(splits) else f"{arm}, {len(error)} of {len(splits)} splits"
        rows.append(
            [said, _share(error) if classes else _number(error), _number(nll), _share(coverage), _number(width)]
        )
    header = ["arm", "error" if classes else "RMSE", "NLL", f"{'sets' if classes else 'intervals'} hold"]
    header.append("classes a set" if classes else "width")
    weights = [split["arms"][OURS]["kl_weight"] for split in splits]
    learned, tested = splits[0]["rows"]["learned"], splits[0]["rows"]["tested"]
    said = f"{len(splits)} split{'s' if len(splits) > 1 else ''}: {learned:,} rows to learn from, {tested:,} tested. "
    said += f"`kl_weight` came out as {', '.join(f'{weight:.3g}' for weight in weights)}.\n"
    return f"## {name}\n\n{said}\n{markdown_table(header, rows)}"


def _column(splits: list[dict[str, Any]], arm: str, key: str) -> list[float]:
    """One figure over the splits; none where the arm does not say it."""
    return [split["arms"][arm][key] for split in splits if split["arms"][arm][key] is not None]


def _number(values: list[float]) -> str:
    return _with_error(values, lambda value: f"{value:.3g}", lambda error: f"{error:.2g}")


def _share(values: list[float]) -> str:
    said = _with_error(values, lambda value: f"{100 * value:.1f}", lambda error: f"{100 * error:.1f}")
    return f"{said} %" if values else said


def _with_error(values: list[float], mean: Callable[[float], str], error: Callable[[float], str]) -> str:
    """Mean ± standard error; one value has no error, and none is a dash."""
    if not values:
        return "–"
    said = mean(statistics.mean(values)).replace("-", "−")
    return said if len(values) == 1 else f"{said} ± {error(statistics.stdev(values) / math.sqrt(len(values)))}"


def _made_with(results: Results) -> str:
    known = results.made_with
    said = [
        f"{name} {known[name] or 'not installed'}" for name in ("scikit-learn", "ngboost", "mapie") if name in known
    ]
    seconds = sum(split["seconds"] for name in TABLES for split in results.splits(name))
    words = f"One thread of a shared CPU, Python {known.get('python')}, torch {known.get('torch')}, {', '.join(said)}; "
    words += f"{seconds / 60:.0f} minutes in all. Figures of every split: `benchmarks/results/tables.json`.\n"
    return f"## Made with\n\n{words}"
