"""The rows of the page: which experiments stand side by side, and what they are called there."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """An experiment of the catalogue under the name it has on the page."""

    title: str
    experiment: str


def families(experiment: str, title: str = "") -> list[Row]:
    """The four ways to train one network: frequentist, the paper's law, and the two it is compared with."""
    before = f"{title}, " if title else ""
    return [
        Row(f"{before}frequentist", f"{experiment}-frequentist"),
        Row(f"{before}Bayesian (tridiagonal)", experiment),
        Row(f"{before}diagonal", f"{experiment}-diagonal"),
        Row(f"{before}mean field", f"{experiment}-meanfield"),
    ]


def bayesian(rows: list[Row]) -> list[Row]:
    """Those with a posterior."""
    return [row for row in rows if not row.experiment.endswith("-frequentist")]


LENET_100 = families("mnist-lenet100", "LeNet-100")
LENET_250 = families("mnist-lenet250", "LeNet-250")
FASHION = families("fashion-lenet100", "LeNet-100")
DIGITS = families("digits")
CIFAR = [
    Row("frequentist", "cifar10-frequentist"),
    Row("Bayesian (tridiagonal), paper's setting", "cifar10"),
    Row("Bayesian (tridiagonal), ours", "cifar10-ours"),
    Row("diagonal, paper's setting", "cifar10-diagonal"),
    Row("mean field, paper's setting", "cifar10-meanfield"),
]
