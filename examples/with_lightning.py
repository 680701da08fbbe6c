"""A Bayesian network trained by Lightning: `python examples/with_lightning.py` (pip install '.[demo,lightning]')."""

from __future__ import annotations

from typing import Any

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tribayes as tb
from tribayes.data import load_digits
from tribayes.integrations.lightning import BayesianLightningModule


def main(epochs: int = 30) -> tb.ClassPredictive:
    lightning.seed_everything(0)
    digits = load_digits()
    train = DataLoader(TensorDataset(digits.train_images, digits.train_labels), batch_size=64, shuffle=True)
    test = DataLoader(TensorDataset(digits.test_images, digits.test_labels), batch_size=360)

    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
    elbo = tb.ELBO(tb.Categorical(), data_size=len(digits.train_labels))
    module = BayesianLightningModule(tb.to_bayesian(net), elbo, lr=0.001, optimizer=torch.optim.AdamW)

    trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.fit(module, train, test)
    parts: Any = trainer.predict(module, test)
    pred = tb.Predictive.merge(parts, along="examples")
    assert isinstance(pred, tb.ClassPredictive)
    print(pred.summary(digits.test_labels))
    return pred


if __name__ == "__main__":
    main()
