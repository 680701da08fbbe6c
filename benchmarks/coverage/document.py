"""docs/coverage.md from the results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.coverage import ways
from benchmarks.coverage.cases import TASKS, Task
from benchmarks.coverage.figures import (
    coverage_error,
    distinct_rows,
    expected_conformal,
    expected_worst,
    threshold_error,
)
from benchmarks.coverage.runs import KL_WEIGHTS, Results, arm
from benchmarks.coverage.ways import LEVELS, SAMPLED_NETWORKS
from benchmarks.modern.figures import Difference, paired_difference
from pages.markdown import markdown_table
from tribayes._text import percent
from tribayes.prediction.calibration import FEWEST

QUARTILES = 4
POSTERIOR = (ways.TRAINED, ways.CALIBRATED, ways.SCALED)  # ways whose width no rank of held-out rows sets
KL_LEVEL = 0.95  # of the table about kl_weight

INTRODUCTION = """\
# Do intervals and sets hold what they promise?

<!-- Made by `python -m benchmarks.coverage` from benchmarks/results/coverage.json. Not to be edited by hand. -->

A 90 % interval should cover 90 % of new observations, and a 90 % set 90 % of the true classes. Here this is counted on
test rows, for the posterior as it was trained, after `tb.calibrate`, after `tb.conformalise`, after both, and for MAPIE
around the same networks. A fifth of the training rows (of Fashion-MNIST 10,000 images) is held out of training, and
every way uses these held-out rows and no others. Figures are mean ± standard error over the splits.
"""

WAYS = """\
## The ways

- **as trained**: `pred.observation_interval(level)`; for classes, the fewest whose mean probabilities sum to the level.
- **calibrated**: the same after `tb.calibrate` on the held-out rows: one factor on every τ and, for regression, one on
  the noise. "With temperature": `temperature=True` too.
- **conformal**: `tb.conformalise` on the held-out rows, without calibration. Regression scores a value by its distance
  from the mean in the posterior's standard deviations; classes by "probability" or by "cumulative" probability.
- **calibrated, then conformal**: once with half of the held-out rows for each ({fewest} at least for `calibrate`, which
  refuses fewer), once with all of them for both. The second has no guarantee: its rows have been looked at before.
