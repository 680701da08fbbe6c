"""docs/uci.md from the results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.modern.figures import LEVEL, paired_difference, student_quantile
from benchmarks.uci.recipe import FAMILIES, SAMPLED_NETWORKS, SETS, Recipe
from benchmarks.uci.results import RESULTS, Measurement, Results, finalists, planned_tests


@dataclass(frozen=True)
class Published:
    """Mean ± standard error on the 20 splits, by others: (mean, error) of each set."""

    title: str
    rmse: Mapping[str, tuple[float, float]]
    log_likelihood: Mapping[str, tuple[float, float]]


TEST_ROWS = "test rows"  # how the results file marks an early trial on them

VARIATIONAL = Published(
    "VI [1, 2]",
    {"concrete": (7.19, 0.12), "energy": (2.65, 0.08), "yacht": (6.89, 0.67)},
    {"concrete": (-3.39, 0.02), "energy": (-2.39, 0.03), "yacht": (-3.43, 0.16)},
)
BACKPROPAGATION = Published(
    "PBP [1]",
    {"concrete": (5.67, 0.09), "energy": (1.80, 0.05), "yacht": (1.02, 0.05)},
    {"concrete": (-3.16, 0.02), "energy": (-2.04, 0.02), "yacht": (-1.63, 0.02)},
)
DROPOUT = Published(
    "dropout [3]",
    {"concrete": (5.23, 0.12), "energy": (1.66, 0.04), "yacht": (1.11, 0.09)},
    {"concrete": (-3.04, 0.02), "energy": (-1.99, 0.02), "yacht": (-1.55, 0.03)},
)
DROPOUT_TUNED = Published(
    "dropout, 10 × epochs, tuned per split [4]",
    {"concrete": (4.82, 0.16), "energy": (0.54, 0.06), "yacht": (0.67, 0.05)},
    {"concrete": (-2.93, 0.02), "energy": (-1.21, 0.01), "yacht": (-1.25, 0.01)},
)
PUBLISHED = (VARIATIONAL, BACKPROPAGATION, DROPOUT, DROPOUT_TUNED)

INTRODUCTION = """\
# UCI regression

<!-- Made by `python -m benchmarks.uci --table` from benchmarks/results/uci.json. Not to be edited by hand. -->

Concrete, energy and yacht on the fixed {splits} splits of Hernández-Lobato & Adams [1]: one hidden layer of 50 ReLUs,
inputs and target standardised on the training rows, a Gaussian likelihood with a learned noise, {networks} sampled
networks to predict. Figures are in the units of the data, mean ± standard error over the splits.
The figures of others are quoted, not measured here.
"""

REFERENCES = """\
## References

1. J. M. Hernández-Lobato and R. P. Adams, *Probabilistic Backpropagation for Scalable Learning of Bayesian Neural
   Networks*, ICML 2015, arXiv:1502.05336. PBP, and the variational inference of [2] run on these splits.
2. A. Graves, *Practical Variational Inference for Neural Networks*, NIPS 2011.
3. Y. Gal and Z. Ghahramani, *Dropout as a Bayesian Approximation: Representing Model Uncertainty in Deep Learning*,
   ICML 2016, arXiv:1506.02142, Table 1 (which reprints VI and PBP). Its ± are standard deviations; the standard
   errors here are those of the readme of [4], columns "original".
4. The repository yaringal/DropoutUncertaintyExps, readme, "Grid Search (new)": ten times the epochs, dropout rate and
   precision chosen anew on each split.
