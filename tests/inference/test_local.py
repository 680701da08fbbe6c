"""The local estimator draws a layer's outputs with the law that drawn weights would give them, example by example."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tribayes as tb
from tests.networks import NETWORKS, any_family, bayesian, inputs_of, left_as_it_was
from tribayes.inference.estimator import local_weights, normals_for, outputs_from
from tribayes.nn.preactivation import WeightNoise, Window, preactivation
from tribayes.nn.stage import Stage
from tribayes.posterior import Stream, TridiagonalNormal

RATE = 1e-6  # of each statistical test: the probability that a correct library fails for a fresh seed


def local(model: nn.Module, inputs: Tensor, generator: int | torch.Generator | None = None) -> Tensor:
    return Stage(model).run(local_weights(model, generator), inputs)


def dense_covariance(model: tb.BayesianModule, example: Tensor) -> Tensor:
    """Cov y of a linear layer with random weight and bias for one input, (O, O), from their dense covariances."""
    total = torch.zeros(())
    for name, law in model.laws().items():
        mean = dict(model.means())[name]

        def layer(flat: Tensor, name: str = name, mean: Tensor = mean) -> Tensor:
            return model.apply_weights({name: flat.reshape(mean.shape)}, example)

        jacobian = torch.func.jacrev(layer)(law.mean)
        sigma = law.covariance_matrix if isinstance(law, TridiagonalNormal) else torch.diag(law.variance)
        total = total + jacobian @ sigma @ jacobian.T
    return total.detach()


@pytest.mark.parametrize("rho", [-0.49, -0.2, 0.0, 0.4])
@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (4, 1), (5, 2)])
def test_outputs_are_a_linear_map_of_normals_with_exactly_the_covariance(shape: tuple[int, int], rho: float) -> None:
    size = shape[0] * shape[1]
    law = TridiagonalNormal(torch.linspace(-1, 1.3, size, dtype=torch.float64), 0.4, rho)
    example = torch.linspace(0.5, -2, shape[1], dtype=torch.float64)
    pre = preactivation(WeightNoise.of(law, torch.Size(shape)), example, Window())
    normals = normals_for(pre)
    by_normals = torch.func.jacrev(lambda z: outputs_from(pre, z))(normals)  # (O, 2 O + 1)
    by_weights = torch.kron(torch.eye(shape[0], dtype=torch.float64), example)  # (O, O I)
    expected = by_weights @ law.covariance_matrix @ by_weights.T
    torch.testing.assert_close(by_normals @ by_normals.T, expected, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(outputs_from(pre, torch.zeros_like(normals)), pre.mean, rtol=0, atol=0)


@any_family
def test_each_example_meets_weights_of_its_own_with_the_right_law(family: str) -> None:
    """A batch of 40,000 equal examples. Failure rate 1e-6: each of O + O² averages is within 6.5 standard errors."""
    model = bayesian("Linear", family=family, rho=-0.4 if family == "tridiagonal" else 0.0)
    example = inputs_of("Linear")[0]
    outputs = local(model, example.expand(40_000, -1), generator=1).detach()
    covariance = dense_covariance(model, example)
    centred = outputs - model.apply_weights({}, example)
    for values, expected in ((centred, torch.zeros(2)), (centred.unsqueeze(1) * centred.unsqueeze(2), covariance)):
        errors = (values.mean(0) - expected) / values.std(0) * len(outputs) ** 0.5
        assert errors.abs().max() < 6.5  # normal: 8e-11 each, allowing for the tails of a product


class Everything(nn.Module):
    """A padded, strided convolution in groups, a convolution without bias, and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(2, 4, 3, groups=2, stride=2, padding=1)
        self.two = nn.Conv2d(4, 3, 2, bias=False)
        self.three = nn.Linear(12, 5)
        self.four = nn.Linear(5, 2)

    def forward(self, images: Tensor) -> Tensor:
        features = self.two(torch.relu(self.one(images)))
        return self.four(torch.tanh(self.three(features.flatten(1))))


