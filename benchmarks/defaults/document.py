"""docs/defaults.md from the results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.defaults.comparing import (
    NOTHING,
    by_share,
    counts,
    difference_table,
    difference_text,
    differences,
    mean_text,
    number,
)
from benchmarks.defaults.plan import DIAGONAL, PLAIN, PRIORS, SHARES, TASKS, USUAL, Arm, kl_weight
from benchmarks.defaults.results import Record, Results, values
from benchmarks.defaults.verdict import Table, Verdict, excess, mean_nll, verdict
from pages.markdown import markdown_table

PRIOR_TITLES = {"paper": "the paper's prior N(0, 1)", "relative": "the relative prior"}
OURS = Arm("relative")
LEAST_FACTOR, MOST_FACTOR = 1 / 8, 4.0  # on τ, in tb.calibrate

INTRODUCTION = """\
# Defaults: the weight of the divergence, and the prior

<!-- Made by `python -m benchmarks.defaults --page` from benchmarks/results/defaults.json. Not to be edited by hand. -->

`tb.ELBO(..., kl_weight="auto")` is

    kl_weight = min(1, c N / K),     c = {usual:g},

for N training examples and K random weights: the divergence of a weight counts c examples' share, however many weights
there are, and never more than in the evidence lower bound. `tb.to_bayesian` takes `tb.RelativePrior()` unless told
otherwise. This page is the study behind both. All figures are of **held-out training rows** but those of one section:
test rows were asked about once, after c was fixed.

c = {usual:g} is not a discovery of this page. It came from earlier trials on held-out rows of the same UCI sets, of the
digits and of Fashion-MNIST, so what follows is the same question asked again, with more arms and seeds, and not an
independent proof.
"""

CRITERION = """\
## Which c

The criterion, stated before the runs: the excess of a c on a task is its mean NLL minus that of the task's best c under
the same prior, over the seeds that all c have; the c whose worst excess over the tasks is smallest is taken. The mean
excess stands beside it. Tasks on which not every c was run do not count. Bold: the best of a row.
"""

TRAINING = """\
SGD has Nesterov's momentum 0.9, rates fall along half a cosine, and δ and γ move as `tb.parameter_groups` lets them.
UCI networks have 50 hidden ReLUs and a learned noise. Initial weights and the order of the data are paired between
arms. NLL is in nats per example, of regressions in the units of the data; 200 sampled networks answer, for
Fashion-MNIST 30.
"""

PRIOR_BESIDE_PRIOR = """\
## Prior against prior

Relative minus paper's, tridiagonal, the same c, paired by seed or split: mean and 95 % t-interval. Negative is in
favour of the relative prior, but for coverage. At c = {usual:g}, and then the NLL at every c:
"""

CALIBRATION = """\
## After `tb.calibrate`

At c = {usual:g}: one factor on all τ, and for regressions one on the noise, set by half of the held-out rows (of yacht
30 of 55; of Fashion-MNIST 1,000 of that half). NLL on the other half, before and after.
"""

TEST = """\
## Test rows, looked at once

The networks that the tables above judge, trained without the held-out rows, with c fixed; calibrated on the held-out
rows (at most 1,000 of them). Mean ± standard error over seeds or splits. Nothing was chosen by these figures. Not all
of these rows are untouched: a UCI row that one split tests is a training or held-out row of others, [uci.md](uci.md)
had asked about them with other recipes, and the earlier trials split the digits in another way.
"""

UNKNOWN = """\
## What is not known

- No network here has more than {most:,} weights. CIFAR10_full and ResNet-18, with augmentation, normalisation and
  millions of weights, are still to come, on a GPU. With c = {usual:g}, c N / K is from {low:.2g} to {high:.2g} here;
  beyond that the rule is untried, and its bound of 1 is not reached.
