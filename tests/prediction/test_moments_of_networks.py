"""Mean and variance through whole networks: near what many samples say, or refused in words."""

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tribayes as tb
from tests.networks import NETWORKS, any_family, bayesian, inputs_of
from tests.prediction.test_moments import by_moments, uncertain

DRAWS = 40_000


def sampled(model: tb.BayesianModule, inputs: Tensor, draws: int = DRAWS) -> Tensor:
    with torch.no_grad():
        weights = model.sample_weights(draws, generator=0)
        return torch.func.vmap(model.apply_weights, in_dims=(0, None))(weights, inputs)


def deep_network(seed: int = 3) -> tuple[tb.BayesianModule, Tensor]:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6), nn.Dropout(), nn.ReLU(), nn.Linear(6, 3))
    return tb.to_bayesian(net.double(), tau=0.3, rho=-0.3).eval(), torch.randn(5, 4, dtype=torch.float64)


def test_covariances_are_carried_through_layers_but_not_through_wide_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    # with covariances, without; over four networks, since some hardly care
    errors = torch.zeros(2, dtype=torch.float64)
    for seed in range(4):
        model, inputs = deep_network(seed)
        deviation = sampled(model, inputs).std(0)
        for number, widest in enumerate((256, 5)):
            monkeypatch.setattr("tribayes.prediction.moments._WIDEST", widest)
            errors[number] += (by_moments(model, inputs).variance.sqrt() / deviation - 1).abs().mean()
    assert errors[0] < 0.5 * errors[1]


def test_shared_inputs_are_worked_on_some_examples_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = deep_network()
    at_once = by_moments(model, inputs).covariance()
    monkeypatch.setattr("tribayes.prediction.moments._ENTRIES_AT_ONCE", 50)
    torch.testing.assert_close(by_moments(model, inputs).covariance(), at_once, rtol=1e-13, atol=0)


@pytest.mark.parametrize("family", ["diagonal", "mean_field"])
def test_one_hidden_layer_is_exact_where_its_units_are_independent(family: str) -> None:
    """Failure rate 1e-6: means and covariances of 40,000 networks within 7 standard errors, for 3 · (2 + 4) of them."""
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)).double()
    torch.manual_seed(0)
    model = tb.to_bayesian(net, family=family, tau=0.5)
    inputs = torch.randn(3, 4, dtype=torch.float64)
    ours = by_moments(model, inputs)
    centred = sampled(model, inputs) - ours.expected
    products = centred.unsqueeze(-1) * centred.unsqueeze(-2)
    for values, expected in ((centred, torch.zeros(())), (products, ours.covariance())):
        assert ((values.mean(0) - expected) / values.std(0) * DRAWS**0.5).abs().max() < 7
    assert (ours.covariance()[:, 0, 1].abs() > 0.02 * ours.variance.amin(1)).all()  # and the test would see it