def spelled_out(model: tb.BayesianModule, images: Tensor, source: torch.Generator) -> Tensor:
    """`Everything` with local noise, layer by layer."""
    laws, shapes = model.laws(), {name: mean.shape for name, mean in model.means()}

    def layer(name: str, inputs: Tensor, window: Window) -> Tensor:
        pre = preactivation(WeightNoise.of(laws[f"{name}.weight"], shapes[f"{name}.weight"]), inputs, window)
        outputs = outputs_from(pre, normals_for(pre, source))
        if f"{name}.bias" not in laws:
            return outputs
        bias = laws[f"{name}.bias"].rsample(inputs.shape[:1], source)  # (N, O): one for all positions
        return outputs + bias.reshape(*bias.shape, *[1] * window.axes)

    features = torch.relu(layer("one", images, Window.of((3, 3), stride=2, padding=1, groups=2)))
    features = layer("two", features, Window.of((2, 2)))
    return layer("four", torch.tanh(layer("three", features.flatten(1), Window())), Window())


@any_family
def test_a_network_is_its_layers_one_after_the_other(family: str) -> None:
    model = tb.to_bayesian(Everything().double(), family=family, generator=0)
    images = torch.randn(3, 2, 6, 6, dtype=torch.float64)
    ours = local(model, images, generator=4)
    assert torch.equal(ours, spelled_out(model, images, Stream((4,)).generator(torch.device("cpu"))))
    assert torch.equal(ours, local(model, images, generator=4))
    assert not torch.equal(ours, local(model, images, generator=5))


def test_the_objective_uses_it() -> None:
    model, inputs = bayesian("MLP"), inputs_of("MLP")
    labels = torch.tensor([0, 1, 1])
    torch.manual_seed(2)
    with left_as_it_was(model):
        terms = tb.ELBO(tb.Categorical(), data_size=10, kl_weight=1.0, samples=2, estimator="local")(
            model, inputs, labels
        )
    torch.manual_seed(2)
    outputs = torch.stack([local(model, inputs), local(model, inputs)])
    assert torch.equal(terms.outputs, outputs)
    expected = torch.stack([F.cross_entropy(output, labels) for output in outputs]).mean()
    torch.testing.assert_close(terms.nll, expected, rtol=1e-14, atol=0)
    assert torch.equal(terms.loss, terms.nll + terms.kl / 10)


REPLICATES, DRAWS = 30, 2000


def gradient(loss: Tensor, model: tb.BayesianModule) -> Tensor:
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


@any_family
def test_its_gradient_is_unbiased_for_linear_layers(family: str) -> None:
    """Beside the plain estimator's, for every mean, scale and correlation of a small network.

    Each replicate averages 2,000 estimates, so it is nearly normal. Failure rate 1e-6: Student's t of 29 degrees beyond
    9, for 68 parameters at most, is 68 · 6e-10.
    """
    model = bayesian("MLP", family=family, rho=0.3 if family == "tridiagonal" else 0.0)
    inputs, labels = inputs_of("MLP"), torch.tensor([0, 1, 1])
    torch.manual_seed(5)
    by_local, by_plain = [], []
    for _ in range(REPLICATES):
        outputs = local(model, inputs.repeat(DRAWS, 1))
        by_local.append(gradient(F.cross_entropy(outputs, labels.repeat(DRAWS)), model))
        weights = model.sample_weights(DRAWS)
        outputs = torch.func.vmap(model.apply_weights, in_dims=(0, None))(weights, inputs).flatten(0, 1)
        by_plain.append(gradient(F.cross_entropy(outputs, labels.repeat(DRAWS)), model))
    one, other = torch.stack(by_local), torch.stack(by_plain)
    error = ((one.var(0) + other.var(0)) / REPLICATES).sqrt()
    assert ((one.mean(0) - other.mean(0)) / error).abs().max() < 9
    assert (error < 0.05 * other.std(0) * DRAWS**0.5).all()  # the test would see a twentieth of one estimate's noise


def test_its_gradient_varies_less_over_a_batch() -> None:
    """For 64 examples the ratio is 0.08 to 0.11 over six seeds: the bound is far away."""
    model = bayesian("MLP")
    source = torch.Generator().manual_seed(0)
    inputs = torch.randn(64, 4, dtype=torch.float64, generator=source)
    labels = (inputs[:, 0] > 0).long()
    torch.manual_seed(0)
    variance = {}
    for estimator in ("plain", "local"):
        elbo = tb.ELBO(tb.Categorical(), data_size=64, kl_weight=0, estimator=estimator)
        gradients = [gradient(elbo(model, inputs, labels).nll, model) for _ in range(100)]
        variance[estimator] = torch.stack(gradients).var(0).sum()
    assert variance["local"] < 0.5 * variance["plain"]


