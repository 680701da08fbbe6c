"""Curves and metrics: `python examples/with_loggers.py` (pip install '.[tensorboard,wandb]')."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torchmetrics.classification import MulticlassAccuracy, MulticlassCalibrationError

import tribayes as tb
from tribayes.integrations.logging import TensorBoard, WandB


def main(folder: Path = Path("runs/curves"), epochs: int = 20) -> dict[str, float]:
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    x = torch.randn(600, 4)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    model = tb.to_bayesian(nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3)))
    elbo = tb.ELBO(tb.Categorical(), data_size=500)
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.01))
    batches = list(zip(x[:500].split(50), y[:500].split(50), strict=True))
    held_out = x[500:], y[500:]

    board = TensorBoard(folder / "tensorboard", every=10)  # then: tensorboard --logdir runs/curves
    with board, WandB("tribayes", every=10, mode="offline", dir=str(folder)) as curves:
        tb.fit(model, elbo, batches, optimizer, epochs=epochs, validation=held_out, callbacks=[board, curves])

    pred = tb.predict(model, held_out[0], progress=False)
    metrics = {"accuracy": MulticlassAccuracy(3), "calibration error": MulticlassCalibrationError(3)}
    found = {name: float(metric(pred.mean, held_out[1])) for name, metric in metrics.items()}
    print(found)
    return found


if __name__ == "__main__":
    main()
