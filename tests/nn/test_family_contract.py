"""A family of one's own: one class with `__init__`, `laws` and `scale_parameters`, and everything else works.

`OneScale` has a normal with one standard deviation per tensor, whatever the means are; `Peaked` has a law that the
library does not know, with heavier tails; `Even` has one with nothing but what CONTRIBUTING.md asks of a law.
"""

from __future__ import annotations

import copy
import io
import math
import pickle
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Laplace, Normal, kl_divergence, register_kl

import tribayes as tb
from tests.networks import NETWORKS, any_network, inputs_of, left_as_it_was, same_tensors
from tribayes.posterior import FactorisedNormal, Family
from tribayes.posterior.streams import Randomness, generator_of, normals_from


class OneScale(Family):
    """w_i = m_i + s x_i with one s per tensor."""

    def __init__(self, means: Sequence[Tensor], tau: Sequence[float], rho: Sequence[float]) -> None:
        nn.Module.__init__(self)
        del rho
        magnitudes = [mean.detach().square().mean().sqrt().clamp(min=0.01) for mean in means]
        self.log_scale = nn.Parameter(torch.stack([(t * m).log() for t, m in zip(tau, magnitudes, strict=True)]))

    def laws(self, means: Sequence[Tensor]) -> list[FactorisedNormal]:
        scales = self.log_scale.exp().unbind()
        return [
            FactorisedNormal(mean, scale.to(mean).expand_as(mean)) for mean, scale in zip(means, scales, strict=True)
        ]

    def scale_parameters(self) -> list[nn.Parameter]:
        return [self.log_scale]


class PeakedLaw(Laplace):
    """Independent Laplace distributions over (K,), drawn from a given generator."""

    def rsample(self, sample_shape: Sequence[int] = (), generator: Randomness = None) -> Tensor:
        shape = torch.Size(sample_shape) + self.loc.shape
        source = generator_of(generator, self.loc.device)
        uniform = torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device, generator=source) - 0.5
        return self.loc - self.scale * uniform.sign() * torch.log1p(-2 * uniform.abs().clamp(max=0.499999))


@register_kl(PeakedLaw, Normal)
def _divergence(law: PeakedLaw, prior: Normal) -> Tensor:
    """E ln q − E ln p of each weight, summed."""
    entropy = 1 + torch.log(2 * law.scale)
    energy = 0.5 * torch.log(2 * math.pi * prior.scale**2) + (2 * law.scale**2 + (law.loc - prior.loc) ** 2) / (
        2 * prior.scale**2
    )
    return (energy - entropy).sum(-1)


class Peaked(OneScale):
    """The same with the other law."""

    def laws(self, means: Sequence[Tensor]) -> list[PeakedLaw]:
        scales = self.log_scale.exp().unbind()
        return [PeakedLaw(mean, scale.to(mean).expand_as(mean)) for mean, scale in zip(means, scales, strict=True)]


class EvenLaw(Distribution):
    """Uniform within an interval about each mean."""

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, loc: Tensor, width: Tensor) -> None:
        self.loc, self.width = loc, width
        super().__init__(event_shape=loc.shape, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.width.square() / 12

    def rsample(self, sample_shape: Sequence[int] = (), generator: Any = None) -> Tensor:
        normals = normals_from(generator, torch.Size(sample_shape) + self.loc.shape, self.loc)
        return self.loc + self.width * (torch.special.ndtr(normals) - 0.5)


@register_kl(EvenLaw, Normal)
def _even_divergence(law: EvenLaw, prior: Normal) -> Tensor:
    energy = 0.5 * torch.log(2 * math.pi * prior.scale**2)
    return (energy + (law.variance + (law.loc - prior.loc) ** 2) / (2 * prior.scale**2) - law.width.log()).sum(-1)


class Even(OneScale):
    """The same with that law."""

    def laws(self, means: Sequence[Tensor]) -> list[EvenLaw]:
        scales = self.log_scale.exp().unbind()
        return [EvenLaw(mean, scale.to(mean).expand_as(mean)) for mean, scale in zip(means, scales, strict=True)]


class Proportional(OneScale):
    """A family whose noise vanishes at a mean of zero."""

    multiplicative = True

    def laws(self, means: Sequence[Tensor]) -> list[FactorisedNormal]:
        scales = self.log_scale.exp().unbind()
        return [FactorisedNormal(mean, scale.to(mean) * mean.abs()) for mean, scale in zip(means, scales, strict=True)]


own = pytest.mark.parametrize("family", [OneScale, Peaked])


def converted(family: type[Family], name: str = "MLP", **options: object) -> tb.BayesianModule:
    return tb.to_bayesian(NETWORKS[name].build().double(), **{"family": family, "tau": 0.3, **options})


def trained(family: type[Family]) -> tuple[tb.BayesianModule, tb.History]:
    torch.manual_seed(0)
    model = converted(family, tau=0.05)
    elbo = tb.ELBO(tb.Categorical(), data_size=10_000)
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.05))
    data = [(inputs_of("MLP"), torch.tensor([0, 1, 1]))] * 60
    return model, tb.fit(model, elbo, data, optimizer, generator=0, progress=False)


