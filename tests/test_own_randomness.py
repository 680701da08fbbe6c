"""Torch's global generators are lent to what draws there by itself, and left alone by everything else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.patience import PATIENCE
from tribayes._own_randomness import OwnRandomness, Watch, draws_by_itself, lent
from tribayes.own.networks import build_network
from tribayes.own.setting import OwnSetting
from tribayes.tables import Recipe, fit_table

X = torch.randn(160, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def dropping(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, outputs))


def stepping(folder: Path, net: nn.Module) -> None:
    """A training in a folder."""
    x, y = X.float(), torch.arange(160) % 3
    model, elbo = tb.to_bayesian(net, generator=0), tb.ELBO(tb.Categorical(), data_size=160)
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.01))
    run = tb.runs.Run.at(folder)
    run.train(model, elbo, optimizer, train=(x, y), iterations=30, batch_size=8, progress=False)


def table(recipe: Recipe, seed: int = 0) -> Tensor:
    """What a fitted table is made of."""
    model = fit_table(X, X.sum(1), recipe=recipe, seed=seed).model
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


class Noting(nn.Module):
    """A network that notes torch's global state at every pass."""

    def __init__(self, net: nn.Module, seen: list[Tensor]) -> None:
        super().__init__()
        self.net = net
        self.note = lambda: seen.append(torch.get_rng_state())

    def forward(self, x: Tensor) -> Tensor:
        self.note()
        return self.net(x)


@pytest.mark.parametrize("what", ["a run", "a table"])
def test_a_training_whose_network_draws_nothing_leaves_the_global_state_alone(what: str, tmp_path: Path) -> None:
    """While it lasts, too: in another thread somebody may draw from it. One pass is a look whether it draws."""
    seen: list[Tensor] = []
    net = Noting(nn.Linear(3, 3), seen)
    before = torch.get_rng_state()
    if what == "a run":
        stepping(tmp_path / "run", net)
    else:
        table(Recipe(lambda inputs, outputs: Noting(nn.Linear(inputs, outputs), seen), steps=20, calibrate=False))
    assert sum(not torch.equal(state, before) for state in seen) == 1
    assert len(seen) >= 30
    assert torch.equal(torch.get_rng_state(), before)


def test_a_network_that_draws_by_itself_is_lent_the_global_state(tmp_path: Path) -> None:
    seen: list[Tensor] = []
    net = Noting(dropping(3, 3), seen)
    before = torch.get_rng_state()
    stepping(tmp_path / "run", net)
    assert not any(torch.equal(state, before) for state in seen)
    assert len(torch.stack(seen).unique(dim=0)) == len(seen) == 30  # it goes on from step to step
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("network", [Recipe.network, dropping])
def test_tables_are_fitted_in_threads_as_they_are_alone(network: Callable[[int, int], nn.Module]) -> None:
    recipe = Recipe(network=network, steps=20, samples=5)
    alone = [table(recipe, seed) for seed in range(3)]
    found: dict[int, Tensor] = {}
    threads = [threading.Thread(target=lambda s=seed: found.update({s: table(recipe, s)})) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert all(torch.equal(found[seed], alone[seed]) for seed in range(3))


@pytest.mark.parametrize("network", [Recipe.network, dropping])
def test_a_seed_decides_a_table_whatever_torchs_is(network: Callable[[int, int], nn.Module]) -> None:
    recipe = Recipe(network=network, steps=20, samples=5, calibrate=False)
    torch.manual_seed(1)
    one = table(recipe)
    torch.manual_seed(2)
    assert torch.equal(table(recipe), one)


def test_any_whole_number_is_a_seed_of_a_table() -> None:
    """Torch keeps 32 bits of a seed on a CPU: there 0 would be 2**32, and -1 would be 2**32 - 1."""
    recipe = Recipe(steps=1, samples=5, calibrate=False)
    found = torch.stack([table(recipe, seed) for seed in (0, 2**32, -1, 2**32 - 1, 2**64, -(10**30))])
    assert len(found.unique(dim=0)) == len(found)


def test_any_whole_number_is_a_seed_of_a_network_of_ones_own() -> None:
    setting = OwnSetting("x", "table", "x.csv", "regression", "", "", width=5, depth=1)
    found = [build_network(setting, (3,), 1, seed).get_parameter("0.weight") for seed in (0, 2**32, 10**30)]
    assert len(torch.stack(found).flatten(1).unique(dim=0)) == 3


DRAWING: dict[str, tuple[nn.Module, bool]] = {
    "dropout": (nn.Dropout(0.5), True),
    "dropout of nothing": (nn.Dropout(0.0), False),
    "random slopes": (nn.RReLU(), True),
    "an LSTM with dropout": (nn.LSTM(3, 4, num_layers=2, dropout=0.5), True),
    "an LSTM": (nn.LSTM(3, 4), False),
    "attention with dropout": (nn.TransformerEncoderLayer(4, 2, dim_feedforward=8), True),
    "normalisation": (nn.BatchNorm1d(4), False),
    "a layer": (nn.Linear(4, 4), False),
}


@pytest.mark.parametrize("name", DRAWING)
def test_what_draws_by_itself_is_found_out(name: str) -> None:
    network, draws = DRAWING[name]
    inputs = torch.randn(5, 3 if isinstance(network, nn.LSTM) else 4)
    before, kept = torch.get_rng_state(), {key: value.clone() for key, value in network.state_dict().items()}
    assert draws_by_itself(network.eval(), inputs) is draws
    assert torch.equal(torch.get_rng_state(), before)
    assert not network.training
    assert all(torch.equal(value, kept[key]) for key, value in network.state_dict().items())


def test_a_generator_that_is_given_is_not_torchs() -> None:
    with Watch() as watch:
        torch.randn(3, generator=torch.Generator())
        torch.randperm(3, generator=torch.Generator())
    assert not watch.drew
    with Watch() as watch:
        torch.randperm(3)
    assert watch.drew


def test_a_step_that_fails_gives_everything_back() -> None:
    own, before = torch.Generator().manual_seed(5), torch.get_rng_state()
    state, randomness = own.get_state(), OwnRandomness([own])

    def fail() -> None:
        torch.randn(3)
        raise ArithmeticError

    with pytest.raises(ArithmeticError), randomness():
        fail()
    assert torch.equal(own.get_state(), state)
    assert torch.equal(torch.get_rng_state(), before)
    with lent([own]):  # nobody else holds it
        pass
