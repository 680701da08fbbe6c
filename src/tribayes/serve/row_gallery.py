"""A table's test rows, the telling ones first."""

from __future__ import annotations

import torch
from pydantic import BaseModel
from torch import Tensor

from tribayes._text import to_digits
from tribayes.own.own_run import LEVEL
from tribayes.prediction import ClassPredictive, RegressionPredictive
from tribayes.runs.evaluation import LEVELS
from tribayes.serve.gallery import Looking, Wanted
from tribayes.serve.refused import Refused
from tribayes.serve.table import TableSubject

_AT_ONCE = 32  # so that visitors' questions come in between


class TestRow(BaseModel):
    """A row that was not learned from."""

    number: int
    true: str | float
    row: dict[str, float | str | None]


class ShownRow(TestRow):
    """A test row, and what was said of it."""

    predicted: str | float
    probability: float | None = None
    interval: tuple[float, float] | None = None
    certain: bool


class RowGallery(Looking):
    """The answers to a table's test rows. Of values, those are wrong whose truth lies outside their 95 % interval."""

    def __init__(self, subject: TableSubject) -> None:
        super().__init__(subject, subject.rows, _AT_ONCE, subject.predictive)
        self._table = subject

    def chosen(self, wanted: Wanted) -> list[int]:
        """The numbers of all rows of the kind, the most telling first."""
        pred = self.whole
        if isinstance(pred, ClassPredictive):
            return wanted.chosen(pred, self._truth, self._table.classes)
        return self._chosen_values(pred, wanted)

    def show(self, numbers: list[int]) -> list[ShownRow]:
        """The rows of these numbers, and what was said of them."""
        pred = self.whole
        if isinstance(pred, ClassPredictive):
            return [self._class_row(pred, number) for number in numbers]
        return [self._value_row(pred, number) for number in numbers]

    @property
    def _truth(self) -> Tensor:
        return self._table.truth[: self.size]

    def _chosen_values(self, pred: RegressionPredictive, wanted: Wanted) -> list[int]:
        if wanted.true is not None or wanted.predicted is not None:
            raise Refused(422, "`true` and `predicted` are classes, but this run is of values; leave them out.")
        lower, upper = (bound[:, 0] for bound in pred.observation_interval(LEVEL))
        truth, std = self._truth[:, 0], pred.std[:, 0]
        certain, wrong = std <= self._table.run.widths.usual, (truth < lower) | (truth > upper)
        kinds = {"confidently wrong": certain & wrong, "wrong": wrong, "quite certain": certain}
        keys = {"most uncertain": -std, "quite certain": std, "all": torch.arange(self.size)}
        key = keys.get(wanted.kind, -(truth - pred.mean[:, 0]).abs() / std)
        numbers = kinds.get(wanted.kind, torch.ones_like(wrong)).nonzero().flatten()
        found: list[int] = numbers[key[numbers].argsort(stable=True)].tolist()
        return found

    def _class_row(self, pred: ClassPredictive, number: int) -> ShownRow:
        return ShownRow(
            **dict(row_of(self._table, number)),
            predicted=self._table.classes[int(pred.label[number])],
            probability=round(float(pred.confidence[number]), 4),
            certain=bool(pred.certain(LEVELS[0])[number]),
        )

    def _value_row(self, pred: RegressionPredictive, number: int) -> ShownRow:
        lower, upper = pred.observation_interval(LEVEL)
        predicted, *bounds = (_plain(each[number, 0], self._table) for each in (pred.mean, lower, upper))
        return ShownRow(
            **dict(row_of(self._table, number)),
            predicted=predicted,
            interval=(bounds[0], bounds[1]),
            certain=bool(pred.std[number, 0] <= self._table.run.widths.usual),
        )


def row_of(subject: TableSubject, number: int) -> TestRow:
    """The test row of a number."""
    if not 0 <= number < len(subject.rows):
        raise Refused(404, f"`number` (={number}) must be below {len(subject.rows):,}; choose another test row.")
    truth = subject.truth[number]
    true = subject.classes[int(truth)] if subject.classes else _plain(truth, subject)
    return TestRow(number=number, true=true, row=subject.schema.decode(subject.rows[number : number + 1])[0])


def _plain(value: Tensor, subject: TableSubject) -> float:
    return float(to_digits(float(value), 6, subject.target.std))