@own
def test_it_trains(family: type[Family]) -> None:
    start = converted(family, tau=0.05).family.log_scale.detach()
    model, history = trained(family)
    assert history.nll[0] > 0.4
    assert history.nll[-1] < 0.2  # from about ln 2 to about 0.1
    assert all(math.isfinite(value) for value in history.kl)
    assert (model.family.log_scale != start).all()


@own
def test_it_predicts(family: type[Family]) -> None:
    model, _ = trained(family)
    with left_as_it_was(model):
        one, other = (tb.predict(model, inputs_of("MLP"), 30, seed=4, progress=False) for _ in range(2))
    assert one.label.tolist() == [0, 1, 1]
    assert torch.equal(one.samples, other.samples)
    assert len(one.samples.unique(dim=0)) == 30


def test_a_law_needs_no_more_than_is_asked_of_it(tmp_path: Path) -> None:
    """Under a `Prior`: the default one also wants its entropy."""
    model = converted(Even, prior=tb.Prior())
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.05))
    data = [(inputs_of("MLP"), torch.tensor([0, 1, 1]))] * 60
    history = tb.fit(model, tb.ELBO(tb.Categorical(), data_size=10_000), data, optimizer, progress=False)
    assert history.nll[-1] < 0.5 * history.nll[0]
    assert [row.tau > 0 for row in model.posterior()] == [True] * 4
    asked = tb.predict(model, inputs_of("MLP"), 5, progress=False)
    tb.save(model, tmp_path / "model", custom=True)
    again = tb.load(tmp_path / "model", NETWORKS["MLP"].build().double(), family=Even)
    assert torch.equal(tb.predict(again, inputs_of("MLP"), 5, progress=False).samples, asked.samples)
    one, other = (tb.SamplingNetwork(model)(inputs_of("MLP"), seed=torch.tensor(seed)) for seed in (0, 1))
    assert (one != other).all()
    text = "`prior` (='RelativePrior') must meet laws with an entropy(), but EvenLaw has none; define it, or"
    with pytest.raises(ValueError, match=re.escape(text)):
        converted(Even).kl()


@any_network
@own
def test_any_network_runs_under_its_draws(name: str, family: type[Family]) -> None:
    model, inputs = converted(family, name), inputs_of(name)
    draw = model.sample_weights(generator=1)
    plain = tb.to_deterministic(model)
    with torch.no_grad():
        for key, value in draw.items():
            plain.get_parameter(key).copy_(value)
        torch.testing.assert_close(model.apply_weights(draw, inputs), plain(inputs), rtol=0, atol=1e-14)
    assert same_tensors(draw, model.sample_weights(generator=1))
    model(inputs).square().sum().backward()
    assert model.family.log_scale.grad.all()


@own
def test_its_draws_have_its_law(family: type[Family]) -> None:
    """Mean and deviation of 4,000 draws of 44 weights within 6 standard errors: failure rate below 1e-6.

    The fourth moment of the peaked law is 6 and not 3, so the error of its deviation is √(5/2) of a normal's.
    """
    model = converted(family)
    with torch.no_grad():
        stacks = model.sample_weights(4000, generator=0)
        for name, law in model.laws().items():
            flat = stacks[name].reshape(4000, -1)
            assert ((flat.mean(0) - law.mean).abs() < 6 * law.stddev / 4000**0.5).all()
            spread = 2.5**0.5 if family is Peaked else 1.0
            assert ((flat.std(0) / law.stddev - 1).abs() < 6 * spread / 8000**0.5 + 2e-3).all()


@own
def test_the_first_of_many_draws_is_the_draw_alone(family: type[Family]) -> None:
    model = converted(family)
    three, alone = model.sample_weights(3, generator=9), model.sample_weights(generator=9)
    assert all(torch.equal(three[name][0], value) for name, value in alone.items())
    assert all((three[name][1] != value).all() for name, value in alone.items())


