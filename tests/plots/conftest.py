"""Figures without windows, closed after each test."""

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _figures_are_closed() -> Iterator[None]:
    from matplotlib import pyplot

    yield
    pyplot.close("all")
