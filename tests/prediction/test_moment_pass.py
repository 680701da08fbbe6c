"""Prediction by moments: the same objects as from samples, made in one pass without drawing a network."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.prediction.models import FEATURES, cut_chunks, inputs, predict, refused, seeded
from tribayes.prediction.moments import gaussian_points, normal_points
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import tails

LEVELS = (0.5, 0.9, 0.95, 0.99)
POINTS = tb.Moments().points


def classifier(classes: int = 3, tau: float = 0.4, hidden: int = 6, **options: Any) -> tb.BayesianModule:
    net = seeded(lambda: nn.Sequential(nn.Linear(FEATURES, hidden), nn.ReLU(), nn.Linear(hidden, classes)))
    return tb.to_bayesian(net, tau=tau, rho=-0.2, generator=0, **options)


def linear(outputs: int) -> tb.BayesianModule:
    """A linear model, whose predictive is Gaussian."""
    net = seeded(lambda: nn.Linear(FEATURES, outputs))
    return tb.to_bayesian(net, tau=0.3, rho=0.4, generator=0)


def linear_moments(model: tb.BayesianModule) -> tuple[Tensor, Tensor]:
    """Mean (N, D) and covariance (N, D, D) of a linear model's outputs from the dense covariance of its weights."""
    x = inputs()
    covariance = torch.diag_embed(torch.zeros(len(x), model.module.out_features, dtype=torch.float64))
    for name, law in model.laws().items():
        shape = model.module.get_parameter(name).shape
        jacobian = torch.func.jacrev(lambda w, n=name, s=shape: model.apply_weights({n: w.reshape(s)}, x))(law.mean)
        covariance += jacobian @ law.covariance_matrix @ jacobian.mT
    return model.apply_weights({}, x).detach(), covariance.detach()


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_linear_regression_has_its_gaussian(outputs: int) -> None:
    """Mean exactly, deviation to rounding; bounds of intervals as exact as 512 points in as many cells are."""
    model = linear(outputs)
    mean, covariance = linear_moments(model)
    deviation = covariance.diagonal(dim1=1, dim2=2).sqrt()
    pred = predict(model, inputs(), tb.Moments(), tb.Gaussian(0.5))
    torch.testing.assert_close(pred.mean, mean, rtol=1e-9, atol=1e-9)
    # with several outputs a deviation mixes dimensions of the points, which are only nearly uncorrelated
    torch.testing.assert_close(pred.epistemic.sqrt(), deviation, rtol=1e-9 if outputs == 1 else 0.01, atol=0)
    for level in LEVELS:
        for bound, tail in zip(pred.interval(level), tails(level), strict=True):
            below = torch.special.ndtr((bound - mean) / deviation)
            assert (below - tail).abs().max() < (1 / 256 if outputs == 1 else 3 / 256)


def test_the_density_of_an_observation_is_the_wider_gaussians() -> None:
    model, noise = linear(1), 0.5
    mean, covariance = linear_moments(model)
    pred = predict(model, inputs(), tb.Moments(), tb.Gaussian(noise))
    wide = (covariance.squeeze(-1) + noise**2).sqrt()
    expected = torch.distributions.Normal(mean, wide).log_prob(mean + 0.7 * wide).squeeze(1)
    torch.testing.assert_close(pred.log_density(mean + 0.7 * wide), expected, rtol=0, atol=0.01)
    assert str(pred.summary(mean)).startswith("one pass of moments, 15 examples")


def test_two_classes_have_the_quantiles_of_the_gaussian_difference_of_their_logits() -> None:
    """p = σ(d) is monotone in d ~ N, so its quantiles are those of d; its mean is an integral over d."""
    model = linear(2)
    mean, covariance = linear_moments(model)
    pred = predict(model, inputs(), tb.Moments())
    centre = mean[:, 0] - mean[:, 1]
    spread = (covariance[:, 0, 0] + covariance[:, 1, 1] - 2 * covariance[:, 0, 1]).sqrt()
    grid = torch.linspace(-9, 9, 4001, dtype=torch.float64)
    weights = torch.exp(-0.5 * grid.square()) / math.sqrt(2 * math.pi)
    values = torch.sigmoid(centre + spread * grid.unsqueeze(1)) * weights.unsqueeze(1)
    torch.testing.assert_close(pred.mean[:, 0], torch.trapezoid(values, grid, dim=0), rtol=0, atol=2e-3)
    for level in LEVELS:
        lower, upper = (torch.logit(bound[:, 0]) for bound in pred.interval(level))
        for bound, tail in ((lower, tails(level)[0]), (upper, tails(level)[1])):
            below = torch.special.ndtr((bound - centre) / spread)
            assert (below - tail).abs().max() < 3 / 256


