"""README's table, between two marks."""

from __future__ import annotations

from tribayes._errors import refusal
from tribayes.experiments import paper
from tribayes.experiments.document.markdown import table
from tribayes.experiments.figures import score
from tribayes.experiments.numbers import NOT_RUN, percent
from tribayes.experiments.results import Results

_ROWS = {
    "MNIST, LeNet-100": ("mnist-lenet100", "mnist-lenet100"),
    "MNIST, LeNet-250": ("mnist-lenet250", "mnist-lenet250"),
    "CIFAR-10, paper's setting": ("cifar10", "cifar10"),
    "CIFAR-10, ours": ("cifar10-ours", "cifar10"),
    "Fashion-MNIST, LeNet-100": ("fashion-lenet100", "fashion-lenet100"),
}


def readme_block(results: Results) -> str:
    """Test errors: the paper's, and ours of every family."""
    if not any(results):
        return "No results are stored yet; `tribayes reproduce all` makes them.\n"
    rows = []
    for title, (ours, group) in _ROWS.items():
        printed = (
            percent(paper.ERRORS[name]) if name in paper.ERRORS else "-" for name in (f"{group}-frequentist", group)
        )
        names = (f"{group}-frequentist", ours, f"{group}-diagonal", f"{group}-meanfield")
        found = [percent(results.spread(name, score("error"))) for name in names]
        rows.append([title, *printed, found[0], _bold(found[1]), *found[2:]])
    header = ["test error", "paper, frequentist", "paper, Bayesian", "frequentist", "**tribayes**", "diagonal"]
    return table([*header, "mean field"], rows)


def _bold(text: str) -> str:
    return text if text == NOT_RUN else f"**{text}**"


def replaced(readme: str, block: str, name: str = "results") -> str:
    """The README with this block between the marks of that name."""
    start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    if readme.count(start) != 1 or readme.count(end) != 1 or readme.index(start) > readme.index(end):
        raise refusal("README.md", f"{start} … {end}", "hold both marks once, in this order", "put them back")
    before, rest = readme.split(start)
    return f"{before}{start}\n{block}{end}{rest.split(end)[1]}"
