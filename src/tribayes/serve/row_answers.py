"""What the networks say of a row of a table, as JSON has it; of classes it is `asking.Answer`."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from tribayes._text import to_digits
from tribayes.own.own_run import LEVEL
from tribayes.prediction import ClassPredictive, RegressionPredictive
from tribayes.serve import asking
from tribayes.serve.asking import Answer, Question
from tribayes.serve.networks import CORRELATED
from tribayes.serve.table import TableSubject

_DIGITS = 7  # significant ones, of values whose size nobody knows

Bounds = tuple[float, float]


class RowAnswer(Answer):
    """What is said of a row whose target is a class."""

    set: Annotated[list[str] | None, Field(description="Classes of which the truth is one in 95 % at least.")] = None


class ValueAnswer(BaseModel):
    """What is said of a row whose target is a value, in the units of the table. The mean network is one: it has no
    doubts of its own, and its interval is the noise alone."""

    target: str
    prediction: Annotated[float, Field(description="Average over the sampled networks.")]
    interval: Annotated[Bounds, Field(description="Where the value lies, at the level, by the posterior.")]
    average: Annotated[Bounds | None, Field(description="Where the average of such values lies, at the level.")]
    promised: Annotated[
        Bounds | None, Field(description="Conformal: holds 95 % of truths, as `tribayes predict` says.")
    ]
    certain: Annotated[
        bool | None, Field(description="Whether its spread is not among the widest 5 % of held-out rows.")
    ]
    remark: Annotated[str, Field(description="What the training had not seen in the row; then it is not certain.")]
    std: float
    aleatoric: Annotated[float, Field(description="Variance that no data would take away.")]
    epistemic: Annotated[float, Field(description="Variance between the networks.")]
    level: float
    samples: int
    network: str
    draws: Annotated[list[float] | None, Field(description="What each network says, where asked for.")] = None


def row_answer(said: Tensor, asked: Question, subject: TableSubject, remark: str) -> RowAnswer | ValueAnswer:
    """The answer of networks that said (S, outputs), of which the first `asked.samples` count."""
    if subject.classes:
        return _of_classes(said, asked, subject, remark)
    said = said[: asked.samples]
    pred = subject.predictive(said.unsqueeze(1))
    assert isinstance(pred, RegressionPredictive)
    several, widths, spread = len(said) > 1, subject.run.widths, subject.target.std
    promises = several and asked.network == CORRELATED  # which the held-out rows were asked of
    return ValueAnswer(
        target=subject.target.name,
        prediction=_plain(pred.mean, spread),
        interval=_bounds(pred.observation_interval(asked.level), spread),
        average=_bounds(pred.interval(asked.level), spread) if several else None,
        promised=_bounds(widths.conformal.intervals(pred, LEVEL), spread) if promises else None,
        certain=bool(pred.std <= widths.usual) and not remark if several else None,
        remark=remark,
        std=_plain(pred.std),
        aleatoric=_plain(pred.aleatoric),
        epistemic=_plain(pred.epistemic),
        level=asked.level,
        samples=len(said),
        network=asked.network,
        draws=[_plain(value, spread) for value in said] if asked.draws else None,
    )


def _of_classes(said: Tensor, asked: Question, subject: TableSubject, remark: str) -> RowAnswer:
    found = asking.answer(said, asked, subject.classes, None, [remark] if remark else [], subject.seed)
    if remark and found.certain:
        found = found.model_copy(update={"certain": False})
    pred = subject.predictive(said[: asked.samples].unsqueeze(1))
    assert isinstance(pred, ClassPredictive)
    names = None
    if asked.network == CORRELATED:
        members = subject.run.widths.conformal.sets(pred, LEVEL)[0].nonzero().flatten().tolist()
        names = [subject.classes[place] for place in members]
    return RowAnswer(**dict(found), set=names)


def _plain(value: Tensor, spread: float = 0.0) -> float:
    return float(to_digits(float(value), _DIGITS, spread))


def _bounds(bounds: tuple[Tensor, Tensor], spread: float) -> Bounds:
    lower, upper = bounds
    return _plain(torch.as_tensor(lower), spread), _plain(torch.as_tensor(upper), spread)
