"""Kept networks on a GPU: those that `predict` draws there, and those drawn on a CPU and moved."""

from __future__ import annotations

import pytest
import torch

import tribayes as tb
from tests.networks import NETWORKS

pytestmark = pytest.mark.filterwarnings("ignore:RNN module weights are not part of single contiguous chunk:UserWarning")


@pytest.mark.parametrize("name", ["Conv2d", "BatchNorm", "LSTM"])
def test_it_predicts_as_predict_does_there(name: str) -> None:
    model, x = tb.to_bayesian(NETWORKS[name].build(), tau=0.3).cuda(), NETWORKS[name].inputs().cuda()
    ours, theirs = tb.Ensemble(model, 5).predict(x), tb.predict(model, x, 5, progress=False)
    torch.testing.assert_close(ours.samples, theirs.samples, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["Conv2d", "BatchNorm", "LSTM"])
def test_it_moves(name: str) -> None:
    model, x = tb.to_bayesian(NETWORKS[name].build(), tau=0.3), NETWORKS[name].inputs()
    ensemble, sampling = tb.Ensemble(model, 5), tb.SamplingNetwork(model)
    seed = torch.tensor(3)
    expected = ensemble(x), sampling(x, seed=seed)
    found = ensemble.cuda()(x.cuda()).cpu(), sampling.cuda()(x.cuda(), seed=seed).cpu()
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
