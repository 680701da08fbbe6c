"""`make demo`: train a Bayesian convolutional network on handwritten digits and ask it how sure it is.

Embedded data, two cores, about a minute. Run it with `python examples/digits.py`.
"""

# %%
from __future__ import annotations

import os
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

import tribayes as tb
from tribayes.data import Split, load_digits
from tribayes.recipes.networks import DigitsNet
from tribayes.report import classification_report

REPORT = Path("runs/demo/report.html")
EPOCHS = 15 if os.environ.get("TRIBAYES_SMALL") else 100
BATCH = 64
LEARNING_RATE = 0.02
WEIGHT_DECAY = 5e-4


# %%
def train(
    data: Split, epochs: int = EPOCHS, seed: int = 0, progress: bool = True
) -> tuple[tb.BayesianModule, tb.History]:
    """A trained Bayesian network and what training saw."""
    torch.manual_seed(seed)
    model = tb.to_bayesian(DigitsNet())
    elbo = tb.ELBO(tb.Categorical(), data_size=len(data.train_labels))
    groups = tb.parameter_groups(model, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    optimizer = torch.optim.SGD(groups, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: (1 + 0.001 * i) ** -0.75)
    loader = DataLoader(TensorDataset(data.train_images, data.train_labels), batch_size=BATCH, shuffle=True)
    history = tb.fit(model, elbo, loader, optimizer, epochs=epochs, scheduler=schedule, progress=progress)
    return model, history


# %%
def main() -> None:
    torch.set_num_threads(1)  # so small a network gains nothing from a second thread, and loses much on a busy machine
    data = load_digits()
    print(f"{len(data.train_labels):,} handwritten digits to learn from, {len(data.test_labels)} to be tested on.\n")
    model, history = train(data)
    print("\nWhat was learned about each tensor: its relative noise and the correlation of neighbours\n")
    print(model.posterior())
    pred = tb.predict(model, data.test_images)
    print()
    print(pred.summary(data.test_labels))
    unsure = int((~pred.certain(0.95)).sum())
    print("\nA prediction is quite certain when its 95 % credible interval overlaps no other class's;")
    print(f"{unsure} of {len(pred)} images would go to a person.")
    path = classification_report(
        REPORT,
        pred,
        data.test_labels,
        model=model,
        images=data.test_images,
        history=history,
        layers=tb.layer_report(model, data.test_images, samples=50),
        title="Handwritten digits",
    )
    print(f"\nTables and pictures: {path}")
    print("To draw digits of your own and watch a network doubt: .venv/bin/tribayes serve")


# %%
if __name__ == "__main__":
    main()
