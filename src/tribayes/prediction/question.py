"""Which network was asked about which examples, as checksums: answers that do not belong together are told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes.inference.likelihood import Likelihood
from tribayes.posterior.shards import whole
from tribayes.prediction.inputs import Batch, dense_parts

_FACTOR, _BASE = 0x9E3779B97F4A7C15, 0xD1342543DE82EF95  # odd, of 64 bits, without a pattern
_ENTRIES_AT_ONCE = 2**20  # bounds the working memory
_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by size: numbers of the same bits


@dataclass(frozen=True)
class Question:
    """What was asked. All sums are of whole numbers, so that they are the same on every device and in every batch."""

    network: int  # of all weights
    how: str  # what outputs mean, and which weights were drawn
    examples: int = 0
    inputs: int = 0  # Σ checksum of example n · base^n, modulo 2^64: two of them can be put together

    @classmethod
    def to(cls, model: nn.Module, likelihood: Likelihood, where: str | Sequence[str] | None) -> Question:
        """The question before the first example."""
        state = [value for value in model.state_dict().values() if isinstance(value, Tensor)]
        rows = [_row_checksums(whole(value).reshape(1, -1)) for value in state if value.layout == torch.strided]
        return cls(_joined(torch.cat(rows)) if rows else 0, f"{type(likelihood).__name__}, {where or 'all'}")

    def then(self, other: Question) -> Question:
        """The same asked about more examples, those of `other`."""
        inputs = (self.inputs + pow(_BASE, self.examples, 2**64) * other.inputs) % 2**64
        return replace(self, examples=self.examples + other.examples, inputs=inputs)


Questions = Sequence[Question | None]  # of several answers; None where one was made by hand, and nothing is known


def check_one_network(questions: Questions) -> None:
    """Refuse answers of several networks, or to several kinds of question."""
    asked = _known(questions)
    check_alike([each.network for each in asked], "be of one network", "predict every part with the same weights")
    check_alike([each.how for each in asked], "be asked alike", "predict every part with the same arguments")


def check_same_examples(questions: Questions) -> None:
    """Refuse answers about several inputs."""
    inputs = [each.inputs for each in _known(questions)]
    check_alike(inputs, "be about the same examples", "pass every process the same inputs, in the same order")


def one_after_the_other(questions: Questions) -> Question | None:
    """The question about all examples; refused where a part comes twice, though a single example may."""
    known = _known(questions)
    several = [each for each in known if each.examples > 1]
    if len(set(several)) < len(several):
        found = f"{len(questions)} parts"
        raise refusal("parts", found, "be about other examples each", "leave out the repeated one")
    return reduce(Question.then, known) if len(known) == len(questions) else None


def check_alike(values: Sequence[object], requirement: str, remedy: str) -> None:
    """Refuse parts in which these values differ."""
    if len(set(values)) > 1:
        raise refusal("parts", values, requirement, remedy)


def _known(questions: Questions) -> list[Question]:
    return [each for each in questions if each is not None]


class Noting:
    """Batches on their way through, noted; `question` is what they come to once all have passed."""

    def __init__(self, question: Question) -> None:
        self._question, self._noted = question, list[Tensor]()

    def __call__(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            rows = 1 if batch.rows is None else batch.rows  # what is never cut counts as one example
            dense = [part for tensor in batch.tensors for part in dense_parts(tensor)]
            each = [_row_checksums(part.reshape(rows, -1)) for part in dense]
            self._noted.append(sum(each[1:], each[0]) if each else torch.zeros(rows, dtype=torch.int64, device="cpu"))
            yield batch

    @property
    def question(self) -> Question:
        rows = torch.cat(self._noted)
        return replace(self._question, examples=len(rows), inputs=_joined(rows))


def _row_checksums(values: Tensor) -> Tensor:
    """(n,) int64: one for each row of (n, …), of the bits of all its entries and their places."""
    values = values.detach().resolve_conj().resolve_neg()  # views of numbers that are not there
    values = torch.view_as_real(values) if values.is_complex() else values
    rows = values.reshape(len(values), -1)
    rows = rows.to(torch.uint8) if rows.dtype == torch.bool else rows.view(_WHOLE[rows.element_size()])
    total = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    first = 1
    for block in rows.split(max(1, _ENTRIES_AT_ONCE // max(1, len(rows))), dim=1):
        places = torch.arange(first, first + block.shape[1], device=rows.device) * _signed(_FACTOR)
        mixed = block.to(torch.int64) * ((places ^ (places >> 29)) | 1)
        total += (mixed ^ (mixed >> 31)).sum(1)
        first += block.shape[1]
    return (total ^ (total >> 32)) * _signed(_FACTOR) + first


def _joined(rows: Tensor) -> int:
    """Σ row n · base^n, modulo 2^64."""
    bases = torch.full_like(rows, _signed(_BASE))
    bases[0] = 1
    return int((rows * bases.cumprod(0)).sum()) % 2**64


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number
