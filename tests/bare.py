"""What must run with the wheel and what it brings along, in a bare environment: `make release` runs it there.

Train, ask, calibrate, keep and load a network, train in a folder, learn a table.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

import tribayes as tb


def main(folder: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(200, 4)
    y = (x[:, 0] > 0).long()
    model = tb.to_bayesian(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    elbo = tb.ELBO(tb.Categorical(), data_size=len(x))
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.01))
    tb.fit(model, elbo, [(x, y)], optimizer, epochs=3, progress=False)
    tb.calibrate(model, x, y, samples=5, progress=False)
    pred = tb.predict(model, x, samples=20, progress=False)
    print(pred.summary(y))

    tb.save(model, folder / "model.safetensors")
    loaded = tb.load(folder / "model.safetensors", nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    assert torch.equal(tb.predict(loaded, x, samples=20, progress=False).mean, pred.mean)

    run = tb.runs.Run.at(folder / "run")
    run.train(model, elbo, optimizer, train=(x, y), test=(x, y), iterations=20, progress=False)
    run.evaluate(model, (x, y), samples=5, progress=False)
    print(tb.runs.comparison([run]))
    print(tb.tables.fit_table(x, x.sum(1), recipe=tb.tables.Recipe(steps=20)).intervals(x[:1]))


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        main(Path(place))