@own
def test_its_divergence_is_the_sum_of_the_registered_ones(family: type[Family]) -> None:
    model = converted(family, prior=tb.Prior(loc=0.2, scale=0.6))
    prior = Normal(*torch.tensor([0.2, 0.6], dtype=torch.float64))
    expected = sum(kl_divergence(law, prior) for law in model.laws().values())
    torch.testing.assert_close(model.kl(), expected, rtol=1e-12, atol=0)
    _, beside = model.sample_weights_and_kl(generator=0)
    torch.testing.assert_close(beside, expected, rtol=1e-12, atol=0)


@own
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_it_is_copied(family: type[Family], duplicate: object) -> None:
    model, _ = trained(family)
    twin = duplicate(model)
    assert type(twin.family) is family
    assert same_tensors(twin.sample_weights(generator=3), model.sample_weights(generator=3))
    with torch.no_grad():
        twin.family.log_scale.add_(1.0)
    assert not torch.equal(twin.kl(), model.kl())


@own
def test_it_is_saved_and_loaded(family: type[Family]) -> None:
    model, _ = trained(family)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh = converted(family)
    assert not torch.equal(fresh.kl(), model.kl())
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert same_tensors(fresh.state_dict(), model.state_dict())
    assert same_tensors(fresh.sample_weights(generator=3), model.sample_weights(generator=3))
    assert torch.equal(fresh.kl(), model.kl())


@own
def test_what_is_said_about_it(family: type[Family]) -> None:
    model = converted(family)
    assert model.sampler == "plain"
    names = [group["name"] for group in tb.parameter_groups(model, lr=0.1)]
    assert names == ["means", "scales"]
    factor = 2**0.5 if family is Peaked else 1.0  # the deviation of a Laplace distribution of scale 1
    for row in model.posterior():
        assert row.tau == pytest.approx(0.3 * factor, rel=1e-6)
        assert row.rho == 0.0


@own
def test_in_half_precision_its_law_is_single(family: type[Family]) -> None:
    model = converted(family).bfloat16()
    draw = model.sample_weights(generator=0)
    assert {value.dtype for value in draw.values()} == {torch.bfloat16}
    assert model.kl().isfinite()


def test_an_additive_family_leaves_zeros_alone() -> None:
    net = nn.Linear(3, 2)
    nn.init.zeros_(net.bias)
    model = tb.to_bayesian(net, family=OneScale)
    tb.stabilise_(model, "paper", generator=0)
    assert not net.bias.any()
    assert model.sample_weights(generator=0)["bias"].all()


def test_a_multiplicative_family_moves_zeros() -> None:
    net = nn.Linear(3, 2)
    nn.init.zeros_(net.bias)
    model = tb.to_bayesian(net, family=Proportional)
    assert torch.equal(net.bias.abs(), torch.full((2,), 1e-6))
    with torch.no_grad():
        net.weight.fill_(1e-9)
    tb.stabilise_(model)
    assert torch.equal(net.weight, torch.full((2, 3), 1e-6))


def test_its_local_estimator_is_exact_or_refused_in_words() -> None:
    elbo = tb.ELBO(tb.Categorical(), data_size=9, kl_weight=1.0, estimator="local")
    labels = torch.tensor([0, 1, 1])
    assert elbo(converted(OneScale), inputs_of("MLP"), labels).loss.isfinite()
    text = (
        "`family` (='PeakedLaw') must give laws whose neighbour correlation is known, TridiagonalNormal or "
        'FactorisedNormal; use estimator="plain" and sampled networks, which need only draws.'
    )
    with pytest.raises(ValueError, match=re.escape(text)):
        elbo(converted(Peaked), inputs_of("MLP"), labels)


def test_a_correlation_is_refused_where_there_is_none() -> None:
    with pytest.raises(ValueError, match=r"`rho` \(=0.2\) must be 0 for the family OneScale, which has no correlation"):
        converted(OneScale, rho=0.2)


@pytest.mark.parametrize("missing", ["__init__", "laws", "scale_parameters"])
def test_a_family_without_one_of_the_three_is_none(missing: str) -> None:
    methods = {name: getattr(OneScale, name) for name in ("__init__", "laws", "scale_parameters") if name != missing}
    partial = type("Partial", (Family,), methods)
    with pytest.raises(TypeError, match=f"Can't instantiate abstract class Partial.*{missing}"):
        converted(partial)


def test_a_family_that_cannot_widen_itself_says_so_when_calibrated() -> None:
    model = converted(OneScale)
    with pytest.raises(
        ValueError, match=r"`family` \(='OneScale'\) must know how to widen .* define OneScale.rescale_"
    ):
        tb.calibrate(model, torch.randn(30, 3).double(), torch.randint(2, (30,)), progress=False)