"""


def document(results: Results) -> str:
    """docs/uci.md from the results."""
    chosen = {name: results.tested(name, "tridiagonal", results.best(name, "tridiagonal")) for name in SETS}
    splits = min(len(one.figures) for one in chosen.values())
    parts = [
        INTRODUCTION.format(splits=splits, networks=SAMPLED_NETWORKS),
        "## Test root mean square error (smaller is better)\n\n" + _beside_published(chosen, "rmse"),
        "## Test log-likelihood, nats (larger is better)\n\n" + _beside_published(chosen, "log_likelihood"),
        _verdict(chosen),
        _caveats(results, chosen),
        _families(results),
        _choice(results, chosen),
        _cost(results),
        REFERENCES,
    ]
    return "\n".join(parts)


def _beside_published(chosen: Mapping[str, Measurement], name: str) -> str:
    header = ["set", "tribayes, tridiagonal", *(one.title for one in PUBLISHED)]
    rows = []
    for data_set, ours in chosen.items():
        theirs = [_plus_minus(*getattr(one, name)[data_set]) for one in PUBLISHED]
        rows.append([data_set, f"**{figure_text(ours, name)}**", *theirs])
    return _table(header, rows)


def _verdict(chosen: Mapping[str, Measurement]) -> str:
    """Ours beside what others published, of which only means and errors are known: no splits to pair with."""
    lines = []
    for rival, what in ((DROPOUT, "The target, dropout of [3]"), (DROPOUT_TUNED, "Dropout of [4]")):
        found = [_beside(ours, *rival.log_likelihood[name]) for name, ours in chosen.items()]
        lines.append(f"- {what}: {'; '.join(f'{name} {one}' for name, one in zip(chosen, found, strict=True))}.")
    lines.append(
        "\nThese are log-likelihoods in nats, ours minus theirs ± the standard error of the difference; better or worse"
        " only beyond its 95 % t-interval. Of the others only means are known, so that splits cannot be paired."
    )
    weights = ", ".join(f"{name} {ours.recipe.kl_weight:g}" for name, ours in chosen.items())
    lines.append(
        f"\nThe KL weight is not 1 but chosen below: {weights}. So these are tempered posteriors, as in the paper "
        "(which uses 0.01 and 0.1), and not the evidence lower bound. The learned noise is widened by a factor chosen "
        "in the same way: " + ", ".join(f"{name} {ours.recipe.noise_factor:g}" for name, ours in chosen.items()) + "."
    )
    return "\n".join(lines) + "\n"


def _beside(ours: Measurement, mean: float, error: float) -> str:
    """The difference to a published mean ± error, and whether it is beyond chance."""
    count = len(ours.figures)
    gap, spread = ours.mean("log_likelihood") - mean, math.hypot(ours.standard_error("log_likelihood"), error)
    clear = count > 1 and abs(gap) > student_quantile(LEVEL, count - 1) * spread
    word = ("better" if gap > 0 else "worse") if clear else "within error"
    return f"{_signed(round(gap, 2) + 0.0)} ± {spread:.2f}, {word}"


def _caveats(results: Results, chosen: Mapping[str, Measurement]) -> str:
    """What a reader should hold against the verdict, with the figures it rests on."""
    exact = ", ".join(f"{name} {_number(ours.mean('log_likelihood'), 4)}" for name, ours in chosen.items())
    lines = [f"To four decimals ours are {exact}."]
    before = [one for one in results.exploration if one["rows"] == TEST_ROWS and one["family"] == "tridiagonal"]
    if before:
        figures = ", ".join(f"{one['data_set']} {_number(one['log_likelihood'])}" for one in before)
        lines.append(
            f"These are not a first look: recipes chosen without a factor on the noise gave {figures} on the test "
            "rows, and the factor was added to what validation chooses among after that was seen (last section)."
        )
    gains = "; ".join(f"{name} {_paired(ours, _twin(results, ours))}" for name, ours in chosen.items())
    lines.append(
        "Log-likelihood of tridiagonal minus diagonal, same recipe, paired over the splits, with a 95 % t-interval: "
        f"{gains}."
    )
    return " ".join(lines) + "\n"


def _twin(results: Results, ours: Measurement) -> Measurement:
    """The diagonal family with the same recipe."""
    return results.tested(ours.data_set, "diagonal", ours.recipe)


def _paired(one: Measurement, other: Measurement) -> str:
    ours, theirs = (dict(enumerate(each.values("log_likelihood"))) for each in (one, other))
    found = paired_difference(ours, theirs)
    word = ("better" if found.mean > 0 else "worse") if found.clear else "within error"
    return f"{_signed(found.mean)} ({_signed(found.lower)} to {_signed(found.upper)}), {word}"


def _families(results: Results) -> str:
    rows = []
    for data_set, family, recipe in planned_tests(results, SETS):
        one = results.tested(data_set, family, recipe)
        marks = [name for name in ("tridiagonal", family) if results.best(data_set, name) == recipe]
        rows.append(
            [
                data_set,
                family,
                " and ".join(dict.fromkeys(marks)),
                f"{recipe.kl_weight:g}",
                _rows(recipe),
                f"{recipe.noise_factor:g}",
                figure_text(one, "rmse"),
                figure_text(one, "log_likelihood"),
                f"{100 * one.mean('coverage'):.1f} %",
            ]
        )
    header = ["set", "family", "recipe best for", "KL weight", "rows per step", "noise ×", "RMSE", "log-likelihood"]
    return (
        "## Families side by side\n\n"
        "Every family with the recipe chosen for the tridiagonal one and, where that is another, with its own best; "
        "both by validation.\n\n" + _table([*header, "in the 95 % interval"], rows)
    )


def _choice(results: Results, chosen: Mapping[str, Measurement]) -> str:
    common = next(iter(chosen.values())).recipe
    return f"""\
