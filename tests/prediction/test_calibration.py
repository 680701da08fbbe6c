"""Calibration: it finds known widths, changes nothing else, can be undone and is saved."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb


def linear(tau: float, weight: float = 2.0) -> tb.BayesianModule:
    """y = w x with one random weight and no bias."""
    net = nn.Linear(1, 1, bias=False)
    nn.init.constant_(net.weight, weight)
    return tb.to_bayesian(net, tau=tau, prior=tb.RelativePrior())


def regression(tau: float, noise: float, count: int = 4000) -> tuple[Tensor, Tensor]:
    """Examples whose weight differs from one to the next with deviation 2τ, and noise on top."""
    source = torch.Generator().manual_seed(0)
    x = torch.randn(count, 1, generator=source) * 3
    w = 2 * (1 + tau * torch.randn(count, 1, generator=source))
    return x, w * x + noise * torch.randn(count, 1, generator=source)


@pytest.mark.parametrize(("tau", "noise"), [(0.1, 0.3), (0.4, 1.0)])
def test_known_widths_are_found(tau: float, noise: float) -> None:
    """A model four times too sure of both, and one four times too unsure, end at the truth within a few percent."""
    x, y = regression(tau, noise)
    for factor in (0.25, 4.0):
        model, likelihood = linear(tau * factor), tb.Gaussian(noise=noise * factor)
        found = tb.calibrate(model, x, y, likelihood, samples=400, progress=False)
        assert found.tau_factor * factor == pytest.approx(1, rel=0.1)
        assert found.noise_factor * factor == pytest.approx(1, rel=0.1)
        assert model.posterior().rows[0].tau == pytest.approx(tau, rel=0.1)
        assert float(likelihood.noise) == pytest.approx(noise, rel=0.1)
        assert found.after < found.before
        summary = tb.predict(model, x, 400, likelihood=likelihood, progress=False).summary(y)
        assert -summary.log_likelihood == pytest.approx(found.after, abs=0.02)
        assert summary.coverage[0.95].covered == pytest.approx(0.95, abs=0.015)


def test_what_it_reports_is_what_predict_says() -> None:
    x, y = regression(0.2, 0.5, 60)
    model, likelihood = linear(0.1), tb.Gaussian(noise=0.1)
    before = tb.predict(model, x, 50, likelihood=likelihood, seed=3, progress=False).log_density(y)
    found = tb.calibrate(model, x, y, likelihood, seed=3, progress=False)
    after = tb.predict(model, x, 50, likelihood=likelihood, seed=3, progress=False).log_density(y)
    assert found.before == pytest.approx(-float(before.mean()), rel=1e-5)
    assert found.after == pytest.approx(-float(after.mean()), rel=1e-5)
    assert found.gain_error == pytest.approx(float((after - before).std() / 60**0.5), rel=1e-4)
    assert found.examples == 60
    assert f"{found.before:.4f} -> {found.after:.4f}" in str(found)


def classifier() -> tuple[tb.BayesianModule, Tensor, Tensor]:
    """Logits three times too large for the labels they were drawn from."""
    source = torch.Generator().manual_seed(2)
    net = nn.Linear(4, 3, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.randn(3, 4, generator=source))
    x = torch.randn(2000, 4, generator=source)
    y = torch.multinomial(net(x).detach().softmax(-1), 1, generator=source).squeeze(-1)
    with torch.no_grad():
        net.weight.mul_(3)
    return tb.to_bayesian(net, tau=1e-4, prior=tb.RelativePrior()), x, y


def test_a_temperature_is_found_where_asked_for() -> None:
    model, x, y = classifier()
    likelihood = tb.Categorical()
    found = tb.calibrate(model, x, y, likelihood, temperature=True, progress=False)
    assert found.temperature == pytest.approx(3, rel=0.15)
    assert found.noise_factor == 1
    pred = tb.predict(model, x, 50, likelihood=likelihood, progress=False)
    assert pred.summary(y).nll == pytest.approx(found.after, rel=1e-4)
    assert tb.metrics.calibration_error(pred.mean, y) < 0.04


def test_tau_alone_where_not() -> None:
    model, x, y = classifier()
    found = tb.calibrate(model, x, y, progress=False)
    assert found.temperature == 1
    assert found.tau_factor != 1


@pytest.mark.parametrize("family", ["tridiagonal", "diagonal", "mean_field"])
def test_every_family_can_be_undone(family: str) -> None:
    torch.manual_seed(0)
    model = tb.to_bayesian(nn.Linear(3, 2), family=family)
    likelihood = tb.Categorical()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    inputs, targets = torch.randn(40, 3), torch.randint(2, (40,))
    found = tb.calibrate(model, inputs, targets, likelihood, temperature=True, samples=10, progress=False)
    assert found.tau_factor != 1
    tau = [row.tau for row in model.posterior()]
    found.undo()
    assert likelihood.temperature is None
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert tau == pytest.approx([found.tau_factor * row.tau for row in model.posterior()], rel=1e-4)


@pytest.mark.parametrize("likelihood", [tb.Gaussian(0.1), tb.Gaussian(0.1, learned=True), tb.StudentT(scale=0.1)])
def test_a_noise_that_has_been_moved_since_is_put_back_too(likelihood: tb.Gaussian | tb.StudentT) -> None:
    model, (x, y) = linear(0.1), regression(0.2, 0.5, 60)
    before = str(likelihood)
    found = tb.calibrate(model, x, y, likelihood, samples=10, progress=False)
    assert found.noise_factor > 2
    likelihood.double()  # other buffers, as by .to(device)
    found.undo()
    assert str(likelihood) == before


def test_only_widths_change() -> None:
    x, y = regression(0.2, 0.5, 50)
    model, likelihood = linear(0.1), tb.Gaussian(noise=0.1, learned=True)
    mean = model.module.weight.detach().clone()
    tb.calibrate(model, x, y, likelihood, progress=False)
    assert torch.equal(model.module.weight, mean)
    assert likelihood.raw_noise.requires_grad


def test_it_is_saved_with_model_and_likelihood() -> None:
    model, x, y = classifier()
    likelihood = tb.Categorical()
    tb.calibrate(model, x, y, likelihood, temperature=True, progress=False)
    other, fresh = classifier()[0], tb.Categorical()
    other.load_state_dict(model.state_dict())
    fresh.load_state_dict(likelihood.state_dict())
    for one, two in ((model, other),):
        answers = [
            tb.predict(m, x[:9], 20, likelihood=q, progress=False).mean for m, q in ((one, likelihood), (two, fresh))
        ]
        assert torch.equal(*answers)
    tb.Categorical().load_state_dict(tb.Categorical().state_dict())  # one without a temperature stays so


def test_an_interrupt_leaves_everything_as_it_was() -> None:
    class Interrupting(nn.Linear):
        left = 100

        def forward(self, inputs: Tensor) -> Tensor:
            type(self).left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return super().forward(inputs)

    model, likelihood = tb.to_bayesian(Interrupting(2, 1)), tb.Gaussian(noise=0.3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(KeyboardInterrupt):
        tb.calibrate(model, torch.randn(30, 2), torch.randn(30, 1), likelihood, progress=False)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert float(likelihood.noise) == pytest.approx(0.3)


def test_bad_input_is_refused() -> None:
    model, x, y = classifier()
    with pytest.raises(ValueError, match=r"`targets` \(=29\) must be at least 30 held-out examples; hold out more"):
        tb.calibrate(model, x[:29], y[:29])
    with pytest.raises(ValueError, match=r"`temperature` \(=True\) must come with a Categorical likelihood"):
        tb.calibrate(model, x, y, temperature=True)
    with pytest.raises(TypeError, match=r"`model` .* must be a Bayesian model"):
        tb.calibrate("model", x, y)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"`targets` .* must be a tensor"):
        tb.calibrate(model, x, y.tolist())  # type: ignore[arg-type]
