"""docs/steps.md from the results."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.modern.figures import Difference, paired_difference
from benchmarks.scale_steps.picture import is_current, picture
from benchmarks.scale_steps.problem import FIRST_TAU, RHO, TAU
from benchmarks.scale_steps.rules import MEAN_RATES, RATE, TITLES, Arm, default_arm
from benchmarks.scale_steps.study import (
    CLOSEST,
    FRESH,
    FULL,
    NOISES,
    SMALLEST,
    STEPS,
    Results,
    Unit,
    errors,
    fresh_units,
    sizes_to,
)
from benchmarks.store import ROOT
from pages.markdown import markdown_table
from tribayes._text import minus

PAGE = ROOT / "docs" / "steps.md"
PICTURE = ROOT / "docs" / "images" / "steps.svg"
BASE = "steady"
LN_TAU, DISTANCE = "\\|ln τ/τ*\\|", "\\|ρ − ρ*\\|"  # as a table has them


def texts(results: Results) -> dict[Path, str]:
    """The page and its picture; a picture of these very results stays as it is."""
    there = PICTURE.read_text("utf-8") if PICTURE.is_file() else ""
    return {PAGE: document(results), PICTURE: there if is_current(there, results) else picture(results)}


INTRODUCTION = """\
# Steps for δ and γ

<!-- Made by `python -m benchmarks.scale_steps --page` from benchmarks/results/{file}. Not to be edited by hand. -->

The gradients of a tensor's δ (noise, τ = softplus δ) and γ (correlation ρ) sum over its K weights. Which rule moves
them best when nothing is tuned, from 10 weights to {largest}?

**The problem.** A network with tensors of 10, 100, … {largest} weights, a quadratic likelihood under the relative
prior, ν = 0.1/ΣK. Its curvature is chosen for every tensor such that τ\\* = 0.3 is best, and ρ\\* = −0.2 where there is
correlation, both in closed form (`benchmarks/scale_steps/problem.py`). Training starts at τ = 0.05, ρ = 0, the means at
their best. The noise is like that of minibatches: on every weight's gradient a normal {noise:g} times as large as what
the draw itself does to it, and on the whole likelihood a log-normal factor (standard deviation of its logarithm 0.3).
The rates fall along a cosine. {seeds} seeds, the same random numbers for all rules; mean ± standard error.

**The rules**, all with the one rate 0.01 where nothing else is said:

- *steady*: g/√v, v ← 0.99 v + 0.01 g². What `tb.parameter_groups` does for SGD.
- *Adam* on δ and γ, with its defaults. What `tb.parameter_groups` comes to under Adam and AdamW.
- *natural gradient*: F⁻¹g/ν, each entry clipped to ±1. F is the Fisher information of (τ, t) in closed form
  (`fisher.py`: F_tt = −½ (L'' − L'ρ''/ρ') with L = ln det T). Once more at 0.02 with a clip at ±10: F_δδ is about
  2K, so this sets out as fast as the others do at 0.01. It was added when the results of the others were known.
- *g/(νK)*; *the sign of g*.
- *the paper's*: raw gradients, the rate of the means for δ and κ = 50 times it for γ.

This is a made-up problem with a known answer, not a network.
"""


def document(results: Results) -> str:
    """docs/steps.md."""
    parts = [
        INTRODUCTION.format(
            file=results.path.name,
            largest=power(results.largest),
            noise=NOISES[0],
            seeds=results.content["seeds"],
        ),
        verdict(results),
        "![τ/τ* over K](images/steps.svg)\n",
        "τ over its best value, tridiagonal, means by SGD at 0.01; mean over the seeds.\n",
        "## Against steady\n\n" + _AGAINST.format(count=54, chance=54 * 0.05) + against(results),
        "## The closest, with fresh seeds\n\n" + _FRESH.format(seeds=len(FRESH)) + with_fresh_seeds(results),
        "## |ln τ/τ*|, tridiagonal\n\nMeans by SGD with momentum 0.9 at 0.01.\n\n" + by_size(results, "tridiagonal", 0),
        "## |ρ − ρ*|\n\nThe same trainings. A ρ that stays at 0 has 0.2.\n\n" + by_size(results, "tridiagonal", 1),
        "## |ln τ/τ*|, diagonal\n\n" + by_size(results, "diagonal", 0),
        "## Optimizers and rates of the means\n\n" + _OPTIMIZERS + by_optimizer(results),
        "## A tenfold rate\n\n" + _TENFOLD + by_rate(results),
        "## Ten times the noise\n\n" + _NOISY + by_size(results, "tridiagonal", 0, NOISES[1]),
        "And |ρ − ρ*|:\n\n" + by_size(results, "tridiagonal", 1, NOISES[1]),
        _cost(results),
    ]
    return "\n".join(parts)


_AGAINST = """\
Error of a rule minus that of steady, each the mean over the sizes that were run for so many steps; paired over the
seeds, with a 95 % t-interval. Three seeds make wide intervals, and of {count} about {chance:.0f} would exclude zero by
chance.