class SmallLeNet(nn.Module):
    """The layers of LeNet, a few of each."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 6, 3)
        self.fc1, self.fc2 = nn.Linear(6 * 2 * 2, 12), nn.Linear(12, 3)

    def forward(self, images: Tensor) -> Tensor:
        features = F.max_pool2d(self.conv1(images), 2)
        features = F.max_pool2d(F.relu(self.conv2(features)), 2)
        return self.fc2(F.relu(self.fc1(features.flatten(1))))


@any_family
def test_a_small_lenet_is_near_what_many_samples_say(family: str) -> None:
    """An approximation, so with room: standard deviations of logits within 15 %, means within 0.2 of them."""
    torch.manual_seed(1)
    model = tb.to_bayesian(SmallLeNet().double(), family=family, tau=0.1, rho=-0.2 if family == "tridiagonal" else 0)
    images = torch.rand(5, 1, 14, 14, dtype=torch.float64)
    ours, outputs = by_moments(model, images), sampled(model, images, 4000)
    deviation = outputs.std(0)
    assert ((ours.expected - outputs.mean(0)) / deviation).abs().max() < 0.2
    assert (ours.variance.sqrt() / deviation - 1).abs().max() < 0.15


REMEDY = "draw networks instead, e.g. samples=200."
KNOWN = "`samples` (='Moments()') must meet operations it knows, but the network uses"
WEIGHT = f"{KNOWN} the random weight"
ATTENTION = f"in torch.nn.functional.multi_head_attention_forward; {REMEDY}"
REFUSED = {
    "MLP": f"{KNOWN} torch.tanh; {REMEDY}",
    "BatchNorm": f"{KNOWN} torch.tanh; {REMEDY}",
    "LayerNorm": f"{KNOWN} torch.nn.functional.layer_norm; {REMEDY}",
    "GroupNorm": f"{KNOWN} torch.nn.functional.group_norm; {REMEDY}",
    "ConvTranspose1d": f"{WEIGHT} 'body.weight' in torch.nn.functional.conv_transpose1d; {REMEDY}",
    "ConvTranspose2d": f"{WEIGHT} 'body.weight' in torch.nn.functional.conv_transpose2d; {REMEDY}",
    "ConvTranspose3d": f"{WEIGHT} 'body.weight' in torch.nn.functional.conv_transpose3d; {REMEDY}",
    "Embedding": f"{WEIGHT} 'body.weight' in torch.nn.functional.embedding; {REMEDY}",
    "EmbeddingBag": f"{WEIGHT} 'body.weight' in torch.nn.functional.embedding_bag; {REMEDY}",
    "LSTM": f"{WEIGHT} 'cell.weight_ih_l0' in torch.lstm; {REMEDY}",
    "GRU": f"{WEIGHT} 'cell.weight_ih_l0' in torch.gru; {REMEDY}",
    "Attention": f"{WEIGHT} 'attention.in_proj_weight' {ATTENTION}",
    "TransformerEncoderLayer": f"{WEIGHT} 'body.self_attn.in_proj_weight' {ATTENTION}",
    "tied weights": f"{WEIGHT} 'embedding.weight' in torch.nn.functional.embedding; {REMEDY}",
    "shared submodule": f"{KNOWN} torch.tanh; {REMEDY}",
    "buffers": f"{WEIGHT} 'temperature' in mul; {REMEDY}",
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_kind_of_network_is_carried_through_or_refused_in_words(name: str) -> None:
    model, inputs = bayesian(name), inputs_of(name)
    if name in REFUSED:
        with pytest.raises(ValueError, match="^" + re.escape(REFUSED[name]) + "$"):
            by_moments(model, inputs)
    else:
        ours = by_moments(model, inputs)
        assert torch.isfinite(ours.expected).all()
        assert (ours.variance > 0).all()


OTHERS: dict[str, tuple[Callable[[], object], str]] = {
    "global pooling": (
        lambda: F.adaptive_avg_pool2d(uncertain(1, 2, 4, 4), 1),
        f"{KNOWN} torch.nn.functional.adaptive_avg_pool2d; {REMEDY}",
    ),
    "indices of a maximum": (
        lambda: F.max_pool2d(uncertain(1, 1, 4, 4), 2, return_indices=True),
        f"{KNOWN} torch.nn.functional.max_pool2d_with_indices; {REMEDY}",
    ),
    "dropout": (lambda: F.dropout(uncertain(2)), f"{KNOWN} dropout that is switched on; {REMEDY}"),
    "batch statistics": (
        lambda: nn.BatchNorm1d(2).double()(uncertain(3, 2)),
        f"{KNOWN} batch_norm with the statistics of the batch; {REMEDY}",
    ),
    "a product": (lambda: uncertain(2) * uncertain(2), f"{KNOWN} a product of two random tensors; {REMEDY}"),
    "a quotient": (lambda: torch.ones(2).div(uncertain(2)), f"{KNOWN} a quotient by a random tensor; {REMEDY}"),
    "a fixed tensor in place": (
        lambda: torch.ones(2).add_(uncertain(2)),
        f"{KNOWN} a change in place of a fixed tensor; {REMEDY}",
    ),
    "the values": (lambda: uncertain(1).item(), f"{KNOWN} torch.Tensor.item; {REMEDY}"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_has_no_rule_is_refused_in_words(name: str) -> None:
    attempt, text = OTHERS[name]
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        attempt()


def test_a_random_normalisation_is_refused() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)).eval()
    text = f"{WEIGHT} '1.weight' in torch.nn.functional.batch_norm; {REMEDY}"
    with pytest.raises(ValueError, match=re.escape(text)):
        by_moments(tb.to_bayesian(net, where="*"), torch.ones(2, 4))


def test_a_layer_that_is_used_twice_is_refused() -> None:
    layer = nn.Linear(4, 4)
    text = (
        f"`samples` (='Moments()') must meet each random weight once, but the network uses '0.weight' again; {REMEDY}"
    )
    with pytest.raises(ValueError, match=re.escape(text)):
        by_moments(tb.to_bayesian(nn.Sequential(layer, nn.ReLU(), layer)), torch.ones(2, 4))
