"""Regression: the mixture's quantiles and density are exact, and the summary counts what they cover."""

import json
import math

import numpy as np
import pytest
import torch
from torch import Tensor

import tribayes as tb
from tests.prediction.models import inputs, predict, refused, regressor, values

NOISE = 0.3


def functions(count: int = 25, examples: int = 6, outputs: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return 3 * torch.randn(count, examples, outputs, generator=generator, dtype=torch.float64)


def mixture_cdf(samples: Tensor, noise: float, at: Tensor) -> Tensor:
    return torch.special.ndtr((at - samples) / noise).mean(0)


@pytest.mark.parametrize("noise", [1e-3, 0.3, 50.0])
@pytest.mark.parametrize("level", [0.1, 0.95, 0.9999])
def test_observation_bounds_are_the_mixtures_quantiles(noise: float, level: float) -> None:
    samples = functions()
    lower, upper = values(samples, noise).observation_interval(level)
    for bound, tail in ((lower, (1 - level) / 2), (upper, 1 - (1 - level) / 2)):
        below = mixture_cdf(samples, noise, bound)
        np.testing.assert_allclose(below, tail, rtol=0, atol=1e-9)


def test_a_single_network_gives_the_normals_interval() -> None:
    lower, upper = values(functions(count=1), NOISE).observation_interval(0.95)
    torch.testing.assert_close(upper - lower, torch.full_like(lower, 2 * 1.959963984540054 * NOISE), rtol=1e-12, atol=0)


def test_log_density_is_the_direct_mixture() -> None:
    samples, targets = functions(), functions(1)[0] / 3
    densities = torch.distributions.Normal(samples, NOISE).log_prob(targets).sum(-1).exp().mean(0)
    torch.testing.assert_close(values(samples).log_density(targets), densities.log(), rtol=1e-12, atol=1e-12)


def test_the_density_integrates_to_one() -> None:
    samples = functions(outputs=1)
    grid = torch.linspace(-15, 15, 6001, dtype=torch.float64)
    pred = values(samples)
    density = torch.stack([pred.log_density(point.expand(6)).exp() for point in grid])
    np.testing.assert_allclose(torch.trapezoid(density, grid, dim=0), 1.0, rtol=1e-12)


def test_far_from_every_network_the_log_density_is_still_finite() -> None:
    """A mean of densities would underflow: 1e4 deviations away."""
    far = torch.full((1, 1), NOISE * 1e4, dtype=torch.float64)
    pred = values(torch.zeros(7, 1, 1, dtype=torch.float64))
    expected = -0.5e8 - math.log(NOISE) - 0.5 * math.log(2 * math.pi)
    assert pred.log_density(far).item() == pytest.approx(expected, rel=1e-12)


def test_summary_counts_what_is_covered() -> None:
    samples, targets = functions(), functions(1)[0]
    pred = values(samples)
    summary = pred.summary(targets, levels=(0.5, 0.9))
    assert summary.rmse == pytest.approx(float(np.sqrt(np.mean((samples.numpy().mean(0) - targets.numpy()) ** 2))))
    assert summary.log_likelihood == pytest.approx(float(pred.log_density(targets).mean()))
    assert list(summary.coverage) == [0.5, 0.9]
    for level, coverage in summary.coverage.items():
        boxes = [bound.flatten().tolist() for bound in pred.observation_interval(level)]
        inside = [low <= y <= high for low, high, y in zip(*boxes, targets.flatten().tolist(), strict=True)]
        widths = [high - low for low, high in zip(*boxes, strict=True)]
        assert coverage.covered == sum(inside) / len(inside)
        assert coverage.width == pytest.approx(sum(widths) / len(widths))
    assert 0 < summary.coverage[0.5].covered < summary.coverage[0.9].covered


def test_summary_is_plain_numbers_and_a_table() -> None:
    summary = values(functions()).summary(functions(1)[0])
    plain = json.loads(json.dumps(summary.as_dict()))
    assert plain["examples"] == 6
    assert plain["samples"] == 25
    assert plain["rmse"] == summary.rmse
    assert plain["coverage"]["0.95"] == {
        "covered": summary.coverage[0.95].covered,
        "width": summary.coverage[0.95].width,
    }
    text = str(summary)
    assert "25 sampled networks, 6 examples" in text
    assert f"{summary.rmse:.4g}" in text
    assert f"{100 * summary.coverage[0.99].covered:.1f} %" in text


def test_targets_of_one_output_may_be_a_row() -> None:
    pred = predict(regressor(), inputs(), 5, likelihood=tb.Gaussian(NOISE))
    targets = inputs()[:, 0]
    assert torch.equal(pred.log_density(targets), pred.log_density(targets.unsqueeze(1)))


def test_outputs_of_any_shape_are_flattened_and_counted() -> None:
    assert predict(regressor(outputs=2), inputs(), 5, likelihood=tb.Gaussian()).mean.shape == (15, 2)


def test_a_learned_noise_is_taken_over() -> None:
    likelihood = tb.Gaussian(0.7, learned=True)
    assert predict(regressor(), inputs(), 3, likelihood=likelihood).noise == pytest.approx(0.7, rel=1e-6)


@pytest.mark.parametrize("likelihood", [tb.Gaussian(), tb.StudentT()], ids=str)
@pytest.mark.parametrize("raw", [math.nan, math.inf, 1e38, -1e38])
def test_a_noise_that_has_diverged_is_refused(likelihood: tb.Likelihood, raw: float) -> None:
    """By a loop of one's own; of NaN no quantile would ever be found."""
    for value in likelihood.buffers():
        value.fill_(raw)
    with pytest.raises(ValueError, match=r"^`likelihood` \(=.*Noise\(.*\) must have a noise above 0 whose square is"):
        predict(regressor().float(), inputs().float(), 3, likelihood)


def test_degrees_of_freedom_that_have_diverged_are_refused() -> None:
    likelihood = tb.StudentT(df_learned=True)
    with torch.no_grad():
        likelihood.raw_df.fill_(math.nan)
    with pytest.raises(ValueError, match=r"^`likelihood` \(=StudentTNoise\(df=nan"):
        predict(regressor(), inputs(), 3, likelihood)


def test_dropped_samples_leave_the_functions_interval_but_no_density() -> None:
    text = "`keep_samples` (=False) must be True for what needs every sample; predict again with keep_samples=True."
    kept = predict(regressor(), inputs(), 9, likelihood=tb.Gaussian(NOISE))
    dropped = predict(regressor(), inputs(), 9, likelihood=tb.Gaussian(NOISE), keep_samples=False)
    assert torch.equal(kept.interval()[0], dropped.interval()[0])
    torch.testing.assert_close(kept.std, dropped.std, rtol=1e-12, atol=0)
    for question in (dropped.observation_interval, lambda: dropped.log_density(inputs()[:, 0])):
        with refused(text):
            question()


TARGETS = {
    "no tensor": ([1.0], TypeError, "`targets` (=[1.0]) must be a tensor; convert it with torch.tensor(y)."),
    "too short": (
        torch.zeros(5, 2), ValueError,
        "`targets` (=tensor of shape (5, 2), torch.float32) must have the shape (6, 2), one row per example; "
        "check the data.",
    ),
    "a row for two outputs": (
        torch.zeros(6), ValueError,
        "`targets` (=tensor of shape (6,), torch.float32) must have the shape (6, 2), one row per example; "
        "check the data.",
    ),
    "not finite": (
        torch.full((6, 2), math.nan), ValueError,
        "`targets` (=nan at (0, 0), 12 of 12 entries) must be finite; clean the data.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TARGETS)
def test_bad_targets_are_refused(case: str) -> None:
    targets, kind, text = TARGETS[case]
    pred = values(functions())
    for question in (pred.log_density, pred.summary):
        with refused(text, kind):
            question(targets)