"""
_FRESH = """\
Where three seeds cannot tell, the product's two and the natural gradient at 0.02 were run on small tensors with {seeds}
fresh seeds: error minus that of steady, paired, with a 95 % t-interval. Tridiagonal, means by SGD at 0.01.

"""
_OPTIMIZERS = """\
After 3,000 steps, tridiagonal, the mean over K = 10 … 10⁴. Under SGD the means hardly move here, so their rate matters
to the paper's rule alone. AdamW decays the means (0.01), which shifts the best τ a little.

"""
_TENFOLD = """\
0.1 instead of 0.01 for δ and γ; means by SGD at 0.01, tridiagonal, the mean over K = 10 … 10⁴.

"""
_NOISY = """\
|ln τ/τ*|, tridiagonal, means by SGD at 0.01, the noise on every weight's gradient 100 times what the draw does to it.

"""


_VERDICT = """\
## Verdict

**No rule beats steady throughout: there is no reason here to leave it.** Means by SGD at 0.01, tridiagonal where
nothing else is said; errors are |ln τ/τ*|:

- Steady and Adam come to the same: {steady_1000} and {adam_1000} after 1,000 steps, {steady_3000} and {adam_3000} after
  3,000, averaged over the sizes. Some of their differences exclude zero below; those after 1,000 steps or more are at
  most {adam_most} in τ and {adam_most_rho} in ρ.
- The paper's rule hardly moves small tensors: {paper_3000} after 3,000 steps, where {start:.3f} is not to have moved.
  After 300 steps the largest tensor has {paper_large}, against {steady_large} for steady.
- The natural gradient at 0.01 is slower ({natural_1000} after 1,000 steps): by its formula it sets out at half the
  speed. At 0.02 with a wide clip it is the one serious rival. With {seeds} fresh seeds on small tensors, {cases} cases:

{counts}
    All that is better is so after 300 or 1,000 steps, for τ mostly in the larger noise, for ρ mostly in the smaller.
    Some of it may be speed alone: steady gains more by a larger rate (below). After 3,000 steps nothing is better, and
    in the larger noise the ρ of the smallest tensor is clearly worse. The rule also needs ν and K, which the hook on
    the optimizer's step does not know. Its rate and clip are one guess, made after a first look at the three seeds; in
    all the natural gradient had three settings (0.01 and 0.1 clipped at ±1, and this one), steady two (0.01 and 0.1).

- g/(νK) serves τ and leaves ρ behind (F_γγ is about K/16). Signs are about as fast as steady, but they seek the median
  of the gradient and not its mean. Of the log-normal factor the median is 0.956, which puts τ at 1.021 τ\\*; at 10⁴
  weights after 3,000 steps they are at {sign_ratio} τ\\*, and steady at {steady_ratio} τ\\*.
- **The rate matters more than the rule.** After 300 steps no rule has arrived at 0.01 (steady: {short}), and at 0.1
  steady has ({short_fast}); after 3,000 steps 0.1 is a little less exact ({long_fast} against {long}; K up to 10⁴). For
  a training of a few hundred steps a larger `scale_lr` is worth trying.
- With ten times the noise τ of a tensor of 10 weights is found only roughly: after 3,000 steps the best of the rules
  has {noisy}, steady {noisy_steady}.