def test_it_decides_as_thousands_of_sampled_networks_do() -> None:
    """A wide network whose units are nearly independent; the samples' own error of a deviation is 1.3 %."""
    model, x = classifier(hidden=50), inputs(40)
    ours, theirs = predict(model, x, tb.Moments()), predict(model, x, 3000, keep_samples=False)
    assert (ours.mean - theirs.mean).abs().max() < 0.01
    assert (ours.std / theirs.std - 1).abs().max() < 0.1
    assert (ours.std / theirs.std - 1).mean().abs() < 0.02
    assert (ours.certain() == theirs.certain()).double().mean() >= 0.95
    assert (ours.epistemic - theirs.epistemic).abs().max() < 0.01
    assert (ours.aleatoric - theirs.aleatoric).abs().max() < 0.01


def test_it_draws_nothing_and_leaves_the_model_alone() -> None:
    model = classifier().train()
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    one, two = (predict(model, inputs(), tb.Moments()) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(one.samples, two.samples)
    assert model.training
    assert model._given is None
    other = predict(model, inputs(), tb.Moments(), seed=1)
    assert not torch.equal(one.samples, other.samples)
    torch.testing.assert_close(one.mean, other.mean, rtol=0, atol=5e-3)


def test_batches_chunks_and_loaders_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = classifier(), inputs()
    whole = predict(model, x, tb.Moments())
    batches = [(x[:4], 0), (x[4:5], 0), (x[5:], 0)]
    for chunk in (None, 2):
        cut_chunks(monkeypatch, chunk, POINTS)
        for other in (predict(model, x, tb.Moments(), batch_size=4), predict(model, batches, tb.Moments())):
            torch.testing.assert_close(other.samples, whole.samples, rtol=1e-12, atol=1e-14)
        reduced = predict(model, x, tb.Moments(), keep_samples=False)
        torch.testing.assert_close(torch.stack(reduced.interval(0.99)), torch.stack(whole.interval(0.99)))
        assert not reduced.keeps_samples


def test_it_says_how_it_was_made() -> None:
    pred, drawn = predict(classifier(), inputs(), tb.Moments()), predict(classifier(), inputs(), 3)
    assert (pred.origin, pred.sample_count, pred.sample_indices) == (tb.Moments(), 0, ())
    assert (drawn.origin, drawn.sample_count) == (Drawn(0, (0, 1, 2)), 3)
    assert len(pred.samples) == POINTS
    assert repr(pred) == "ClassPredictive(15 examples, 3 classes, one pass of moments)"
    summary = pred.summary(torch.zeros(15, dtype=torch.long))
    assert summary.samples == 0
    assert str(summary).splitlines()[0].strip() == "one pass of moments"


def test_weights_that_are_left_out_stay_at_their_means() -> None:
    model, x = classifier(), inputs()
    last, everything = (predict(model, x, tb.Moments(), where=where) for where in ("2.*", None))
    assert (last.std < everything.std).all()
    sampled = predict(model, x, 2000, where="2.*", keep_samples=False)
    torch.testing.assert_close(last.std, sampled.std, rtol=0.1, atol=0)


def test_outputs_without_randomness_have_no_spread() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fixed, self.unused = nn.Linear(FEATURES, 3).half(), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.fixed(x.half())

    model = tb.to_bayesian(Unused(), where="unused.*")
    pred = predict(model, inputs(), tb.Moments())
    torch.testing.assert_close(pred.mean, model.module(inputs()).float().softmax(-1), rtol=1e-5, atol=1e-6)
    assert pred.std.max() < 1e-6


def test_one_logit_an_example_and_several_modules() -> None:
    net = nn.Sequential(tb.nn.Linear(FEATURES, 20, tau=0.3), nn.ReLU(), tb.nn.Linear(20, 1, tau=0.3), nn.Flatten(0))
    torch.manual_seed(0)
    net = net.double()
    ours, theirs = (
        predict(net, inputs(), likelihood=tb.Bernoulli(), **options)
        for options in ({"samples": tb.Moments()}, {"samples": 2000})
    )
    assert ours.mean.shape == (15, 2)
    assert (ours.mean - theirs.mean).abs().max() < 0.02
    assert (ours.std / theirs.std - 1).abs().max() < 0.15


@pytest.mark.parametrize("family", ["diagonal", "tridiagonal"])
def test_half_precision_is_carried_in_single(family: str) -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).bfloat16()
    model = tb.to_bayesian(net, where="0.*", family=family)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pred = predict(model, inputs().bfloat16(), tb.Moments())
    assert pred.mean.dtype == torch.float32
    assert (pred.std > 0).all()