## How the recipe was chosen

On held-out training rows. A fifth of the training rows of each split was held out, networks were trained on the other
four fifths, and for each set and family the recipe with the highest mean log-likelihood on the held-out rows was taken;
then it was trained on all training rows of each of the splits. A row that one split tests is a training row
of most others, so a recipe shared by all splits has seen it as validation data there; only a recipe per split, as [4]
has, would avoid that.

Common to all finalists: Adam, {common.steps} steps, learning rate {common.lr:g} falling to 0 along half a cosine,
prior N(0, {common.hidden_prior:g}²), τ from {common.tau:g}, ρ from 0, noise from {common.noise:g} standard deviations
of the target, {common.samples} draw of the weights per step, no early stopping. Held-out log-likelihood, the best of
each column in bold:

{_validation(results)}
{_exploration(results)}"""


def _validation(results: Results) -> str:
    cases = [(data_set, family) for data_set in SETS for family in FAMILIES]
    tried = {one.key[:3]: one for one in results.validation}
    rows = []
    for recipe in finalists():
        cells = []
        for case in cases:
            text = _number(tried[(*case, recipe)].mean("log_likelihood"))
            cells.append(f"**{text}**" if recipe == results.best(*case) else text)
        rows.append([f"{recipe.kl_weight:g}", _rows(recipe), f"{recipe.noise_factor:g}", *cells])
    return _table(["KL weight", "rows per step", "noise ×", *(f"{d}, {f}" for d, f in cases)], rows)


def _exploration(results: Results) -> str:
    if not results.exploration:
        return ""
    first = results.exploration[0]["recipe"]
    header = ["set", "family", "recipe, where it differs from the first", "rows", "RMSE", "log-likelihood", "covered"]
    rows = []
    for one in results.exploration:
        other = {name: value for name, value in one["recipe"].items() if value != first.get(name)}
        figures = [_number(one[name]) for name in ("rmse", "log_likelihood")]
        rows.append(
            [
                one["data_set"],
                one["family"],
                _settings(other) or "-",
                one["rows"],
                *figures,
                f"{100 * one['coverage']:.1f} %",
            ]
        )
    return (
        "### Tried before\n\n"
        "Recipes without a factor on the noise, mean over the splits. The last rows are test figures of the best, seen "
        "before the factor was added: their 95 % intervals covered too little.\n\n"
        f"The first recipe: {_settings(first)} (batch_size=0: all rows).\n\n" + _table(header, rows)
    )


def _settings(recipe: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in recipe.items())


def _cost(results: Results) -> str:
    made = results.made_with
    return (
        "## Made with\n\n"
        f"One thread a job of a shared {made['machine']} CPU, Python {made['python']}, torch {made['torch']}, "
        f"{made['dtype']}. Figures of every split, and seeds: `benchmarks/results/{RESULTS.name}`.\n"
    )


def _rows(recipe: Recipe) -> str:
    return str(recipe.batch_size) if recipe.batch_size else "all"


def figure_text(one: Measurement, name: str) -> str:
    return _plus_minus(one.mean(name), one.standard_error(name))


def _plus_minus(mean: float, error: float) -> str:
    return f"{_number(mean)} ± {error:.2f}"


def _number(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