Not covered: a start above τ\\*, other τ\\* and ρ\\*, means that still have far to go, and noise that weights share
beyond the one factor. Whether any of this shows in the accuracy of a network was not looked at.
"""


def verdict(results: Results) -> str:
    """What the tables come to, with their figures."""

    def tau(rule: str, steps: int, rate: float | None = None, largest: int | None = None) -> str:
        arm = default_arm(rule) if rate is None else Arm(rule, "SGD", 1e-2, rate)
        return mean_text(over_sizes(results, "tridiagonal", steps, NOISES[0], arm, 0, largest))

    def alone(rule: str, family: str, size: int, steps: int, noise: float = NOISES[0]) -> str:
        found = measured(results, Unit(family, size, steps, noise), default_arm(rule))
        return mean_text(found[0] if found else None)

    def ratio(rule: str) -> str:
        found = results.find(Unit("tridiagonal", FULL, STEPS[-1], NOISES[0]), default_arm(rule))
        return f"{statistics.fmean(found['tau']) / TAU:.3f}" if found else "–"

    figures = {f"{rule}_{steps}": tau(rule, steps) for rule in TITLES for steps in STEPS}
    words = [counted(results, "natural_wide", which) for which in (0, 1)]
    rows = [[name, *map(str, found.values())] for name, found in zip((LN_TAU, DISTANCE), words, strict=True)]
    late = [clear_differences(results, "adam", which, STEPS[1:]) for which in (0, 1)]
    return _VERDICT.format(
        **figures,
        start=math.log(TAU / FIRST_TAU),
        paper_large=alone("paper", "tridiagonal", results.largest, STEPS[0]),
        steady_large=alone("steady", "tridiagonal", results.largest, STEPS[0]),
        seeds=len(FRESH),
        cases=sum(words[0].values()),
        counts=indented(markdown_table(["natural 0.02", *words[0]], rows)),
        adam_most=f"{max(abs(one.mean) for one in late[0]):.3f}",
        adam_most_rho=f"{max(abs(one.mean) for one in late[1]):.3f}",
        sign_ratio=ratio("sign"),
        steady_ratio=ratio("steady"),
        short=tau(BASE, STEPS[0], RATE, FULL),
        short_fast=tau(BASE, STEPS[0], 10 * RATE, FULL),
        long=tau(BASE, STEPS[-1], RATE, FULL),
        long_fast=tau(BASE, STEPS[-1], 10 * RATE, FULL),
        noisy_steady=alone(BASE, "tridiagonal", SMALLEST, STEPS[-1], NOISES[1]),
        noisy=min(alone(rule, "tridiagonal", SMALLEST, STEPS[-1], NOISES[1]) for rule in TITLES),
    )


def indented(table: str) -> str:
    """As part of a list: by four blanks, which all readers of Markdown take for that."""
    return "".join(f"    {line}\n" for line in table.splitlines())


def clear_differences(results: Results, rule: str, which: int, steps: Sequence[int]) -> list[Difference]:
    """Those from steady that exclude zero, with the first seeds and with fresh ones; zero if there are none."""
    found = [
        one for count in steps for place, one in enumerate(differences(results, count, rule)) if place % 2 == which
    ]
    for unit in fresh_units(results.largest):
        one, base = (measured(results, unit, default_arm(name)) for name in (rule, BASE))
        if one and base and unit.steps in steps:
            found.append(difference(one[which], base[which]))
    return [one for one in found if one.clear] or [Difference(0.0, 0.0, 0.0, 0)]


def mean_text(values: Sequence[float] | None) -> str:
    return f"{statistics.fmean(values):.3f}" if values else "–"


def counted(results: Results, rule: str, which: int) -> Counter[str]:
    """In how many of the cases with fresh seeds a rule is better than steady, worse, or neither."""
    words = Counter({"better": 0, "worse": 0, "within error": 0})
    for unit in fresh_units(results.largest):
        one, base = (measured(results, unit, default_arm(name)) for name in (rule, BASE))
        if one and base:
            words[difference_word(difference(one[which], base[which]))] += 1
    return words


def against(results: Results) -> str:
    """Paired differences from steady, and in words whether they exclude zero."""
    rows = []
    for steps in STEPS:
        for rule, title in TITLES.items():
            if rule == BASE:
                continue
            texts_of_rule = [difference_text(found) for found in differences(results, steps, rule)]
            rows.append([f"{steps:,}", title, *texts_of_rule])
    return markdown_table(
        ["steps", "rule", "\\|ln τ/τ*\\|, tridiagonal", "\\|ρ − ρ*\\|", "\\|ln τ/τ*\\|, diagonal"], rows
    )


def differences(results: Results, steps: int, rule: str) -> list[Difference]:
    """From steady: of ln τ and ρ in the tridiagonal family, and of ln τ in the diagonal one."""
    found = []
    for family, which in (("tridiagonal", 0), ("tridiagonal", 1), ("diagonal", 0)):
        both = [over_sizes(results, family, steps, NOISES[0], default_arm(one), which) for one in (rule, BASE)]
        if both[0] and both[1]:
            found.append(difference(both[0], both[1]))
    return found


def difference_text(found: Difference) -> str:
    """
    >>> difference_text(Difference(-0.1, -0.2, 0.05, 3))
    '−0.100 (−0.200 to +0.050), within error'
    """
    return minus(f"{found.mean:+.3f} ({found.lower:+.3f} to {found.upper:+.3f}), {difference_word(found)}")


def difference_word(found: Difference) -> str:
    """Of errors, where less is better."""
    return "within error" if not found.clear else "better" if found.mean < 0 else "worse"


def with_fresh_seeds(results: Results) -> str:
    """Errors of steady, and the others' differences from it, for every size, number of steps and noise."""
    rows = []
    for unit in fresh_units(results.largest):
        found = {rule: measured(results, unit, default_arm(rule)) for rule in CLOSEST}
        base = found[BASE]
        if base is None:
            continue
        others = [one for rule, one in found.items() if rule != BASE and one]
        cells = [[cell(base[i]), *(difference_text(difference(one[i], base[i])) for one in others)] for i in (0, 1)]
        rows.append([f"{unit.noise:g}", f"{unit.steps:,}", power(unit.size), *cells[0], *cells[1]])
    titles = [f"{name}, {what}" for name in (LN_TAU, DISTANCE) for what in ("steady", "Adam", "natural 0.02")]
    return markdown_table(["noise", "steps", "K", *titles], rows)


