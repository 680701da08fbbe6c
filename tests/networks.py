"""Example networks, one for every kind of layer and every way of owning parameters that a conversion meets.

Tests that should hold for any module run over `NETWORKS`; a kind that is added here is tested everywhere.
Outputs are single tensors with one row per example, networks are in evaluation mode and without dropout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tribayes.posterior import FAMILIES

BATCH = 3


class Classifier(nn.Module):
    """Flattens what a body gives, one output after it."""

    def __init__(self, body: nn.Module, width: int) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(width, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs).flatten(1))


class Recurrent(nn.Module):
    """The mean output of a recurrent layer, whose forward returns a tuple."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs, _ = self.cell(inputs)
        return self.head(outputs.mean(1))


class Attention(nn.Module):
    """Self-attention, whose parameters are used through `F.multi_head_attention_forward` and not by a child."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs, _ = self.attention(inputs, inputs, inputs)
        return outputs.mean(1)


class Tied(nn.Module):
    """A language model's tie: the decoder's weight is the embedding's."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.decoder = nn.Linear(4, 7, bias=False)
        self.decoder.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.decoder(self.embedding(tokens)).mean(1)


class Shared(nn.Module):
    """One layer under two names, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = self.first

    def forward(self, inputs: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(inputs)))


class Frozen(nn.Module):
    """A fixed projection before a trained layer."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Linear(4, 5).requires_grad_(False)
        self.head = nn.Linear(5, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.tanh(self.projection(inputs)))


class Standardised(nn.Module):
    """Buffers beside parameters, a scalar parameter of its own, and a buffer that is no state."""

    offset: Tensor
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("offset", torch.randn(4))
        self.register_buffer("scale", torch.full((4,), 2.0), persistent=False)
        self.temperature = nn.Parameter(torch.tensor(1.5))
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.temperature * self.head((inputs - self.offset) / self.scale)


@dataclass(frozen=True)
class Example:
    """How to build a network, and what it takes."""

    factory: Callable[[], nn.Module]
    shape: tuple[int, ...]  # of one example
    tokens: int | None = None  # inputs are integers below this number

    def build(self) -> nn.Module:
        """The network, always with the same weights."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return self.factory().eval()

    def inputs(self, dtype: torch.dtype = torch.float32) -> Tensor:
        generator = torch.Generator().manual_seed(1)
        shape = (BATCH, *self.shape)
        if self.tokens is not None:
            return torch.randint(self.tokens, shape, generator=generator)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


def _normalised(norm: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(4, 6), norm(), nn.Tanh(), nn.Linear(6, 2))


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, dropout=0.0, batch_first=True)
    return Classifier(layer, 12)


NETWORKS: dict[str, Example] = {
    "Linear": Example(lambda: nn.Linear(4, 2), (4,)),
    "MLP": Example(_mlp, (4,)),
    "Conv1d": Example(lambda: Classifier(nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), 15), (2, 5)),
    "Conv2d": Example(lambda: Classifier(nn.Conv2d(2, 4, 3, groups=2, stride=2), 16), (2, 5, 5)),
    "Conv3d": Example(lambda: Classifier(nn.Conv3d(1, 2, 2), 16), (1, 3, 3, 3)),
    "ConvTranspose1d": Example(lambda: Classifier(nn.ConvTranspose1d(2, 3, 3), 21), (2, 5)),
    "ConvTranspose2d": Example(lambda: Classifier(nn.ConvTranspose2d(2, 3, 2, stride=2), 48), (2, 2, 2)),
    "ConvTranspose3d": Example(lambda: Classifier(nn.ConvTranspose3d(1, 2, 2), 54), (1, 2, 2, 2)),
    "Embedding": Example(lambda: Classifier(nn.Embedding(7, 3, padding_idx=0), 12), (4,), tokens=7),
    "EmbeddingBag": Example(lambda: Classifier(nn.EmbeddingBag(7, 3), 3), (4,), tokens=7),
    "BatchNorm": Example(_normalised(lambda: nn.BatchNorm1d(6)), (4,)),
    "LayerNorm": Example(_normalised(lambda: nn.LayerNorm(6)), (4,)),
    "GroupNorm": Example(_normalised(lambda: nn.GroupNorm(2, 6)), (4,)),
    "LSTM": Example(lambda: Recurrent(nn.LSTM(3, 2, 2, batch_first=True, bidirectional=True)), (5, 3)),
    "GRU": Example(lambda: Recurrent(nn.GRU(3, 4, batch_first=True)), (5, 3)),
    "Attention": Example(Attention, (3, 4)),
    "TransformerEncoderLayer": Example(_encoder, (3, 4)),
    "tied weights": Example(Tied, (4,), tokens=7),
    "shared submodule": Example(Shared, (4,)),
    "frozen parameters": Example(Frozen, (4,)),
    "buffers": Example(Standardised, (4,)),
}


any_network = pytest.mark.parametrize("name", NETWORKS)
any_family = pytest.mark.parametrize("family", FAMILIES)


def bayesian(name: str, **options: object) -> tb.BayesianModule:
    """A network of the table, converted, in float64 so that comparisons can be tight."""
    net = NETWORKS[name].build().double()
    usual = {"family": "tridiagonal", "prior": tb.Prior(), "tau": 0.3, "generator": 0}  # with all there is to test
    return tb.to_bayesian(net, **{**usual, **options})


def inputs_of(name: str) -> Tensor:
    """What that network takes."""
    return NETWORKS[name].inputs(torch.float64)


@contextmanager
def left_as_it_was(model: nn.Module) -> Iterator[None]:
    """Checks that what is done within leaves every parameter the object it was, and every number of the model."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    values = {name: value.clone() for name, value in model.state_dict().items()}
    yield
    after = dict(model.named_parameters(remove_duplicate=False))
    assert after.keys() == parameters.keys()
    assert all(after[name] is parameter for name, parameter in parameters.items())
    assert all(isinstance(parameter, nn.Parameter) for parameter in after.values())
    assert same_tensors(model.state_dict(), values)


def same_tensors(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether two dicts of tensors agree in names, dtypes and every bit."""
    return one.keys() == other.keys() and all(
        value.dtype == other[name].dtype and torch.equal(value, other[name]) for name, value in one.items()
    )
