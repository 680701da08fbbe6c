"""Ten million rows from a loader, through `fit` and `predict(keep_samples=False)`, in memory that does not grow.

A prediction's answer grows with the rows asked about; what is held beyond it does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

import tribayes as tb
from tribayes.prediction.source import Reduced

COLUMNS, BATCH, SAMPLES = 8, 10_000, 20
WARM = 20  # batches before which nothing is compared: allocators and torch's own tables fill up


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class Rows:
    """Rows that exist only while they are read, and what the process held at each batch."""

    def __init__(self, count: int, labelled: bool) -> None:
        self.count, self.labelled = count, labelled
        self.held: list[int] = []
        self.read = 0

    def __iter__(self) -> Iterator[Tensor | tuple[Tensor, Tensor]]:
        source = torch.Generator().manual_seed(0)
        for start in range(0, self.count, BATCH):
            inputs = torch.randn(min(BATCH, self.count - start), COLUMNS, generator=source)
            self.held.append(resident())
            self.read += len(inputs)
            targets = inputs.sum(1, keepdim=True) + 0.3 * torch.randn(len(inputs), 1, generator=source)
            yield (inputs, targets) if self.labelled else inputs

    def growth(self) -> int:
        """Bytes held more than after the first batches, at the worst."""
        later = self.held[min(WARM, len(self.held) - 1) :]
        return max(later) - later[0]


def stream(count: int) -> dict[str, float]:
    """How much memory grew in training and in prediction, and how large the answer is."""
    torch.manual_seed(0)
    model = tb.to_bayesian(nn.Sequential(nn.Linear(COLUMNS, 16), nn.ReLU(), nn.Linear(16, 1)))
    likelihood = tb.Gaussian(0.3)
    optimizer = torch.optim.AdamW(tb.parameter_groups(model, lr=1e-3))
    learned, asked = Rows(count, True), Rows(count, False)
    tb.fit(model, tb.ELBO(likelihood, data_size=count), learned, optimizer, generator=0, progress=False)
    pred = tb.predict(model, asked, SAMPLES, likelihood=likelihood, keep_samples=False, progress=False)
    if not (learned.read == asked.read == len(pred.mean) == count):
        raise ArithmeticError(f"of {count} rows {learned.read} were learned from and {asked.read} asked about")
    if not pred.mean.isfinite().all():
        raise ArithmeticError("a prediction is not finite")
    source = pred._source
    assert isinstance(source, Reduced)
    held = [source.mean, source.std, source.mean_entropy, *source.table.values()]
    answer = sum(tensor.numel() * tensor.element_size() for tensor in held)
    return {
        "rows": count,
        "data_bytes": 4 * count * (COLUMNS + 1),
        "fit_growth_bytes": learned.growth(),
        "predict_growth_bytes": asked.growth(),
        "answer_bytes": answer,
    }
