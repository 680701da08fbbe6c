"""CIFAR's binary files: records of a label and 3 × 32 × 32 pixels, one byte each, with nothing between them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tribayes.data.catalogue import Member
from tribayes.data.problems import bad_file, check_size
from tribayes.data.split import Split

_IMAGE = (3, 32, 32)


def read(data: bytearray, member: Member, source: str, classes: int) -> Tensor:
    """The records (N, 3073). Shares the memory of `data`."""
    check_size(source, len(data), member.size)
    records = torch.frombuffer(data, dtype=torch.uint8).view(member.shape)
    if (largest := int(records[:, 0].max())) >= classes:
        raise bad_file(source, f"holds a label of {largest}, while labels go from 0 to {classes - 1}")
    return records


def split(parts: Sequence[Tensor]) -> Split:
    """All records but those of the last part train; the last tests."""
    train, test = torch.cat(list(parts[:-1])), parts[-1]
    return Split(*_parted(train), *_parted(test))


def _parted(records: Tensor) -> tuple[Tensor, Tensor]:
    return records[:, 1:].contiguous().view(-1, *_IMAGE), records[:, 0].long()
