"""What a run has to show: its tables and curves, and its test images, the telling ones first."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from typing import Annotated, Any, Literal

import torch
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from tribayes.prediction import ClassificationSummary, ClassPredictive, Predictive
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import Reduced
from tribayes.runs.evaluation import LEVELS
from tribayes.serve.refused import Refused
from tribayes.serve.subject import CORRELATED, Subject

MOST_SHOWN = 60

_LOOKED_AT = 1000  # test images at most: more would take minutes on a small machine
_AT_ONCE = 8  # so that visitors' questions come in between


class Wanted(BaseModel):
    """Which test images: of a kind, of a true class, of a predicted one."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["confidently wrong", "most uncertain", "wrong", "quite certain", "all"] = "most uncertain"
    true: str | None = None
    predicted: str | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_SHOWN)] = 24


class TestImage(BaseModel):
    """An image that was not learned from, and what it shows."""

    number: int
    true: str
    png: Annotated[str, Field(description="The image, base64.")]


class Shown(TestImage):
    """A test image, and what was said of it."""

    predicted: str
    probability: float
    certain: bool
    entropy: float


class Gallery:
    """The answers to a run's test images, which are asked for a few at a time."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.size = min(_LOOKED_AT, len(subject.images))
        self._parts: list[ClassPredictive] = []
        self._whole: ClassPredictive | None = None

    @property
    def looked_at(self) -> int:
        """How many images have been asked about."""
        return sum(map(len, self._parts))

    @property
    def ready(self) -> bool:
        return self._whole is not None

    def look(self) -> None:
        """Ask about the next few images."""
        subject, start = self._subject, self.looked_at
        said = subject.ask(CORRELATED, subject.images[start : min(start + _AT_ONCE, self.size)])
        origin = Drawn(subject.seed, tuple(range(len(said))))
        self._parts.append(ClassPredictive(Reduced.of(said, LEVELS), origin))
        if self.looked_at == self.size:
            whole = Predictive.merge(self._parts, along="examples")
            assert isinstance(whole, ClassPredictive)
            self._whole = whole

    def show(self, wanted: Wanted) -> list[Shown]:
        """The images that were asked for."""
        assert self._whole is not None
        pred, targets, classes = self._whole, self._subject.labels[: self.size], self._subject.classes
        certain, correct = pred.certain(LEVELS[0]), pred.correct(targets)
        chosen = {
            "confidently wrong": certain & ~correct,
            "wrong": ~correct,
            "quite certain": certain,
        }.get(wanted.kind, torch.ones_like(correct))
        for name, found in ((wanted.true, targets), (wanted.predicted, pred.label)):
            if name is not None:
                chosen = chosen & (found == classes.index(name) if name in classes else torch.zeros_like(chosen))
        numbers = chosen.nonzero().flatten()
        key = {"most uncertain": -pred.entropy, "all": torch.arange(self.size)}.get(wanted.kind, -pred.confidence)
        numbers = numbers[key[numbers].argsort(stable=True)][: wanted.limit]
        return [
            Shown(
                **dict(image_of(self._subject, number)),
                predicted=classes[int(pred.label[number])],
                probability=round(float(pred.confidence[number]), 4),
                certain=bool(certain[number]),
                entropy=round(float(pred.entropy[number]), 4),
            )
            for number in map(int, numbers)
        ]

    def summary(self) -> ClassificationSummary:
        """How good the answers are."""
        assert self._whole is not None
        return self._whole.summary(self._subject.labels[: self.size], LEVELS)


def image_of(subject: Subject, number: int) -> TestImage:
    """The test image of a number."""
    if not 0 <= number < len(subject.images):
        raise Refused(404, f"`number` (={number}) must be below {len(subject.images):,}; choose another test image.")
    content = b64encode(png(subject.images[number])).decode()
    return TestImage(number=number, true=subject.classes[int(subject.labels[number])], png=content)


def facts(subject: Subject) -> dict[str, Any]:
    """What a run is, as the page needs it, and how its training went."""
    run, setting = subject.run, subject.run.setting
    return {
        "name": run.name,
        "data": setting.data,
        "classes": list(subject.classes),
        "shape": list(subject.shape),
        "stroke": None if subject.preparation is None else subject.preparation.stroke,
        "samples": subject.samples,
        "networks": list(subject.networks),
        "test_images": len(subject.images),
        "posterior": [
            {"name": row.name, "weights": row.K, "tau": row.tau, "rho": row.rho} for row in subject.model.posterior()
        ],
        "curve": [
            {"iteration": each.iteration, "nll": each.nll, "error": each.one_sample_error} for each in run.records()
        ],
    }


def png(image: Tensor) -> bytes:
    """An image (C, H, W) in [0, 1] as a file."""
    pixels = (255 * image).round().to(torch.uint8).permute(1, 2, 0).squeeze(-1)
    file = BytesIO()
    Image.fromarray(pixels.numpy()).save(file, "PNG")
    return file.getvalue()
