"""A model saved on one device and loaded on the other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import tribayes as tb
from tribayes.inference.memory import likelihood_of


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


@pytest.mark.parametrize(("there", "here"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_a_model_goes_to_another_device_with_all_that_it_knows(there: str, here: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = tb.to_bayesian(network()).to(there), torch.randn(64, 4)
    likelihood = tb.Gaussian(learned=True).to(there)
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.01, likelihood=likelihood), fused=True)
    elbo = tb.ELBO(likelihood, data_size=len(x))
    tb.fit(model, elbo, [(x, x.sum(1, keepdim=True))], optimizer, epochs=20, progress=False)
    path = tmp_path / "model.safetensors"
    tb.save(model, path)
    loaded = tb.load(path, network(), device=here)
    assert {value.device.type for value in loaded.state_dict().values()} == {here}
    for name, value in model.state_dict().items():
        assert torch.equal(value.cpu(), loaded.state_dict()[name].cpu()), name
    known = likelihood_of(loaded)
    assert isinstance(known, tb.Gaussian)
    assert known.raw_noise.device.type == here
    assert torch.equal(known.raw_noise.cpu(), likelihood.raw_noise.cpu())
    mean = [each.apply_weights({}, x.to(place)).cpu() for each, place in ((model, there), (loaded, here))]
    torch.testing.assert_close(*mean)
    assert len(tb.predict(loaded, x, samples=10, progress=False)) == len(x)