def by_optimizer(results: Results) -> str:
    """Both errors after the longest training for every optimizer of the means and its rate."""
    rows = []
    for optimizer in ("SGD", "Adam", "AdamW"):
        for rule, title in TITLES.items():
            arms = [Arm(rule, optimizer, lr) for lr in MEAN_RATES]
            found = [over_sizes(results, "tridiagonal", STEPS[-1], NOISES[0], arm, i) for i in (0, 1) for arm in arms]
            if any(found):
                rows.append([optimizer, title, *map(cell, found)])
    header = [f"{name}, lr {lr:g}" for name in ("\\|ln τ/τ*\\|", "\\|ρ − ρ*\\|") for lr in MEAN_RATES]
    return markdown_table(["means by", "rule", *header], rows)


def by_rate(results: Results) -> str:
    """Both errors at the default rate of δ and γ and at ten times it, over the sizes that have both."""
    rows = []
    for steps in STEPS:
        for rule, title in TITLES.items():
            if rule in ("paper", "natural_wide"):
                continue
            found = []
            for which in (0, 1):
                for rate in (RATE, 10 * RATE):
                    arm = Arm(rule, "SGD", 1e-2, rate)
                    found.append(over_sizes(results, "tridiagonal", steps, NOISES[0], arm, which, largest=FULL))
            rows.append([f"{steps:,}", title, *map(cell, found)])
    header = [f"{name}, {rate:g}" for name in ("\\|ln τ/τ*\\|", "\\|ρ − ρ*\\|") for rate in (RATE, 10 * RATE)]
    return markdown_table(["steps", "rule", *header], rows)


def _cost(results: Results) -> str:
    return f"""\
## Made with

{results.content["machine"]}; {results.seconds() / 60:.0f} minutes in all. To keep it at that, the whole grid was run
up to 10⁴ weights; 10⁵ with one rate of the means and up to 1,000 steps, 10⁶ with SGD alone, the tridiagonal family and
300 steps ("–" elsewhere). 10⁷ (`--largest 10000000 --device cuda --results FILE`) was not run. Every τ and ρ:
`benchmarks/results/{results.path.name}`.
"""


def measured(results: Results, unit: Unit, arm: Arm) -> tuple[list[float], list[float]] | None:
    """(|ln τ/τ*|, |ρ − ρ*|) of each seed."""
    found = results.find(unit, arm)
    return errors(found, RHO if unit.family == "tridiagonal" else 0.0) if found else None


def over_sizes(
    results: Results, family: str, steps: int, noise: float, arm: Arm, which: int, largest: int | None = None
) -> list[float] | None:
    """For each seed the mean of an error over the sizes that ran for so many steps."""
    sizes = sizes_to(largest or results.largest)
    rows = [measured(results, Unit(family, size, steps, noise), arm) for size in sizes]
    columns = [row[which] for row in rows if row]
    return [statistics.fmean(column) for column in zip(*columns, strict=True)] if columns else None


def difference(one: Sequence[float], other: Sequence[float]) -> Difference:
    return paired_difference(dict(enumerate(one)), dict(enumerate(other)))


def cell(values: Sequence[float] | None) -> str:
    """Mean ± standard error over the seeds; − where it was not run."""
    if not values:
        return "–"
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):.3f} ± {error:.3f}"


def by_size(results: Results, family: str, which: int, noise: float = NOISES[0]) -> str:
    """A table of errors, a row for each rule and number of steps, a column for each size; SGD at 0.01."""
    stored = results.content["units"]
    ran = {size for size in sizes_to(results.largest) if Unit(family, size, STEPS[0], noise).name in stored}
    sizes = sorted(ran)
    rows = []
    for steps in STEPS:
        for rule, title in TITLES.items():
            found = [measured(results, Unit(family, size, steps, noise), default_arm(rule)) for size in sizes]
            rows.append([f"{steps:,}", title, *(cell(one[which] if one else None) for one in found)])
    return markdown_table(["steps", "rule", *(f"K = {power(size)}" for size in sizes)], rows)


def power(size: int) -> str:
    """
    >>> [power(10), power(1_000_000)]
    ['10', '10⁶']
    """
    exponent = round(math.log10(size))
    return "10" if exponent == 1 else "10" + "⁰¹²³⁴⁵⁶⁷⁸⁹"[exponent]
