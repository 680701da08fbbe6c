"""README's part: the test errors, and what a reader of them has to know."""

from __future__ import annotations

from reproduction.pages.differences import foreign_sentence, score_sentence
from reproduction.pages.gap_to_paper import looks_in_full
from reproduction.pages.tables import error_table
from reproduction.results.result_files import Results


def readme_block(results: Results) -> str:
    """A table and some sentences."""
    if not any(results):
        return "No results are stored yet; `python -m reproduction reproduce all` makes them.\n"
    words = [looks_in_full(results), score_sentence(results), foreign_sentence(results)]
    return error_table(results) + "\n" + "\n\n".join(filter(None, words)) + "\n"
