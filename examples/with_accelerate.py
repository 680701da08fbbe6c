"""A loop with Accelerate: `python examples/with_accelerate.py` (pip install accelerate)."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tribayes as tb


def main(epochs: int = 40) -> tb.ClassPredictive:
    torch.manual_seed(0)
    x = torch.randn(500, 2)
    y = (x[:, 0] * x[:, 1] > 0).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
    model = tb.to_bayesian(nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)))
    elbo = tb.ELBO(tb.Categorical(), data_size=len(x))
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.02))

    accelerator = Accelerator(cpu=True)  # leave cpu out where there is a GPU
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(epochs):
        for inputs, targets in loader:
            tb.stabilise_(model)  # the guards
            optimizer.zero_grad()
            with accelerator.autocast():  # the ELBO runs the network without the one that `prepare` put around it
                terms = elbo(model, inputs, targets)
            accelerator.backward(terms.loss)
            optimizer.step()

    pred = tb.predict(accelerator.unwrap_model(model), x, likelihood=tb.Categorical(), progress=False)
    print(pred.summary(y))
    return pred


if __name__ == "__main__":
    main()
