"""The tables that every data set has, scores, posterior, certain and uncertain, and the errors of all."""

from __future__ import annotations

from collections.abc import Sequence

from pages.markdown import markdown_table
from reproduction.pages.rows import Row
from reproduction.paper import printed
from reproduction.results.over_seeds import NOT_RUN, counted, number, percent
from reproduction.results.quantities import count, foreign, posterior, score
from reproduction.results.result_files import Results
from tribayes.prediction.summary import Counts

LEVELS = ("0.95", "0.99")
KINDS = tuple(Counts.__dataclass_fields__)

NETWORKS = {  # title → the experiment with the correlated model
    "MNIST, LeNet-100": "mnist-lenet100",
    "MNIST, LeNet-250": "mnist-lenet250",
    "CIFAR-10, paper's setting": "cifar10",
    "CIFAR-10, ours": "cifar10-ours",
    "Fashion-MNIST, LeNet-100": "fashion-lenet100",
}


def score_table(results: Results, rows: Sequence[Row]) -> str:
    """Test error beside the paper's, and what the paper lacks."""
    with_paper = any(row.experiment in printed.ERRORS for row in rows)
    header = ["model", *(["paper's error"] if with_paper else []), "error", "error at the means"]
    body = []
    for title, name in rows:
        theirs = [percent(printed.ERRORS[name]) if name in printed.ERRORS else "-"] if with_paper else []
        has_means = not name.endswith("-frequentist")
        body.append(
            [
                title,
                *theirs,
                percent(results.spread(name, score("error"))),
                percent(results.spread(name, score("mean_network_error"))) if has_means else "-",
                number(results.spread(name, score("nll"))),
                number(results.spread(name, score("brier"))),
                percent(results.spread(name, score("ece"))),
                number(results.spread(name, score("auroc_errors"))),
                seeds(len(results.runs(name))),
            ]
        )
    return markdown_table([*header, "NLL", "Brier", "ECE", "AUROC of errors", "seeds"], body)


def posterior_table(results: Results, experiment: str) -> str:
    """τ and ρ of weights and biases by layer, each as in the paper and as found here."""
    header = ["layer"]
    for symbol in ("τ_j", "τ_bj", "ρ_j", "ρ_bj"):
        header += [f"{symbol} paper", f"{symbol} ours"]
    body = []
    for layer in printed.POSTERIORS[experiment]:
        cells = []
        for theirs, tensor, parameter in (
            (layer.tau, "weight", "tau"),
            (layer.bias_tau, "bias", "tau"),
            (layer.rho, "weight", "rho"),
            (layer.bias_rho, "bias", "rho"),
        ):
            ours = results.spread(experiment, posterior(f"{layer.name}.{tensor}", parameter))
            cells += [number(theirs, 2), number(ours, 2)]
        body.append([layer.title, *cells])
    return markdown_table(header, body)


def scale_table(results: Results, experiment: str, rows: Sequence[Row]) -> str:
    """τ of weights and biases of the models whose ρ is 0."""
    body = []
    for title, name in rows:
        for symbol, tensor in (("τ_j", "weight"), ("τ_bj", "bias")):
            figures = [
                number(results.spread(name, posterior(f"{layer.name}.{tensor}", "tau")), 2)
                for layer in printed.POSTERIORS[experiment]
            ]
            body.append([title, symbol, *figures])
    return markdown_table(["model", "", *(layer.title for layer in printed.POSTERIORS[experiment])], body)


def certain_table(results: Results, rows: Sequence[Row]) -> str:
    """Correct and wrong, certain and uncertain, at both levels; the paper's counts above ours."""
    body = []
    for level in LEVELS:
        for title, name in rows:
            theirs = printed.CERTAIN.get(name, {}).get(level)
            if theirs:
                body.append([_level(level), f"*paper: {title}*", *(counted(getattr(theirs, kind)) for kind in KINDS)])
            body.append([_level(level), title, *(counted(results.spread(name, count(level, kind))) for kind in KINDS)])
    return markdown_table(["level", "model", *(kind.replace("_", ", ") for kind in KINDS)], body)


def foreign_table(results: Results, rows: Sequence[Row]) -> str:
    """What networks that know one kind of image say to another."""
    body = []
    for title, name in rows:
        bayesian = not name.endswith("-frequentist")
        information = number(results.spread(name, foreign("auroc_mutual_information"))) if bayesian else "-"
        shares = [
            percent(results.spread(name, foreign(kind, level)), 1) if bayesian else "-"
            for level in LEVELS
            for kind in ("certain_outside", "certain_inside")
        ]
        entropy = number(results.spread(name, foreign("auroc_entropy")))
        body.append([title, entropy, information, *shares, seeds(len(results.runs(name)))])
    header = ["model", "AUROC by entropy", "AUROC by mutual information"]
    for level in LEVELS:
        header += [f"foreign called quite certain, {_level(level)}", f"own called quite certain, {_level(level)}"]
    return markdown_table([*header, "seeds"], body)


def _level(level: str) -> str:
    return f"{100 * float(level):g} %"


def error_table(results: Results) -> str:
    """The paper's test errors, and ours of every family by the same setting."""
    rows = []
    for title, ours in NETWORKS.items():
        names = (f"{ours}-frequentist", ours, f"{ours}-diagonal", f"{ours}-meanfield")
        theirs = (percent(printed.ERRORS[name]) if name in printed.ERRORS else "-" for name in names[:2])
        found = [percent(results.spread(name, score("error"))) for name in names]
        rows.append([title, *theirs, found[0], _bold(found[1]), *found[2:]])
    header = ["test error", "paper, frequentist", "paper, Bayesian", "frequentist", "**tribayes**", "diagonal"]
    return markdown_table([*header, "mean field"], rows)


def _bold(text: str) -> str:
    return text if text == NOT_RUN else f"**{text}**"


def seeds(runs: int) -> str:
    """How many seeds stand behind a row."""
    return str(runs) if runs else "-"