@pytest.mark.parametrize("where", ["*weight", "*bias", "three.*", "one.weight"])
def test_fixed_weights_stay_as_they_are(where: str) -> None:
    model = tb.to_bayesian(Everything().double(), where=where, tau=1e-4, generator=0)
    images = torch.randn(3, 2, 6, 6, dtype=torch.float64)
    noise = local(model, images) - model.apply_weights({}, images)
    assert 0 < noise.abs().max() < 1e-3


def test_inputs_of_zero_have_finite_gradients() -> None:
    model = tb.to_bayesian(nn.Linear(4, 3, bias=False), rho=-0.3)
    outputs = local(model, torch.zeros(2, 4))
    outputs.sum().backward()
    assert outputs.abs().max() < 1e-15
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_half_precision_goes_in_and_out() -> None:
    model = tb.to_bayesian(nn.Linear(4, 3).bfloat16())
    assert local(model, torch.ones(2, 4, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_several_modules_and_training_of_a_normalisation() -> None:
    net = nn.Sequential(tb.nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), tb.nn.Linear(6, 2))
    elbo = tb.ELBO(tb.Categorical(), data_size=8, estimator="local")
    elbo(net, torch.randn(8, 4), torch.zeros(8, dtype=torch.long)).loss.backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in net.parameters())
    assert net[1].num_batches_tracked == 1


REMEDY = 'use estimator="plain", or leave that weight out: to_bayesian(..., where=...).'
KNOWN = "`estimator` (='local') must meet operations it knows, but the network uses the random weight"
REFUSED = {
    "Embedding": f"{KNOWN} 'body.weight' in torch.nn.functional.embedding; {REMEDY}",
    "EmbeddingBag": f"{KNOWN} 'body.weight' in torch.nn.functional.embedding_bag; {REMEDY}",
    "ConvTranspose1d": f"{KNOWN} 'body.weight' in torch.nn.functional.conv_transpose1d; {REMEDY}",
    "ConvTranspose2d": f"{KNOWN} 'body.weight' in torch.nn.functional.conv_transpose2d; {REMEDY}",
    "ConvTranspose3d": f"{KNOWN} 'body.weight' in torch.nn.functional.conv_transpose3d; {REMEDY}",
    "LSTM": f"{KNOWN} 'cell.weight_ih_l0' in torch.lstm; {REMEDY}",
    "GRU": f"{KNOWN} 'cell.weight_ih_l0' in torch.gru; {REMEDY}",
    "Attention": f"{KNOWN} 'attention.in_proj_weight' in torch.nn.functional.multi_head_attention_forward; {REMEDY}",
    "TransformerEncoderLayer": (
        f"{KNOWN} 'body.self_attn.in_proj_weight' in torch.nn.functional.multi_head_attention_forward; {REMEDY}"
    ),
    "tied weights": f"{KNOWN} 'embedding.weight' in torch.nn.functional.embedding; {REMEDY}",
    "buffers": f"{KNOWN} 'temperature' in torch.Tensor.mul; {REMEDY}",
    "shared submodule": (
        f"`estimator` (='local') must meet each random weight once, but the network uses 'first.weight' again; {REMEDY}"
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_kind_of_network_is_drawn_or_refused_in_words(name: str) -> None:
    model, inputs = bayesian(name), inputs_of(name)
    with left_as_it_was(model):
        if name in REFUSED:
            with pytest.raises(ValueError, match="^" + re.escape(REFUSED[name]) + "$"):
                local(model, inputs)
        else:
            torch.manual_seed(0)
            assert torch.isfinite(local(model, inputs)).all()


class Queries(nn.Module):
    """A random tensor that is a layer's input."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.ones(2, 3))
        self.layer = nn.Linear(3, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs @ self.layer(self.queries)


def test_a_random_weight_may_not_be_a_layers_input() -> None:
    text = f"{KNOWN} 'queries' in a layer's input; {REMEDY}"
    with pytest.raises(ValueError, match=re.escape(text)):
        local(tb.to_bayesian(Queries()), torch.ones(1, 2))


def test_a_weight_is_named_by_its_place_in_the_whole_model() -> None:
    net = nn.Sequential(nn.Flatten(), tb.nn.Embedding(7, 3))
    with pytest.raises(ValueError, match=re.escape("the random weight '1.weight' in")):
        local(net, torch.zeros(2, 2, dtype=torch.long))


def test_a_stand_in_says_what_it_is() -> None:
    (weights,) = local_weights(bayesian("Linear"))
    assert repr(weights["weight"]) == "LocalWeight of shape (2, 4)"