def test_parts_of_the_examples_are_put_together_but_not_with_samples() -> None:
    model, x = classifier(), inputs()
    parts = [predict(model, part, tb.Moments()) for part in (x[:6], x[6:])]
    whole = tb.Predictive.merge(parts, along="examples")
    torch.testing.assert_close(whole.samples, predict(model, x, tb.Moments()).samples, rtol=1e-12, atol=1e-14)
    assert whole.origin == tb.Moments()
    with refused("`parts` (='by moments') must have drawn samples; use along=\"examples\"."):
        tb.Predictive.merge(parts[:1] * 2)
    text = (
        "`parts` (=[('ClassPredictive', 0), ('ClassPredictive', Moments(points=512))]) must be of one kind, "
        "with one seed and one noise; predict every part with the same arguments."
    )
    for along in ("samples", "examples"):
        with refused(text):
            tb.Predictive.merge([predict(model, x, 2), whole], along=along)


def test_other_points_stand_for_the_same_gaussian() -> None:
    """A coarser set has the same mean and deviation, and other quantiles."""
    model, noise = linear(1), tb.Gaussian(0.5)
    fine, coarse = (predict(model, inputs(), tb.Moments(points), noise) for points in (512, 64))
    assert (len(fine.samples), len(coarse.samples)) == (512, 64)
    torch.testing.assert_close(coarse.mean, fine.mean, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(coarse.epistemic, fine.epistemic, rtol=1e-9, atol=0)
    with refused(
        "`parts` (=[('RegressionPredictive', Moments(points=512), 0.5), "
        "('RegressionPredictive', Moments(points=64), 0.5)]) must be of one kind, with one seed and one noise; "
        "predict every part with the same arguments."
    ):
        tb.Predictive.merge([fine, coarse], along="examples")


@pytest.mark.parametrize("seed", [-1, 2**32, 2**64, 10**30])
def test_every_whole_number_is_a_seed_of_the_points(seed: int) -> None:
    model = classifier()
    pred, same = (predict(model, inputs(), tb.Moments(), seed=seed) for _ in range(2))
    assert torch.equal(pred.samples, same.samples)
    assert not torch.equal(pred.samples, predict(model, inputs(), tb.Moments()).samples)


def test_a_compiled_network_is_carried_through_as_it_is_written() -> None:
    model, outer = classifier(), nn.Sequential(tb.nn.Linear(FEATURES, 3), nn.ReLU()).double()
    for plain in (model, outer):
        compiled = torch.compile(plain, backend="eager")
        expected = predict(plain, inputs(), tb.Moments()).samples
        assert torch.equal(predict(compiled, inputs(), tb.Moments()).samples, expected)


def test_bad_choices_are_refused_in_words() -> None:
    text = "`samples` (=Moments(points=512)) must be drawn networks for an error of sampling; this one is exact there."
    with refused(text):
        predict(classifier(), inputs(), tb.Moments()).monte_carlo_error()
    with refused(
        "`samples` (='Moments()') must meet operations it knows, but the network uses torch.sigmoid; "
        "draw networks instead, e.g. samples=200."
    ):
        net = nn.Sequential(nn.Linear(FEATURES, 2), nn.Sigmoid(), nn.Linear(2, 2)).double()
        predict(tb.to_bayesian(net), inputs(), tb.Moments())


class TestPoints:
    def test_mean_and_variance_are_exact(self) -> None:
        points = normal_points(POINTS, 10, seed=0)
        torch.testing.assert_close(points.mean(0), torch.zeros(10, dtype=torch.float64), rtol=0, atol=1e-12)
        torch.testing.assert_close(points.std(0), torch.ones(10, dtype=torch.float64), rtol=1e-12, atol=0)
        assert (torch.corrcoef(points.T) - torch.eye(10)).abs().max() < 0.1

    @pytest.mark.parametrize("seed", range(10))
    def test_each_dimension_has_the_quantiles_of_a_normal(self, seed: int) -> None:
        """One point in each of 256 cells, and its mirror image; to have unit variance they move by a cell or two."""
        ordered = normal_points(POINTS, 5, seed).sort(0).values
        place = (torch.arange(POINTS) + 0.5).div(POINTS).unsqueeze(1)
        assert (torch.special.ndtr(ordered) - place).abs().max() < 3 / 256

    def test_a_singular_covariance_is_no_obstacle(self) -> None:
        factor = torch.tensor([[1.0], [-2.0], [0.0]])
        covariance = torch.stack([factor @ factor.T, torch.zeros(3, 3)])
        points = gaussian_points(torch.ones(2, 3), covariance, POINTS, seed=0)
        torch.testing.assert_close(points[:, 0].std(0), torch.tensor([1.0, 2.0, 0.0]), rtol=1e-4, atol=1e-2)
        assert (points[:, 1] == 1).all()

    def test_a_covariance_is_reproduced(self) -> None:
        covariance = torch.tensor([[2.0, 0.6], [0.6, 0.5]], dtype=torch.float64).unsqueeze(0)
        points = gaussian_points(torch.zeros(1, 2, dtype=torch.float64), covariance, POINTS, seed=0)
        torch.testing.assert_close(torch.cov(points[:, 0].T), covariance[0], rtol=0.02, atol=0)
