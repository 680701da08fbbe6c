"""README's part, in sentences: the test errors beside the paper's, and what a reader of them has to know."""

from __future__ import annotations

from reproduction.pages.differences import foreign_sentence, score_sentence
from reproduction.pages.tables import NETWORKS
from reproduction.paper import printed
from reproduction.results.over_seeds import percent
from reproduction.results.quantities import score
from reproduction.results.result_files import Results


def readme_block(results: Results) -> str:
    """Some sentences; the table of all families is the page's."""
    if not any(results):
        return "No results are stored yet; `python -m reproduction reproduce all` makes them.\n"
    return "\n\n".join([_errors(results), score_sentence(results), foreign_sentence(results)]) + "\n"


def _errors(results: Results) -> str:
    """Of the networks that the paper has."""
    error = score("error")
    found = [
        f"{title} {percent(results.spread(name, error))} "
        f"(plain {percent(results.spread(f'{name}-frequentist', error))}, the paper's {percent(printed.ERRORS[name])})"
        for title, name in NETWORKS.items()
        if name in printed.ERRORS
    ]
    return f"Test errors of the correlated networks: {'; '.join(found)}."
