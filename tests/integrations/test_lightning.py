"""Lightning trains a Bayesian model by the ELBO, as `tb.fit` does, and goes on where it was stopped."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import tribayes as tb
from tests.libraries import among_other_libraries, library
from tests.networks import same_tensors
from tribayes.inference.validation import Validation

lightning = library("lightning")

from tribayes.integrations.lightning import BayesianLightningModule  # noqa: E402 - after what it needs

N = 10


@pytest.fixture(autouse=True)
def _lightning_may_advise() -> Iterator[None]:
    with among_other_libraries():
        yield


def examples() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, 4, generator=generator)
    return x, (x[:, 0] > 0).long()


def loader(**options: Any) -> Any:
    return DataLoader(TensorDataset(*examples()), **{"batch_size": 4, **options})


def one_by_one(batches: list[Any]) -> Any:
    """A loader of these batches."""
    return DataLoader(batches, batch_size=None)


def network() -> tb.BayesianModule:
    torch.manual_seed(0)
    return tb.to_bayesian(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.1), nn.Linear(6, 2)), tau=0.3)


def objective(**options: Any) -> tb.ELBO:
    return tb.ELBO(tb.Categorical(), **{"data_size": N, **options})


def module(**options: Any) -> BayesianLightningModule:
    return BayesianLightningModule(network(), **{"elbo": objective(), "lr": 0.05, **options})


def trainer(**options: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu", "devices": 1}
    return lightning.Trainer(**quiet, **{"logger": False, "enable_checkpointing": False, "max_epochs": 3, **options})


def weights(one: BayesianLightningModule) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in one.state_dict().items()}


def test_it_learns_as_fit_does() -> None:
    """The same seed, the same order, the same draws: the same bits."""
    ours, theirs = network(), module(elbo=objective(kl_weight=lambda step: 0.1 * step))
    torch.manual_seed(5)
    elbo = objective(kl_weight=lambda step: 0.1 * step)
    optimizer = torch.optim.Adam(tb.parameter_groups(ours, lr=0.05))
    tb.fit(ours, elbo, loader(), optimizer, epochs=3, progress=False)
    torch.manual_seed(5)
    trainer().fit(theirs, loader())
    assert same_tensors(ours.state_dict(), theirs.model.state_dict())


def test_accumulated_batches_count_the_divergence_once() -> None:
    """Batches of one size make the step that `fit(accumulate=2)` makes of them, but for rounding."""
    ours, theirs = network(), module(elbo=objective(kl_weight=1.0), optimizer=torch.optim.SGD)
    optimizer = torch.optim.SGD(tb.parameter_groups(ours, lr=0.05))
    torch.manual_seed(5)
    tb.fit(ours, objective(kl_weight=1.0), loader(batch_size=5), optimizer, epochs=3, accumulate=2, progress=False)
    torch.manual_seed(5)
    trainer(accumulate_grad_batches=2).fit(theirs, loader(batch_size=5))
    assert theirs.global_step == 3
    torch.testing.assert_close(ours.state_dict(), theirs.model.state_dict())


def test_a_training_that_was_stopped_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole, half, rest = module(), module(), module()
    torch.manual_seed(5)
    trainer(max_epochs=4).fit(whole, loader(shuffle=True), loader())
    torch.manual_seed(5)
    first = trainer(max_epochs=2)
    first.fit(half, loader(shuffle=True), loader())
    first.save_checkpoint(tmp_path / "half.ckpt")
    torch.manual_seed(99)
    trainer(max_epochs=4).fit(rest, loader(shuffle=True), loader(), ckpt_path=tmp_path / "half.ckpt")
    assert not same_tensors(weights(half), weights(rest))
    assert same_tensors(weights(whole), weights(rest))


def test_who_loads_a_checkpoint_to_ask_keeps_his_random_numbers(tmp_path: Path) -> None:
    one, fitted = module(), trainer(max_epochs=1)
    fitted.fit(one, loader())
    fitted.save_checkpoint(tmp_path / "one.ckpt")
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    options = {"model": network(), "elbo": objective(), "lr": 0.05}
    torch.manual_seed(7)
    loaded = BayesianLightningModule.load_from_checkpoint(tmp_path / "one.ckpt", **options)
    assert torch.equal(torch.rand(1), expected)
    assert same_tensors(weights(one), weights(loaded))


def test_what_is_loaded_from_a_checkpoint_is_kept_with_its_likelihood(tmp_path: Path) -> None:
    """Saved without, a regression of two outputs was answered as two classes."""

    def fresh() -> BayesianLightningModule:
        likelihood = tb.Gaussian(0.5, learned=True)
        return BayesianLightningModule(tb.to_bayesian(nn.Linear(4, 2)), tb.ELBO(likelihood, data_size=N), lr=0.05)

    one, fitted, x = fresh(), trainer(max_epochs=1), examples()[0]
    fitted.fit(one, DataLoader(TensorDataset(x, x[:, :2]), batch_size=5))
    fitted.save_checkpoint(tmp_path / "one.ckpt")
    other = fresh()
    loaded = BayesianLightningModule.load_from_checkpoint(
        tmp_path / "one.ckpt", model=other.model, elbo=other.elbo, lr=0.05
    )
    tb.save(loaded.model, tmp_path / "model")
    again = tb.load(tmp_path / "model", nn.Linear(4, 2))
    expected = tb.predict(one.model, x, 5, seed=0, progress=False)
    assert isinstance(expected, tb.RegressionPredictive)
    for model in (loaded.model, again):
        answer = tb.predict(model, x, 5, seed=0, progress=False)
        assert isinstance(answer, tb.RegressionPredictive)
        assert torch.equal(answer.samples, expected.samples)
        assert answer.noise == expected.noise


def test_what_is_logged(tmp_path: Path) -> None:
    one, x = module(), examples()[0]
    fitted = trainer(logger=lightning.pytorch.loggers.CSVLogger(tmp_path), log_every_n_steps=1)
    fitted.fit(one, loader(), loader())
    logged = fitted.logged_metrics
    rows = {row.name: row for row in one.model.posterior()}
    assert {"loss", "nll", "kl", "validation/nll"} <= logged.keys()
    assert {name: float(logged[f"tau/{name}"]) for name in rows} == pytest.approx(
        {name: row.tau for name, row in rows.items()}
    )
    assert {name: float(logged[f"rho/{name}"]) for name in rows} == pytest.approx(
        {name: row.rho for name, row in rows.items()}
    )
    exact = Validation((x, examples()[1]), one.model, one.elbo).nll()
    assert float(logged["validation/nll"]) == pytest.approx(exact)
    tested = trainer().test(one, loader(), verbose=False)
    assert tested == [{"test/nll": pytest.approx(exact)}]


@pytest.mark.parametrize("labelled", [True, False])
def test_predictions_are_those_of_predict(labelled: bool) -> None:
    one, (x, _) = module(samples=20), examples()
    asked = loader() if labelled else DataLoader(TensorDataset(x), batch_size=4)
    parts = trainer().predict(one, asked)
    assert [len(part.mean) for part in parts] == [4, 4, 2]
    together = tb.Predictive.merge(parts, along="examples")
    torch.testing.assert_close(together.samples, tb.predict(one.model, x, 20, progress=False).samples)


def test_the_rate_that_lightnings_tuner_finds_is_that_of_the_means(tmp_path: Path) -> None:
    from lightning.pytorch.tuner import Tuner

    x, y = examples()
    data = DataLoader(TensorDataset(x.repeat(8, 1), y.repeat(8)), batch_size=2)
    one = module(elbo=objective(data_size=80))
    tuner = Tuner(trainer(max_epochs=1, default_root_dir=tmp_path))
    with pytest.warns(UserWarning, match="all parameter groups now learn with"):  # while it looks, and no longer
        tuner.lr_find(one, data, num_training=30, early_stop_threshold=None)
    assert one.lr != 0.05
    rates = {group["name"]: group["lr"] for group in one.configure_optimizers().param_groups}
    assert rates == {"means": one.lr, "scales": 0.01}


def test_a_learned_noise_is_trained_and_saved() -> None:
    x, y = examples()
    elbo = tb.ELBO(tb.Gaussian(noise=0.5, learned=True), data_size=N)
    one = BayesianLightningModule(network(), elbo, lr=0.05, weight_decay=0.01)
    before = weights(one)
    trainer(max_epochs=1).fit(one, one_by_one([(x, torch.stack([y, 1 - y], 1).float())]))
    noise = [name for name in before if name.startswith("elbo.")]
    assert noise
    assert all(not torch.equal(before[name], weights(one)[name]) for name in noise)


def test_precision_and_clipping_are_lightnings() -> None:
    seen: list[Any] = []
    one = module(optimizer=lambda groups: torch.optim.SGD(groups, momentum=0.0))
    one.model.module[0].register_forward_hook(lambda *call: seen.append(call[2].dtype))
    start = weights(one)
    trainer(max_steps=1, precision="bf16-mixed", gradient_clip_val=1e-9).fit(one, loader())
    assert seen == [torch.bfloat16]
    moved = [(start[name] - value).abs().max() for name, value in weights(one).items() if "module" in name]
    assert max(moved) < 1e-9


def test_what_goes_wrong_is_said() -> None:
    with pytest.warns(UserWarning, match=r"`data_size` \(=20\) is not the number of training examples, 10: the diverg"):
        trainer(max_epochs=1).fit(module(elbo=objective(data_size=20)), loader())
    short = module()
    short.configure_optimizers = lambda: torch.optim.SGD(short.model.module.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="must hold everything that learns, but lacks scales δ"):
        trainer().fit(short, loader())
    with pytest.raises(TypeError, match=r"`elbo` \(=3\) must be an ELBO; pass e\.g\. tb\.ELBO"):
        module(elbo=3)
    x, y = examples()
    with pytest.raises(tb.NonFiniteLoss, match=r"the loss of step 1 is not finite: its nll is nan\. Inputs of the"):
        trainer().fit(module(), one_by_one([(x, y), (x * math.nan, y)]))
    with pytest.raises(ValueError, match="must contain a BayesianModule; convert it first"):
        BayesianLightningModule(nn.Linear(2, 2), objective(), lr=0.1)


def test_a_schedule_that_erases_the_rates_is_warned_of() -> None:
    def one_rate(optimizer: torch.optim.Optimizer) -> Any:
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=20)

    with pytest.warns(UserWarning, match="all parameter groups now learn with"):
        trainer(max_epochs=1).fit(module(scheduler=one_rate), loader())
