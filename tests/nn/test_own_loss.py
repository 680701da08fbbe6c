"""A network that is trained by a loss of its own making, without the divergence: said once, and only then."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tribayes as tb

X, Y = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3


class WithLoss(nn.Linear):
    """As networks of transformers: labels are an argument, and the answer has a loss then."""

    def forward(self, inputs: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = super().forward(inputs)
        return {"logits": logits} if labels is None else {"logits": logits, "loss": F.cross_entropy(logits, labels)}


def model() -> tb.BayesianModule:
    return tb.to_bayesian(WithLoss(4, 3))


def train(one: tb.BayesianModule, loss_of: Callable[[], Tensor], steps: int = 5, fused: bool = False) -> None:
    optimizer = torch.optim.AdamW(one.parameters(), lr=0.01, fused=fused)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()


@pytest.mark.parametrize("fused", [True, False])
def test_it_is_said_once(fused: bool) -> None:
    one = model()
    with pytest.warns(UserWarning, match=r"without the divergence KL.*TriBayesTrainer.*tb\.kl\(model\)") as said:
        train(one, lambda: one(X, labels=Y)["loss"], 8, fused)
    assert len(said) == 1


def test_who_adds_the_divergence_hears_nothing() -> None:
    one, elbo = model(), tb.ELBO(tb.Categorical(), data_size=6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(one, lambda: one(X, labels=Y)["loss"] + tb.kl(one) / 6)
        train(one, lambda: elbo(one, X, Y).loss + 0 * one(X, labels=Y)["loss"])
        train(one, lambda: sum(one(X, labels=Y)["loss"] for _ in range(3)) / 3 + one.kl() / 6)  # accumulated
        train(one, lambda: one(X)["logits"].square().mean())  # a loss of one's own, which nobody can look into


def test_who_does_not_train_hears_nothing() -> None:
    one = model()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            one(X, labels=Y)
            one = copy.deepcopy(one)  # other weights, of another model
        for _ in range(4):
            one(X, labels=Y)
        one.eval()
        for _ in range(4):
            one(X, labels=Y)
            tb.stabilise_(one)
        one.train()
        for _ in range(4):
            with torch.no_grad():
                one(X, labels=Y)
            tb.stabilise_(one)
