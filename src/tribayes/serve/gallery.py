"""What a run has to show: its tables and curves, and its test images, the telling ones first."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from typing import Annotated, Any, Literal, Protocol

import torch
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from tribayes._errors import refusal
from tribayes.prediction import ClassPredictive, Predictive, RegressionPredictive
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import Reduced
from tribayes.runs.evaluation import LEVELS
from tribayes.serve.networks import CORRELATED
from tribayes.serve.refused import Refused
from tribayes.serve.subject import Subject
from tribayes.serve.table import TableSubject

MOST_SHOWN = 60

Predicted = ClassPredictive | RegressionPredictive

_LOOKED_AT = 1000  # test images at most: more would take minutes on a small machine
_AT_ONCE = 8  # so that visitors' questions come in between


class Wanted(BaseModel):
    """Which test images: of a kind, of a true class, of a predicted one."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["confidently wrong", "most uncertain", "wrong", "quite certain", "all"] = "most uncertain"
    true: str | None = None
    predicted: str | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_SHOWN)] = 24

    def chosen(self, pred: ClassPredictive, targets: Tensor, classes: tuple[str, ...]) -> list[int]:
        """Their numbers, the most telling first."""
        certain, correct = pred.certain(LEVELS[0]), pred.correct(targets)
        kinds = {"confidently wrong": certain & ~correct, "wrong": ~correct, "quite certain": certain}
        found = kinds.get(self.kind, torch.ones_like(correct))
        for which, labels in (("true", targets), ("predicted", pred.label)):
            if (name := getattr(self, which)) is not None:
                if name not in classes:
                    raise Refused(422, str(refusal(which, name, "be a class of this run", "/api/run names them")))
                found = found & (labels == classes.index(name))
        numbers = found.nonzero().flatten()
        key = {"most uncertain": -pred.entropy, "all": torch.arange(len(targets))}.get(self.kind, -pred.confidence)
        ordered: list[int] = numbers[key[numbers].argsort(stable=True)].tolist()
        return ordered


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


class Asked(Protocol):
    """Whoever answers."""

    def ask(self, network: str, inputs: Tensor, /) -> Tensor: ...


class Looking:
    """The answers to a run's test examples, which are asked for a few at a time."""

    def __init__(self, subject: Asked, inputs: Tensor, at_once: int, meant: Callable[[Tensor], Predicted]) -> None:
        self._asked, self._inputs, self._at_once, self._meant = subject, inputs, at_once, meant
        self.size = min(_LOOKED_AT, len(inputs))
        self._parts: list[Predicted] = []
        self._whole: Predicted | None = None

    @property
    def looked_at(self) -> int:
        """How many have been asked about."""
        return sum(map(len, self._parts))

    @property
    def ready(self) -> bool:
        return self._whole is not None

    def look(self) -> None:
        """Ask about the next few."""
        start = self.looked_at
        said = self._asked.ask(CORRELATED, self._inputs[start : min(start + self._at_once, self.size)])
        self._parts.append(self._meant(said))
        if self.looked_at == self.size:
            whole = Predictive.merge(self._parts, along="examples")
            assert isinstance(whole, ClassPredictive | RegressionPredictive)
            self._whole = whole

    @property
    def whole(self) -> Predicted:
        """All answers."""
        assert self._whole is not None
        return self._whole


class Gallery(Looking):
    """The answers to a run's test images."""

    def __init__(self, subject: Subject) -> None:
        def meant(said: Tensor) -> ClassPredictive:
            return ClassPredictive(Reduced.of(said, LEVELS), Drawn(subject.seed, tuple(range(len(said)))))

        super().__init__(subject, subject.images, _AT_ONCE, meant)
        self._subject = subject

    def chosen(self, wanted: Wanted) -> list[int]:
        """The numbers of all images of the kind, the most telling first."""
        assert isinstance(self.whole, ClassPredictive)
        return wanted.chosen(self.whole, self._subject.labels[: self.size], self._subject.classes)

    def show(self, numbers: list[int]) -> list[Shown]:
        """The images of these numbers, and what was said of them."""
        pred, classes = self.whole, self._subject.classes
        assert isinstance(pred, ClassPredictive)
        certain = pred.certain(LEVELS[0])
        return [
            Shown(
                **dict(image_of(self._subject, number)),
                predicted=classes[int(pred.label[number])],
                probability=round(float(pred.confidence[number]), 4),
                certain=bool(certain[number]),
                entropy=round(float(pred.entropy[number]), 4),
            )
            for number in numbers
        ]


def image_of(subject: Subject, number: int) -> TestImage:
    """The test image of a number."""
    if not 0 <= number < len(subject.images):
        raise Refused(404, f"`number` (={number}) must be below {len(subject.images):,}; choose another test image.")
    content = b64encode(png(subject.images[number])).decode()
    return TestImage(number=number, true=subject.classes[int(subject.labels[number])], png=content)


def facts(subject: Subject | TableSubject) -> dict[str, Any]:
    """What a run is, as the page needs it, and how its training went."""
    run = subject.run
    if isinstance(subject, TableSubject):
        own = subject.facts()
    else:
        stroke = None if subject.preparation is None else subject.preparation.stroke
        own = {"shape": list(subject.shape), "stroke": stroke, "test_images": len(subject.images)}
    return own | {
        "kind": subject.kind,
        "name": run.name,
        "data": subject.data,
        "classes": list(subject.classes),
        "samples": subject.samples,
        "networks": list(subject.networks),
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
