"""What may be asked of an image, and the answer, as JSON has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from tribayes.prediction import ClassPredictive
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import Kept
from tribayes.serve.distortion import Distortion

_DIGITS = 6  # of every number


class Question(BaseModel):
    """What is asked of whatever it is, in the address of a request."""

    model_config = ConfigDict(extra="forbid")

    level: Annotated[float, Field(ge=0.5, le=0.999, description="Of the credible intervals.")] = 0.95
    samples: Annotated[int | None, Field(ge=2, description="How many networks answer; default: all there are.")] = None
    network: Annotated[
        Literal["correlated", "uncorrelated", "mean"],
        Field(description="As learned; with every correlation set to 0; or the one network at the means."),
    ] = "correlated"
    draws: Annotated[bool, Field(description="Also return what every sampled network says.")] = False


class Options(Distortion, Question):
    """What is asked of an image; the image or its pixels are in the body."""

    prepare: Annotated[bool, Field(description="Size and centre drawn digits as the training set's were.")] = True


class Entropies(BaseModel):
    """In nats: total = aleatoric (what no data would settle) + epistemic (what the weights do not know)."""

    total: float
    aleatoric: float
    epistemic: float


class Answer(BaseModel):
    """What the sampled networks say. The mean network is one: it has no intervals, and no doubts of its own."""

    label: str
    classes: list[str]
    probabilities: Annotated[list[float], Field(description="Averages over the sampled networks, by class.")]
    intervals: Annotated[list[tuple[float, float]] | None, Field(description="Credible intervals, by class.")]
    quartiles: Annotated[list[tuple[float, float, float]] | None, Field(description="25, 50 and 75 %, by class.")]
    certain: Annotated[bool | None, Field(description="Whether the label's interval overlaps no other class's.")]
    hesitates: Annotated[list[str], Field(description="The classes whose intervals overlap, the likeliest first.")]
    entropy: Entropies
    level: float
    samples: int
    network: str
    seen: Annotated[list[list[list[float]]] | None, Field(description="What the network was shown, (C, H, W).")]
    changes: Annotated[list[str], Field(description="What was done to the picture, in words.")]
    draws: Annotated[list[list[float]] | None, Field(description="(samples, classes), where asked for.")] = None


def answer(
    said: Tensor, options: Question, classes: tuple[str, ...], seen: Tensor | None, changes: list[str], seed: int
) -> Answer:
    """The answer of networks that said (S, classes), of which the first `options.samples` count."""
    said = said[: options.samples]
    count = len(said)
    pred = ClassPredictive(Kept(said.unsqueeze(1)), Drawn(seed, tuple(range(count))))
    label = int(pred.label)
    several: dict[str, Any] = {"intervals": None, "quartiles": None, "certain": None, "hesitates": []}
    if count > 1:
        lower, upper = (bound[0] for bound in pred.interval(options.level))
        overlapping = (lower <= upper[label]) & (upper >= lower[label])
        order = pred.mean[0].argsort(descending=True, stable=True)
        certain = bool(pred.certain(options.level))
        quartiles = Kept(said.unsqueeze(1)).quantiles((0.25, 0.5, 0.75))[:, 0]
        several = {
            "intervals": _plain(torch.stack([lower, upper], 1)),
            "quartiles": _plain(quartiles.T),
            "certain": certain,
            "hesitates": [] if certain else [classes[int(each)] for each in order if overlapping[each]],
        }
    return Answer(
        label=classes[label],
        classes=list(classes),
        probabilities=_plain(pred.mean[0]),
        entropy=Entropies(total=_one(pred.entropy), aleatoric=_one(pred.aleatoric), epistemic=_one(pred.epistemic)),
        level=options.level,
        samples=count,
        network=options.network,
        seen=None if seen is None else _plain(seen, 4),
        changes=changes,
        draws=_plain(said, 4) if options.draws else None,
        **several,
    )


def _one(value: Tensor) -> float:
    return round(float(value), _DIGITS)


def _plain(values: Tensor, digits: int = _DIGITS) -> Any:
    return values.double().round(decimals=digits).tolist()
