"""The run that is asked about rows of a table: its networks, its columns as a form, and its test rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from tribayes._text import to_digits
from tribayes.own.columns import NUMBER
from tribayes.own.own_run import OwnRun, in_units_of
from tribayes.own.schema import Column, Schema
from tribayes.own.table_file import pandas
from tribayes.prediction import ClassPredictive, RegressionPredictive
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import Kept
from tribayes.runs.evaluation import seed_of_answers
from tribayes.serve.networks import CORRELATED, Networks
from tribayes.serve.refused import Refused

_CPU = torch.device("cpu")

Cell = Annotated[float, Field(allow_inf_nan=False)] | Annotated[str, Field(max_length=1000)] | bool | None


class Row(BaseModel):
    """A row of the table without its target: a number, a word or null, where it is not known, for every column."""

    model_config = ConfigDict(extra="forbid")

    row: Annotated[dict[str, Cell], Field(max_length=10_000)]


class TableSubject(Networks):
    """A finished run on a table. `rows` (N, width) are its test rows as the network takes them, `truth` their targets.

    The networks that answer are those of `tribayes predict`.
    """

    kind = "table"

    def __init__(self, run: OwnRun, samples: int = 200, network: str | None = None) -> None:
        self.run, self.target = run, run.form.target
        super().__init__(
            run.network(_CPU, network), run.setting.family == "tridiagonal", samples, seed_of_answers(run.seed)
        )
        assert isinstance(run.form.inputs, Schema)
        self.schema, self.data, self.classes = run.form.inputs, Path(run.setting.data).name, self.target.classes
        test = run.part("test", _CPU)
        assert isinstance(test.inputs, Tensor)
        self.rows, self.truth = test.inputs, in_units_of(test.targets, run.form)
        self._noise = 0.0

    def draw(self) -> None:
        """Draw the networks."""
        self.draw_for(self.rows[:1])
        if not self.classes:
            self._noise = float(self._ensembles[CORRELATED].predict(self.rows[:1]).noise) * self.target.std

    def ask(self, network: str, rows: Tensor) -> Tensor:
        """(S, N, outputs): what every sampled network says, in the units of the table."""
        said = self.answers(network, rows)
        return said if self.classes else said.double() * self.target.std + self.target.mean

    def predictive(self, said: Tensor) -> ClassPredictive | RegressionPredictive:
        """What (S, N, outputs) means."""
        origin = Drawn(self.seed, tuple(range(len(said))))
        if self.classes:
            return ClassPredictive(Kept(said), origin)
        return RegressionPredictive(Kept(said), origin, self._noise)

    def encoded(self, asked: Row) -> tuple[Tensor, str]:
        """(width,), and what the training had not seen in it, in words; an error where it is no row of the table."""
        known = {column.name for column in self.schema.columns}
        for name in asked.row:
            if name not in known:
                raise Refused(422, f"`row` has {name!r}, but the columns are {', '.join(sorted(known))}; correct it.")
        try:
            inputs, strange = self.schema.encode(pandas().DataFrame([asked.row], columns=list(asked.row)))
        except ValueError as error:
            raise Refused(422, str(error).replace("`DATA`", "`row`")) from error
        return inputs[0], strange.get(0, "")

    def facts(self) -> dict[str, Any]:
        """The columns, for a form."""
        train = self.run.part("train", _CPU).inputs
        assert isinstance(train, Tensor)
        parts = train.split([column.width for column in self.schema.columns], dim=1)
        columns = [_described(column, part) for column, part in zip(self.schema.columns, parts, strict=True)]
        return {"columns": columns, "target": self.target.name, "test_rows": len(self.rows)}


def _described(column: Column, part: Tensor) -> dict[str, Any]:
    """One column: what it is, and what values of it the network has learned from."""
    facts: dict[str, Any] = {"name": column.name, "kind": column.kind, "missing": column.missing}
    if column.kind != NUMBER:
        return facts | {"categories": list(column.categories)}
    known = part[:, 0] if not column.missing else part[part[:, 1] == 0, 0]
    ends = (float(end) * column.std + column.mean for end in (known.min(), known.max()))
    low, high = (float(to_digits(end, 6, column.std)) for end in ends)
    return facts | {"low": low, "high": high}
