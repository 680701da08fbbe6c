"""Predicted values under every noise: quantiles by their definition, densities, variances, counts, merging."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.prediction.models import inputs, predict, refused, regressor
from tribayes.inference.noise import NormalNoise, OwnScaleNoise, PoissonNoise, StudentTNoise
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import Kept


def said(numbers: int = 2, count: int = 25, examples: int = 6) -> Tensor:
    """Positive, so that it can be rates and scales as well."""
    generator = torch.Generator().manual_seed(0)
    return torch.rand(count, examples, numbers, generator=generator, dtype=torch.float64) * 4 + 0.1


def pred_of(noise: tb.Noise, samples: Tensor) -> tb.RegressionPredictive:
    return tb.RegressionPredictive(Kept(samples), Drawn(0, tuple(range(len(samples)))), noise)


@dataclass(frozen=True)
class LaplaceNoise(tb.Noise):
    """A noise of one's own, by torch's law."""

    scale: float

    def law(self, said: Tensor) -> torch.distributions.Laplace:
        return torch.distributions.Laplace(said, self.scale)


NOISES = [NormalNoise(0.3), OwnScaleNoise(), StudentTNoise(3.0, 0.3), StudentTNoise(0.5, 2.0), LaplaceNoise(0.3)]


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize("level", [0.1, 0.95, 0.9999])
def test_bounds_are_where_the_mixture_reaches_the_tails(noise: tb.Noise, level: float) -> None:
    samples = said()
    lower, upper = pred_of(noise, samples).observation_interval(level)
    assert lower.shape == (6, 2 // noise.numbers)
    for bound, tail in ((lower, (1 - level) / 2), (upper, 1 - (1 - level) / 2)):
        below = noise.law(samples).cdf(bound).mean(0)
        torch.testing.assert_close(below, torch.full_like(below, tail), rtol=0, atol=1e-9)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.95, 0.9999])
def test_bounds_of_counts_are_the_smallest_that_reach_the_tails(level: float) -> None:
    samples = said() * torch.tensor([0.02, 30.0], dtype=torch.float64)
    law = PoissonNoise().law(samples)
    bounds = pred_of(PoissonNoise(), samples).observation_interval(level)
    for bound, tail in zip(bounds, ((1 - level) / 2, 1 - (1 - level) / 2), strict=True):
        assert torch.equal(bound, bound.round())
        assert (bound >= 0).all()
        assert (law.cdf(bound).mean(0) >= tail).all()
        assert (law.cdf(bound - 1).mean(0) < tail).all()


@pytest.mark.parametrize("noise", [*NOISES, PoissonNoise()], ids=lambda noise: type(noise).__name__)
def test_the_log_density_is_that_of_torchs_mixture(noise: tb.Noise) -> None:
    samples = said()
    targets = samples[0, :, : 2 // noise.numbers].round()
    expected = noise.law(samples).log_prob(targets).sum(-1).exp().mean(0).log()
    torch.testing.assert_close(pred_of(noise, samples).log_density(targets), expected, rtol=1e-12, atol=1e-12)


def test_scales_of_ones_own_split_the_variance() -> None:
    samples = said(4)
    pred = pred_of(OwnScaleNoise(), samples)
    assert pred.mean.shape == (6, 2)
    assert torch.equal(pred.samples, samples[..., :2])
    torch.testing.assert_close(pred.epistemic, samples[..., :2].var(0))
    torch.testing.assert_close(pred.aleatoric, samples[..., 2:].square().mean(0), rtol=1e-12, atol=0)
    torch.testing.assert_close(pred.std.square(), pred.epistemic + pred.aleatoric)
    with refused(
        "`noise` (=OwnScaleNoise(factor=1.0)) must be one standard deviation; "
        "see pred.noise_law, or pred.aleatoric for its variance."
    ):
        pred.noise  # noqa: B018 - it is the reading that is refused


def test_a_noise_of_ones_own_has_its_variance_from_the_samples() -> None:
    pred = pred_of(LaplaceNoise(0.3), said())
    torch.testing.assert_close(pred.aleatoric, torch.full_like(pred.mean, 2 * 0.3**2))


LIKELIHOODS = {
    "own scale": (tb.HeteroscedasticGaussian(), 2),
    "student": (tb.StudentT(df=3.0, scale=0.2), 1),
    "counts": (tb.Poisson(), 1),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
class TestPredicted:
    """What the likelihoods predict, from networks."""

    def test_it_is_the_mixture_over_its_networks(self, name: str) -> None:
        likelihood, outputs = LIKELIHOODS[name]
        model = regressor(outputs=outputs)
        pred = predict(model, inputs(), 7, likelihood=likelihood)
        assert isinstance(pred, tb.RegressionPredictive)
        assert pred.mean.shape == (15, 1)
        targets = pred.mean.round().abs()
        draws = [tb.nn.stage.sample_model(model, tb.posterior.streams.Stream((0, s))) for s in range(7)]
        nll = torch.stack([likelihood.nll(model.apply_weights(*draw, inputs()), targets) for draw in draws])
        expected = (-nll).logsumexp(0) - math.log(7)
        torch.testing.assert_close(pred.log_density(targets), expected.detach(), rtol=1e-6, atol=1e-6)

    def test_samples_may_be_dropped(self, name: str) -> None:
        likelihood, outputs = LIKELIHOODS[name]
        kept, dropped = (
            predict(regressor(outputs=outputs), inputs(), 9, likelihood=likelihood, keep_samples=keep)
            for keep in (True, False)
        )
        for question in ("mean", "epistemic", "aleatoric", "std"):
            torch.testing.assert_close(getattr(kept, question), getattr(dropped, question), rtol=1e-12, atol=0)
        assert torch.equal(kept.interval()[1], dropped.interval()[1])
        assert repr(dropped) == "RegressionPredictive(15 examples, 1 outputs, 9 sampled networks)"

    def test_parts_are_put_together(self, name: str) -> None:
        likelihood, outputs = LIKELIHOODS[name]
        model = regressor(outputs=outputs)
        whole = predict(model, inputs(), 8, likelihood=likelihood)
        parts = [predict(model, inputs(), numbers, likelihood=likelihood) for numbers in (range(5, 8), range(5))]
        parts = [pickle.loads(pickle.dumps(part)) for part in parts]
        merged = tb.Predictive.merge(parts)
        assert torch.equal(merged.observation_interval()[0], whole.observation_interval()[0])
        halves = [predict(model, part, 8, likelihood=likelihood) for part in inputs().split(8)]
        together = tb.Predictive.merge(halves, along="examples")
        torch.testing.assert_close(
            together.log_density(whole.mean.round().abs()), whole.log_density(whole.mean.round().abs())
        )

    def test_other_ways_of_asking_answer_too(self, name: str) -> None:
        likelihood, outputs = LIKELIHOODS[name]
        net = nn.Linear(4, outputs).double()
        model = tb.to_bayesian(net, tau=0.1, generator=0)
        by_moments = predict(model, inputs(), tb.Moments(), likelihood=likelihood)
        many = predict(model, inputs(), 1000, likelihood=likelihood)
        # 15 means of 1,000 networks: off by more than 6 standard errors with probability below 1e-7
        assert ((by_moments.mean - many.mean).abs() < 6 * many.epistemic.sqrt() / 1000**0.5).all()
        auto = predict(model, inputs(), tb.AutoSamples(tolerance=0.5, cap=100), likelihood=likelihood)
        assert auto.sample_count in (50, 100)

    def test_the_summary_counts_what_is_covered(self, name: str) -> None:
        likelihood, outputs = LIKELIHOODS[name]
        pred = predict(regressor(outputs=outputs), inputs(), 9, likelihood=likelihood)
        targets = pred.mean.round().abs()
        summary = pred.summary(targets)
        lower, upper = pred.observation_interval(0.95)
        assert summary.coverage[0.95].covered == float(((lower <= targets) & (targets <= upper)).double().mean())
        kind = "probability" if name == "counts" else "density"
        assert f"log predictive {kind}" in str(summary)


def test_intervals_of_counts_that_hold_more_are_no_fault() -> None:
    pred = pred_of(PoissonNoise(), torch.full((3, 2000, 1), 0.01, dtype=torch.float64))
    summary = pred.summary(torch.zeros(2000), levels=(0.5,))
    assert summary.coverage[0.5].covered == 1.0
    assert summary.remarks == ()
    wrong = pred.summary(torch.ones(2000), levels=(0.5,))
    assert wrong.coverage[0.5].covered == 0.0
    assert "too narrow" in wrong.remarks[0]


def test_counts_are_refused_where_they_are_none() -> None:
    pred = pred_of(PoissonNoise(), said())
    with refused("`targets` (=0.5 at (0, 0), 12 of 12 entries) must be whole numbers, not negative; pass counts."):
        pred.log_density(torch.full((6, 2), 0.5))


def test_parts_with_other_noise_are_refused() -> None:
    model = regressor()
    parts = [
        predict(model, inputs(), numbers, likelihood=tb.StudentT(df=df))
        for numbers, df in ((range(2), 3.0), (range(2, 4), 4.0))
    ]
    with pytest.raises(ValueError, match="must be of one kind, with one seed and one noise"):
        tb.Predictive.merge(parts)


@dataclass(frozen=True)
class OverdispersedNoise(tb.Noise):
    """Torch's law of counts that differ more than Poisson's, which has no distribution function."""

    whole = True

    def law(self, said: Tensor) -> torch.distributions.NegativeBinomial:
        return torch.distributions.NegativeBinomial(said, torch.tensor(0.5))


def test_a_law_without_a_distribution_function_has_no_intervals() -> None:
    pred = pred_of(OverdispersedNoise(), said())
    assert pred.log_density(torch.ones(6, 2)).isfinite().all()
    text = (
        "`noise` (=OverdispersedNoise()) must have a law with `cdf`, `mean` and `stddev`, for intervals; "
        "let its law be a class of your own that adds what torch's distribution lacks."
    )
    with refused(text):
        pred.observation_interval(0.95)