- **MAPIE**: split conformal prediction around the mean of the same {networks} sampled networks. Absolute residuals give
  every row the same width. Normalised residuals are divided by a regression of their logarithm on the inputs, fitted on
  a quarter of the held-out rows, MAPIE's default share; a ridge regression, its penalty by cross-validation. CQR moves
  the bounds of the posterior's own interval by one number (symmetric, as in Romano et al. 2019); this is its idea with
  the posterior in place of quantile regressions, no network having been trained for quantiles. LAC and APS work on the
  mean class probabilities; APS includes the class that crosses the threshold (MAPIE's default), or does so at random.

Sets of `tb.conformalise` hold at least the label, so a network that is right more often than the level covers more than
it promises, with one class. Sets as trained or calibrated, and MAPIE's APS, have whole classes and round up. MAPIE's
LAC and randomised APS come down to the level by sets that may be empty: a mean size below 1 shows it.

*Worst group* is the smallest coverage among four quartiles of the posterior's own standard deviation, as trained
(regression), or among the predicted classes. The groups are the same for every way.
"""

CUMULATIVE = """\
**`score="cumulative"` covers far more than it promises, by large sets.** Mean sizes at {level}, ours and MAPIE's APS:
{numbers}. The score of a class counts its own probability. Of a network that is mostly right, the rows that look
strangest are then those it is surest of, and rightly; the threshold comes to lie just below 1, where there is room for
many classes of tiny probability; and the label, which every set holds, covers the surest rows on top. MAPIE takes a
random part of the own probability off the scores of held-out rows. The promise, at least the level, is kept, but the
sets are of little use; those by "probability" have no such trouble.
"""

CHANCE = """\
## Chance

What an interval would show that is exactly right everywhere, in points. The coverage of one split varies by a binomial
standard deviation (test rows), and for a conformal threshold by that of a beta law too (held-out rows). *Mean*: both,
over the splits, where a row tested in several splits counts once. *Worst group*: the expected smallest of the groups'
coverages, all groups taken as equally large; a figure near it is no sign of a neglected group. *Conformal, expected*: a
rank is a whole number, so a threshold from n held-out rows covers ⌈(n + 1) level⌉ / (n + 1) on average, and not the
level itself; what is above it by that is no failure.
"""

DETAILS = """\
## How it was done

Networks have one hidden layer of ReLUs: 50 units for regression, {digits.hidden} for digits, {fashion.hidden} for
Fashion-MNIST. AdamW, learning rate {uci.lr:g} ({fashion.lr:g} for Fashion-MNIST) falling to 0 along half a cosine,
weight decay {uci.weight_decay:g} of the means, {uci.steps:,} steps of {uci.batch} rows (Fashion-MNIST: five epochs,
{fashion.steps:,} steps of {fashion.batch}). Everything else is the library's default: `RelativePrior`,
`kl_weight="auto"`, the diagonal family, a learned Gaussian noise. {networks} sampled networks predict.

Concrete, energy and yacht have the 20 fixed splits of docs/uci.md; diabetes and digits 10 random splits, a fifth of
the rows to test; Fashion-MNIST its own test images, two seeds. Seeds, networks, and held-out rows are the same for
every way. The recipe was fixed beforehand. Test rows were looked at once, but for two things. The score "cumulative"
was first the probability gathered up to and with the class itself, and gave sets of 3.5 classes on digits and 3.7 on
Fashion-MNIST; now a class's own is left out (compared on held-out rows), so the test rows of these two sets were seen
twice (the second time every other row came out the same; MAPIE's there are those of the first). And MAPIE's normalised
residual was first run with its default, a linear regression without a penalty (and the predicted mean among its
inputs), whose mean widths came out as 2 times the others' on concrete and in the millions on diabetes; the ridge
regression replaced it after that was seen. All of this was first run with the tridiagonal family, the default of then,
and once more with the present one.

The splits of a set share rows, so standard errors over splits are somewhat too small; Fashion-MNIST's, from two seeds
and one test set, say next to nothing: see *Chance* instead.
"""


def document(results: Results) -> str:
    """The whole page; sets that have not been run are left out."""
    arms = [Arm(task, results.splits(name)) for name, task in TASKS.items() if results.splits(name)]
    if not arms:
        raise SystemExit("no figures are stored; run python -m benchmarks.coverage --data-dir DIR first")
    values, classes = ([one for one in arms if bool(one.task.classes) is kind] for kind in (False, True))
    recipes = {"uci": TASKS["yacht"].recipe, "digits": TASKS["digits"].recipe, "fashion": TASKS["fashion-mnist"].recipe}
    parts = [INTRODUCTION, _summary(values, classes)]
    parts.append(WAYS.format(fewest=FEWEST, networks=SAMPLED_NETWORKS))
    parts += ["## Regression\n", *(_set_section(one) for one in values)]
    parts += ["## Classification\n", *(_set_section(one) for one in classes)]
    parts += [_cumulative_note(classes), _comparison(values, classes), _kl_weights(results), _chance(arms)]
    parts += [DETAILS.format(networks=SAMPLED_NETWORKS, **recipes), _origin(results, arms)]
    return "\n".join(part for part in parts if part)


@dataclass(frozen=True)
class Arm:
    """A set's splits."""

    task: Task
    splits: Sequence[Mapping[str, Any]]

    @property
    def rows(self) -> Mapping[str, int]:
        return self.splits[0]["rows"]

    @property
    def ways(self) -> list[str]:
        names = ways.CLASSIFICATION if self.task.classes else ways.REGRESSION
        return [name for name in names if all(name in one["ways"] for one in self.splits)]

    def values(self, way: str, level: float, name: str) -> list[float]:
        return [one["ways"][way][f"{level:g}"][name] for one in self.splits]

    def excess(self, way: str, level: float) -> tuple[float, float]:
        """Mean coverage above the level, and its error: that over splits or that of chance, whichever is larger."""
        mean, error = mean_and_error(self.values(way, level, "coverage"))
        return mean - level, max(error, self.chance(way, level))

    def chance(self, way: str, level: float) -> float:
        """The standard error of a mean coverage over the splits that is exactly the level: of the rows tested and,
        where a rank of held-out rows sets the width, of these."""
        tested = coverage_error(level, round(self.distinct))
        if way in POSTERIOR:
            return tested
        held = conformal_rows(way, self.rows["held"])
        return math.hypot(tested, threshold_error(level, held) / math.sqrt(len(self.splits)))

    @property
    def distinct(self) -> float:
        return distinct_rows(self.task.pool, self.rows["test"], len(self.splits))

    @property
    def groups(self) -> int:
        return self.task.classes or QUARTILES


def conformal_rows(way: str, held: int) -> int:
    """How many of the held-out rows are ranked for the threshold.

    >>> [conformal_rows(way, 55) for way in (ways.CONFORMAL, ways.HALVES, ways.NORMALISED)]
    [55, 25, 41]
    """
    if way.startswith(ways.HALVES):
        return held - max(held // 2, FEWEST)
    return held - math.ceil(held / 4) if way == ways.NORMALISED else held


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error; 0 for a single value."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return statistics.fmean(values), error


def _summary(values: Sequence[Arm], classes: Sequence[Arm]) -> str:
    text = (
        "## In short\n\nMean coverage minus the promise, in points. Bold: below it by more than two errors (the "
        "larger of the standard error over splits and that of chance); ↑: above it by more than that.\n"
    )
    tables = [_summary_table(arms) for arms in (values, classes) if arms]
    return text + "\n" + "\n".join(tables) + "\n" + _counts([*values, *classes])


def _summary_table(arms: Sequence[Arm]) -> str:
    columns = [(one, level) for level in LEVELS for one in arms]
    header = ["way", *(f"{one.task.name}, {percent(level)}" for one, level in columns)]
    return markdown_table(header, [[way, *(_gap(one, way, at) for one, at in columns)] for way in arms[0].ways])


def _gap(one: Arm, way: str, level: float) -> str:
    gap, error = one.excess(way, level)
    text = signed(100 * gap, 1)
    return f"**{text}**" if gap < -2 * error else f"{text} ↑" if gap > 2 * error else text


def _counts(arms: Sequence[Arm]) -> str:
    """How often each way falls short."""
    body = []
    for way in dict.fromkeys(way for one in arms for way in one.ways):
        cases = [one.excess(way, level) for one in arms if way in one.ways for level in LEVELS]
        short, long = (sum(sign * gap > 2 * error for gap, error in cases) for sign in (-1, 1))
        lowest = signed(100 * min(gap for gap, _ in cases), 1)
        body.append([way, *map(str, (len(cases), short, len(cases) - short - long, long)), lowest])
    header = ["way", "sets × levels", "below", "within error", "above", "lowest, points"]
    return markdown_table(header, body)


def _set_section(one: Arm) -> str:
    rows = one.rows
    quality = "error" if one.task.classes else "rmse"
    mean, error = mean_and_error([split[quality] for split in one.splits])
    said = f"test error {percent(mean, 2)}" if one.task.classes else f"test RMSE {mean:.3g} ± {error:.1g}"
    counts = f"{rows['train']:,} rows trained on, {rows['held']:,} held out, {rows['test']:,} tested"
    what = "set size" if one.task.classes else "width"
    header = ["way"]
    for level in LEVELS:
        header += [f"{percent(level)}: coverage", what, "worst group"]
    body = []
    for way in one.ways:
        cells = [way]
        for level in LEVELS:
            cells += [share(one.values(way, level, "coverage")), plain(one.values(way, level, "width"))]
            cells.append(share(one.values(way, level, "worst")))
        body.append(cells)
    luck = ["*by chance*"]
    for level in LEVELS:
        error = one.chance(ways.CONFORMAL, level)
        worst = expected_worst(level, rows["test"] // one.groups, one.groups)
        luck += [f"*{100 * level:.1f} ± {100 * error:.1f} %*", "", f"*{100 * worst:.1f} %*"]
    calibration = _calibration(one)
    return (
        f"### {one.task.name}\n\n{len(one.splits)} splits: {counts}; {said}; `kl_weight` "
        f"{one.splits[0]['kl_weight']:.3g}. {calibration}\n\n{markdown_table(header, [*body, luck])}"
    )


def _calibration(one: Arm) -> str:
    """What `calibrate` did, on average."""
    texts = []
    for way, names in ((ways.CALIBRATED, ("tau_factor", "noise_factor")), (ways.SCALED, ("tau_factor", "temperature"))):
        found = [split["calibration"][way] for split in one.splits if way in split["calibration"]]
        if found:
            wanted = [name for name in names if name != "noise_factor" or not one.task.classes]
            words = {"tau_factor": "τ ×", "noise_factor": "noise ×", "temperature": "temperature"}
            parts = [f"{words[name]} {plain([values[name] for values in found])}" for name in wanted]
            texts.append(f"{way}: {', '.join(parts)}")
    return "`calibrate` found: " + "; ".join(texts) + "."


def _cumulative_note(classes: Sequence[Arm]) -> str:
    """Where the "cumulative" score gives far larger sets than MAPIE's of the same idea: how, and why."""
    ours, level = f"{ways.CONFORMAL}, cumulative", LEVELS[0]
    sizes = {
        one.task.name: [statistics.fmean(one.values(way, level, "width")) for way in (ours, ways.APS)]
        for one in classes
        if {ours, ways.APS} <= set(one.ways)
    }
    large = {name: pair for name, pair in sizes.items() if pair[0] > 2 * pair[1]}
    if not large:
        return ""
    numbers = ", ".join(f"{name} {mine:.1f} and {theirs:.1f} classes" for name, (mine, theirs) in large.items())
    return CUMULATIVE.format(level=percent(level), numbers=numbers)


def _comparison(values: Sequence[Arm], classes: Sequence[Arm]) -> str:
    """Widths of ours minus MAPIE's, paired over splits."""
    own, probability, cumulative = ways.CONFORMAL, f"{ways.CONFORMAL}, probability", f"{ways.CONFORMAL}, cumulative"
    pairs = [(values, own, other) for other in (ways.ABSOLUTE, ways.NORMALISED, ways.QUANTILES, ways.HALVES, ways.SAME)]
    pairs += [(classes, probability, other) for other in (ways.LAC, f"{ways.HALVES}, probability")]
    pairs += [(classes, cumulative, other) for other in (ways.APS, ways.RANDOMISED)]
    body = []
    for arms, ours, other in pairs:
        for one in arms:
            if {ours, other} <= set(one.ways) and len(one.splits) > 2:
                cells = [_difference(one, ours, other, level, name) for level in LEVELS for name in ("width", "worst")]
                body.append([one.task.name, ours, other, *cells])
    if not body:
        return ""
    header = ["set", "ours", "minus"]
    for level in LEVELS:
        header += [f"{percent(level)}: width, % of the other's", "worst group, points"]
    return (
        "## Paired differences\n\nOurs minus the other, on the same splits, with a 95 % t-interval over them (a little "
        "too narrow, as the splits share rows). Bold: zero is outside. Width is worth something only where coverage "
        "holds. Fashion-MNIST's two seeds are too few for this.\n\n" + markdown_table(header, body)
    )


def _difference(one: Arm, ours: str, other: str, level: float, name: str) -> str:
    mine, theirs = (dict(enumerate(one.values(way, level, name))) for way in (ours, other))
    unit = statistics.fmean(theirs.values()) if name == "width" else 1.0
    return difference_text(paired_difference(mine, theirs), 100 / unit)


def difference_text(found: Difference, scale: float) -> str:
    """A difference and its interval; bold where it is clear."""
    text = f"{signed(scale * found.mean, 1)} ({signed(scale * found.lower, 1)} to {signed(scale * found.upper, 1)})"
    return f"**{text}**" if found.clear else text


def _kl_weights(results: Results) -> str:
    """Diabetes with several weights of the divergence."""
    body = []
    for weight in (*KL_WEIGHTS, "auto"):
        splits = results.splits(arm("diabetes", weight))
        if not splits:
            continue
        one = Arm(TASKS["diabetes"], splits)
        name = f"auto ({splits[0]['kl_weight']:.3g})" if weight == "auto" else f"{weight:g}"
        cells = [plain([split["rmse"] for split in splits])]
        for way in (ways.TRAINED, ways.CALIBRATED, ways.CONFORMAL):
            cells += [share(one.values(way, KL_LEVEL, "coverage")), plain(one.values(way, KL_LEVEL, "width"))]
        body.append([name, *cells])
    if not body:
        return ""
    header = ["kl_weight", "RMSE"]
    for way in (ways.TRAINED, ways.CALIBRATED, ways.CONFORMAL):
        header += [f"{way}: coverage", "width"]
    return (
        f"## The weight of the divergence: diabetes\n\nThe {percent(KL_LEVEL)} interval of the same splits and seeds, "
        "trained with three weights. Width in units of the data (the target's standard deviation is about 77).\n\n"
        + markdown_table(header, body)
        + _kl_verdict(results)
    )


def _kl_verdict(results: Results) -> str:
    """RMSE and calibrated width with "auto" minus those with the evidence lower bound's weight, paired."""
    pair = [results.splits(arm("diabetes", weight)) for weight in ("auto", 1.0)]
    if not all(pair):
        return ""
    texts = []
    for what in ("RMSE", "width after `calibrate`"):
        one, other = (
            {
                place: split["rmse"] if what == "RMSE" else split["ways"][ways.CALIBRATED][f"{KL_LEVEL:g}"]["width"]
                for place, split in enumerate(splits)
            }
            for splits in pair
        )
        texts.append(f"{what} {difference_text(paired_difference(one, other), 1)}")
    return f"\nAuto minus 1, paired over the splits, with a 95 % t-interval: {', '.join(texts)}.\n"


def _chance(arms: Sequence[Arm]) -> str:
    header = ["set", "splits", "rows held out", "rows tested", "different rows tested", "rows a group"]
    for level in LEVELS:
        header += [f"{percent(level)}: one split, test rows", "one split, held-out rows", "mean", "worst group"]
        header += ["conformal, expected", "half the rows"]
    body = []
    for one in arms:
        held, test = one.rows["held"], one.rows["test"]
        size = test // one.groups
        cells = [one.task.name, str(len(one.splits)), f"{held:,}", f"{test:,}", f"{one.distinct:,.0f}", f"{size:,}"]
        for level in LEVELS:
            errors = (coverage_error(level, test), threshold_error(level, held), one.chance(ways.CONFORMAL, level))
            cells += [f"± {100 * error:.1f}" for error in errors]
            shares = [expected_worst(level, size, one.groups)]
            shares += [expected_conformal(level, conformal_rows(way, held)) for way in (ways.CONFORMAL, ways.HALVES)]
            cells += [f"{100 * value:.1f} %" for value in shares]
        body.append(cells)
    return CHANCE + "\n" + markdown_table(header, body)


def _origin(results: Results, arms: Sequence[Arm]) -> str:
    made = results.made_with
    seconds = sum(split["seconds"] for one in arms for split in one.splits)
    peer = f"MAPIE {made['mapie']}" if made.get("mapie") else "MAPIE not installed, and left out"
    return (
        f"## Made with\n\n{made['threads']} thread of a shared {made['machine']} CPU, Python {made['python']}, torch "
        f"{made['torch']}, scikit-learn {made['scikit-learn']}, {peer}, float32; {seconds / 60:.0f} minutes without "
        "the table about the weight of the divergence. Figures of every split: `benchmarks/results/coverage.json`.\n"
    )


def share(values: Sequence[float]) -> str:
    """Mean ± standard error in per cent."""
    mean, error = mean_and_error(values)
    return f"{100 * mean:.1f} ± {100 * error:.1f} %"


def plain(values: Sequence[float]) -> str:
    """Mean ± standard error, both with the decimals that the error's two leading digits need; three at most."""
    mean, error = mean_and_error(values)
    decimals = min(3, max(0, 1 - math.floor(math.log10(error)))) if error > 0 else 2
    return f"{mean:.{decimals}f} ± {error:.{decimals}f}"


def signed(value: float, digits: int) -> str:
    """With a sign, a true minus; zero has none.

    >>> signed(-1.26, 1), signed(0.04, 1), signed(2, 1)
    ('−1.3', '0.0', '+2.0')
    """
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text[1:] if float(f"{value:.{digits}f}") == 0 else text
