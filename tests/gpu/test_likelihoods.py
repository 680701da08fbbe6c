"""Every likelihood on a GPU: its step is recorded, so nothing in it waits, and its prediction is the CPU's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb

N, C = 16, 3
LABELS = torch.arange(N * 4 * 4).reshape(N, 4, 4) % C

CASES: dict[str, tuple[tb.Likelihood, int, Tensor]] = {
    "pixels": (tb.Categorical(ignore_index=0), C, LABELS),
    "weighed": (tb.Categorical(class_weights=[1.0, 2.0, 3.0], label_smoothing=0.1), C, LABELS),
    "shares": (tb.Categorical(), C, torch.full((N, C, 4, 4), 1 / C)),
    "labels": (tb.MultiLabel(), C, LABELS.unsqueeze(1).expand(N, C, 4, 4) % 2.0),
    "own scale": (tb.HeteroscedasticGaussian(), 2, torch.ones(N, 1)),
    "student": (tb.StudentT(df=3.0, learned=True, df_learned=True), 1, torch.ones(N, 1)),
    "counts": (tb.Poisson(), 1, torch.ones(N, 1)),
}


def network(likelihood: tb.Likelihood, outputs: int) -> nn.Module:
    conv = nn.Conv2d(2, outputs, 1)
    return conv if likelihood.predicts != "values" else nn.Sequential(conv, nn.AdaptiveAvgPool2d(1), nn.Flatten())


@pytest.mark.parametrize("name", CASES)
def test_a_step_is_recorded_and_a_prediction_is_the_cpus(name: str) -> None:
    likelihood, outputs, targets = CASES[name]
    torch.manual_seed(0)
    model, x = tb.to_bayesian(network(likelihood, outputs)).cuda(), torch.randn(N, 2, 4, 4)
    likelihood.cuda()
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=1e-3, likelihood=likelihood), fused=True)
    step = tb.TrainingStep(model, tb.ELBO(likelihood, data_size=N), optimizer)
    losses = [step(x.cuda(), targets.cuda()).loss.item() for _ in range(10)]
    assert step.captured
    assert all(loss == loss for loss in losses)
    with torch.no_grad():
        on_gpu = likelihood.nll(model.module(x.cuda()), targets.cuda()).cpu()
        likelihood.cpu()
        torch.testing.assert_close(likelihood.nll(model.module(x.cuda()).cpu(), targets), on_gpu, rtol=1e-4, atol=1e-4)
    pred = tb.predict(model, x.cuda(), 20, progress=False)
    dropped = tb.predict(model, x.cuda(), 20, progress=False, keep_samples=False)
    assert pred.mean.device.type == "cpu"
    torch.testing.assert_close(dropped.interval()[0], pred.interval()[0])
