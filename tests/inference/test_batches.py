"""Batches of every form train alike."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import tribayes as tb
from tests.libraries import library
from tests.prediction.models import refused

GENERATOR = torch.Generator().manual_seed(0)
X, Y = torch.randn(6, 4, generator=GENERATOR), torch.randn(6, 4, generator=GENERATOR)
LABELS = torch.arange(6) % 3


class Two(nn.Module):
    """Two arguments, several answers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, one: Tensor, other: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        outputs = self.layer(one * other)
        return outputs.sum(), {"logits": outputs}


@dataclass
class Batch:
    one: Any
    other: Any
    labels: Any


class Rows(Dataset[dict[str, Tensor]]):
    """As data sets of language models are."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"one": X[index], "other": Y[index], "label": LABELS[index]}


def _frame(tensor: Tensor) -> Any:
    return library("pandas").DataFrame(tensor.numpy())


def _series() -> Any:
    return library("pandas").Series(LABELS.numpy())


BATCHES: dict[str, Callable[[], Any]] = {
    "a pair": lambda: ((X, Y), LABELS),
    "a list of two lists": lambda: [[X, Y], LABELS],
    "named inputs": lambda: ({"one": X, "other": Y}, LABELS),
    "a dict": lambda: {"one": X, "other": Y, "labels": LABELS},
    "another Mapping": lambda: UserDict(one=X, other=Y, targets=LABELS),
    "an encoding": lambda: library("transformers").BatchEncoding({"one": X, "other": Y, "labels": LABELS}),
    "a dataclass": lambda: Batch(X, Y, LABELS),
    "arrays": lambda: ((X.numpy(), Y.double().numpy()), LABELS.numpy()),
    "tables": lambda: {"one": _frame(X), "other": _frame(Y), "labels": _series()},
}


def trained(batches: Any, objective: str = "ELBO", **options: Any) -> tuple[nn.Module, tb.History]:
    torch.manual_seed(0)
    net = Two()
    if objective == "ELBO":
        model: nn.Module = tb.to_bayesian(net, generator=0)
        elbo: Any = tb.ELBO(tb.Categorical(), data_size=6, **options)
        groups = tb.parameter_groups(model, lr=0.1)
    else:
        model, elbo, groups = net, tb.MaximumLikelihood(tb.Categorical(), **options), net.parameters()
    history = tb.fit(model, elbo, batches, torch.optim.SGD(groups, lr=0.1), epochs=3, generator=1, progress=False)
    return model, history


@pytest.mark.parametrize("objective", ["ELBO", "maximum likelihood"])
@pytest.mark.parametrize("form", BATCHES)
def test_every_form_trains_to_the_same_bits(form: str, objective: str) -> None:
    assert trained([BATCHES[form]()], objective)[1] == trained([((X, Y), LABELS)], objective)[1]


def test_a_loader_of_dicts_trains_and_is_asked() -> None:
    loader = DataLoader(Rows(), batch_size=6)
    model, history = trained(loader)
    assert history == trained([((X, Y), LABELS)])[1]
    pred = tb.predict(model, loader, 3, progress=False)
    assert torch.equal(pred.samples, tb.predict(model, (X, Y), 3, progress=False).samples)


@pytest.mark.parametrize("estimator", ["plain", "local", "antithetic"])
def test_every_estimator_takes_named_inputs(estimator: str) -> None:
    options = {"estimator": estimator, "samples": 2}
    assert trained([BATCHES["a dict"]()], **options)[1] == trained([((X, Y), LABELS)], **options)[1]


def test_what_counts_can_be_chosen() -> None:
    ours = trained([((X, Y), LABELS)], output=lambda answer: answer[1]["logits"])[1]
    assert ours == trained([((X, Y), LABELS)])[1]
    ours = trained([((X, Y), LABELS)], output=lambda answer: 2 * answer[1]["logits"])[1]
    assert ours != trained([((X, Y), LABELS)])[1]
    with refused(
        "`output` (='scores') must name a part of the network's answer, "
        "tuple of tensor (), dict of logits: tensor (6, 3); correct the name."
    ):
        trained([((X, Y), LABELS)], output="scores")


def test_an_objective_takes_arrays_by_itself() -> None:
    model = tb.to_bayesian(Two(), generator=0)
    elbo = tb.ELBO(tb.Categorical(), data_size=6)
    ours = elbo(model, {"one": X.double().numpy(), "other": Y.numpy()}, LABELS.numpy(), generator=1)
    theirs = elbo(model, (X, Y), LABELS, generator=1)
    assert torch.equal(ours.loss, theirs.loss)
    assert ours.outputs.shape == (6, 3)