- The rule knows nothing of the noise in the data. Where most of a target is noise it is too small: on scikit-learn's
  diabetes data (docs/coverage.md), which was not among these tasks, kl_weight = 1 has a far smaller error and intervals
  that hold. There pass a number chosen on held-out rows, and whatever the data, let these set the widths
  (`tb.calibrate`, `tb.conformalise`).
- c was looked for on a grid of factors of about three: an optimum between two of its points is not seen.
- The criterion compares nats per example. Regressions, whose NLL moves by whole nats, weigh more in it than
  classifications, where it moves by hundredths; so both are also judged alone.
- Both priors were trained with the same weight decay, steps and rates, τ from 0.05, and no early stopping. A scale
  other than 1, or a decay of its own, might serve the paper's prior better.
- Few seeds: classifications have three at most, and intervals over two or three seeds are wide. The splits of a UCI set
  share rows, so their errors are not independent, and their intervals too narrow.
- No correction is made for looking at many comparisons.
"""


def document(results: Results) -> str:
    """The page."""
    records = results.held_out
    tables = {prior: excess(mean_nll(records, prior)) for prior in PRIORS}
    parts = [
        INTRODUCTION.format(usual=USUAL),
        _in_short(records, tables),
        _tasks(records),
        CRITERION,
        *(_excesses(records, prior, tables[prior]) for prior in PRIORS),
        "![Excess by c](images/defaults.svg)\n",
        PRIOR_BESIDE_PRIOR.format(usual=USUAL),
        difference_table(differences(records, OURS, Arm("paper"))),
        by_share(records, "relative", "paper"),
        "## Family against family\n",
        f"Tridiagonal minus diagonal, relative prior, c = {USUAL:g}, paired in the same way.\n",
        difference_table(differences(records, OURS, DIAGONAL)),
        "## Beside a plain network\n",
        f"Tridiagonal with the relative prior and c = {USUAL:g}, minus the plain network trained in the same way.\n",
        difference_table(differences(records, OURS, PLAIN)),
        CALIBRATION.format(usual=USUAL),
        _calibrated(records),
        TEST,
        _test(results.test),
        _unknown(),
        _made(results),
    ]
    return "\n".join(parts)


def readme_block(results: Results) -> str:
    """What README says of it."""
    judged = [task.title for task in TASKS.values() if any(values(results.held_out, task.name, OURS, "nll"))]
    lines = [
        f'`kl_weight="auto"` is min(1, {USUAL:g} N / K) for N examples and K random weights, and the prior moves with '
        f"the weights. Both were judged by held-out rows of {len(judged)} tasks ({'; '.join(judged)}), and test rows "
        "were asked once, afterwards. Comparisons are paired, and better or worse only beyond a 95 % t-interval:",
        "",
        *(f"- {line}" for line in _comparisons(results.held_out)),
    ]
    return "\n".join(lines) + "\n"


def missing(records: Sequence[Record]) -> list[str]:
    """What was planned and is not stored, in words."""
    found = []
    for task in TASKS.values():
        seeds = {arm: len(values(records, task.name, arm, "nll")) for arm in task.arms}
        none = [arm.title for arm, count in seeds.items() if not count]
        some = [count for count in seeds.values() if 0 < count < task.seeds]
        if len(none) == len(seeds):
            found.append(f"{task.title}: nothing was run")
        elif none:
            found.append(f"{task.title}: not run are {'; '.join(none)}")
        if some:
            found.append(f"{task.title}: {len(some)} arms have {min(some)} of {task.seeds} seeds")
    return found


def _tasks(records: Sequence[Record]) -> str:
    header = ["task", "N", "K", f"kl_weight at c = {USUAL:g}", "held out", "trained with", "seeds or splits"]
    rows = []
    for task in TASKS.values():
        weight = f"{kl_weight(USUAL, task.rows, task.weights):.2g}"
        way = f"AdamW, {task.length:,} steps" if task.regression else f"SGD, {task.length} epochs"
        way += f", rate {task.lr:g}, decay {task.weight_decay:g}, batch {task.batch}"
        count = max(len(values(records, task.name, arm, "nll")) for arm in task.arms)
        rows.append([task.title, f"{task.rows:,}", f"{task.weights:,}", weight, f"{task.held_out:,}", way, str(count)])
    lacking = "".join(f"- {words}\n" for words in missing(records))
    words = f"\nPlanned, and missing here:\n\n{lacking}" if lacking else ""
    return f"## Tasks\n\n{TRAINING}\n{markdown_table(header, rows)}{words}"


def _excesses(records: Sequence[Record], prior: str, table: Table) -> str:
    found = verdict(table)
    title = f"### With {PRIOR_TITLES[prior]}\n\n"
    if found is None:
        return title + NOTHING
    means = mean_nll(records, prior)
    rows = []
    for task, row in table.items():
        seeds = set.intersection(*(set(values(records, task, Arm(prior, share=c), "nll")) for c in SHARES))
        rows.append([TASKS[task].title, str(len(seeds)), number(min(means[task].values()), 3), *_best_in_bold(row)])
    rows += [["worst", "", "", *_best_in_bold(found.worst)], ["mean", "", "", *_best_in_bold(found.mean)]]
    return title + markdown_table(["excess NLL", "seeds", "best NLL", *(f"c = {share:g}" for share in SHARES)], rows)


def _best_in_bold(row: Mapping[float, float]) -> list[str]:
    best = min(row.values())
    return [f"**{value:.3f}**" if value == best else f"{value:.3f}" for value in row.values()]


def _in_short(records: Sequence[Record], tables: Mapping[str, Table]) -> str:
    lines = []
    for prior, table in tables.items():
        found = verdict(table)
        if found is None:
            continue
        alone = []
        for words, kind in (("regressions", True), ("classifications", False)):
            own = verdict(table, [task for task in table if TASKS[task].regression == kind])
            if own is not None:
                alone.append(f"{words} alone take c = {own.share:g} ({_of_usual(own)})")
        agree = "as the default has it" if found.share == USUAL else f"**not the default's {USUAL:g}**"
        lines.append(
            f"With {PRIOR_TITLES[prior]} the criterion below takes c = {found.share:g}, {agree} ({_of_usual(found)}). "
            f"The mean excess would take c = {found.by_mean:g}; {', '.join(alone)}."
        )
    return "## In short\n\n" + "".join(f"- {line}\n" for line in [*lines, *_comparisons(records)])


def _comparisons(records: Sequence[Record]) -> list[str]:
    """The default beside what might have been it."""
    over_shares = [(Arm("relative", share=share), Arm("paper", share=share)) for share in SHARES]
    return [
        f"Relative prior beside the paper's, every c and task: {counts(records, over_shares)}; at c = {USUAL:g}, "
        f"{counts(records, [(OURS, Arm('paper'))])}.",
        f"Tridiagonal beside diagonal, c = {USUAL:g}: {counts(records, [(OURS, DIAGONAL)])}.",
        f"Beside the plain network, c = {USUAL:g}: {counts(records, [(OURS, PLAIN)])}.",
    ]


def _of_usual(found: Verdict) -> str:
    best, usual = (f"{found.worst[share]:.3f}" for share in (found.share, USUAL))
    return f"worst excess {best}" + ("" if found.share == USUAL else f", of c = {USUAL:g} {usual}")


def _calibrated(records: Sequence[Record]) -> str:
    rows = []
    for task in TASKS.values():
        for prior in reversed(PRIORS):
            before, after, factors = (
                values(records, task.name, Arm(prior), name) for name in ("rest_nll", "calibrated_nll", "tau_factor")
            )
            if before:
                span = " to ".join(
                    dict.fromkeys(f"{one:.2g}" for one in (min(factors.values()), max(factors.values())))
                )
                means = [number(statistics.fmean(some.values()), 3) for some in (before, after)]
                rows.append([task.title, prior, str(len(before)), *means, difference_text(after, before), span])
    if not rows:
        return NOTHING
    header = ["task", "prior", "seeds", "before", "after", "after minus before", "factor on τ"]
    return markdown_table(header, rows) + "\n" + _at_the_end(records) + "\n" + _after_every_share(records)


def _at_the_end(records: Sequence[Record]) -> str:
    """How many calibrations stopped at the end of what `tb.calibrate` searches, where a few rows say little."""
    words = []
    for task in TASKS.values():
        factors = [f for prior in PRIORS for f in values(records, task.name, Arm(prior), "tau_factor").values()]
        ends = sum(factor < 1.1 * LEAST_FACTOR or factor > MOST_FACTOR / 1.1 for factor in factors)
        if ends:
            words.append(f"{task.title} {ends} of {len(factors)}")
    if not words:
        return ""
    return (
        f"The factor on τ is searched between {LEAST_FACTOR:g} and {MOST_FACTOR:g}; it stopped at an end of that for "
        f"{'; '.join(words)}. So few rows do not say much about it.\n"
    )


def _after_every_share(records: Sequence[Record]) -> str:
    """Whether a calibration makes up for another c."""
    rows = []
    for prior in PRIORS:
        for words, figure in (("before", "rest_nll"), ("after", "calibrated_nll")):
            found = verdict(excess(mean_nll(_as_nll(records, figure), prior)))
            if found is not None:
                rows.append([f"{prior}, {words}", *_best_in_bold(found.worst)])
    if not rows:
        return ""
    return "The worst excess of every c on that other half:\n\n" + markdown_table(
        ["prior", *(f"c = {share:g}" for share in SHARES)], rows
    )


def _as_nll(records: Sequence[Record], figure: str) -> list[Record]:
    """The records with another figure in the place of the NLL."""
    return [replace(one, figures={"nll": one.figures[figure]}) for one in records if figure in one.figures]


def _test(records: Sequence[Record]) -> str:
    if not records:
        return "Not yet looked at.\n"
    rows = []
    for task in TASKS.values():
        figures = ("nll", task.miss, task.trust, "calibrated_nll", f"calibrated_{task.trust}")
        for arm in dict.fromkeys(one.arm for one in records if one.task == task.name):
            found = [values(records, task.name, arm, name) for name in figures]
            cells = [mean_text(own, name) for own, name in zip(found, figures, strict=True)]
            rows.append([task.title, arm.title, str(len(found[0])), *cells])
    header = [
        "task",
        "arm",
        "seeds",
        "NLL",
        "error or RMSE",
        "ECE or 95 % coverage",
        "NLL, calibrated",
        "and ECE or coverage",
    ]
    others = {"paper's prior": Arm("paper"), "diagonal": DIAGONAL, "plain": PLAIN}
    gaps = [row for words, other in others.items() for row in differences(records, OURS, other, [words])]
    return (
        markdown_table(header, rows)
        + f"\nRelative prior, tridiagonal, c = {USUAL:g}, minus another arm, paired:\n\n"
        + difference_table(gaps, ["minus"])
    )


def _unknown() -> str:
    ratios = [USUAL * task.rows / task.weights for task in TASKS.values()]
    most = max(task.weights for task in TASKS.values())
    return UNKNOWN.format(most=most, low=min(ratios), high=max(ratios), usual=USUAL)


def _made(results: Results) -> str:
    made, minutes = results.made_with, sum(one.seconds for one in results.held_out) / 60
    several = sorted({TASKS[one.task].title for one in results.held_out if TASKS[one.task].threads > 1})
    threads = f"one thread a job ({', '.join(several)}: two)" if several else "one thread a job"
    return (
        "## Made with\n\n"
        f"CPU, float32, {threads}, on cores shared with other work, {minutes:.0f} minutes; Python "
        f"{made.get('python')}, torch {made.get('torch')}. Figures of every seed: `benchmarks/results/defaults.json`.\n"
    )
