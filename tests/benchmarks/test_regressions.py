"""The study of small regressions: its scores by hand, Laplace beside the dense law, a whole round on made-up data."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.defaults.judging import Rows
from benchmarks.defaults.regression import Table
from benchmarks.regressions import __main__ as command
from benchmarks.regressions import alone, together
from benchmarks.regressions.answers import LOST, Answers, best_factor, nll, scores
from benchmarks.regressions.plan import ARMS, DIAGONAL, DROPOUT, IVON, LAPLACE, MEMBERS, PLAIN, SWAG, TRIDIAGONAL, Job
from benchmarks.regressions.running import Study, answered
from tribayes._files import read_json

ROWS, FEATURES = 40, 3


@pytest.fixture
def table() -> Table:
    source = torch.Generator().manual_seed(0)

    def rows() -> Rows:
        inputs = torch.randn(ROWS, FEATURES, generator=source)
        return Rows(inputs, inputs.sum(1) + 0.1 * torch.randn(ROWS, generator=source))

    return Table(rows(), rows(), rows(), unit=2.0)


def mixture() -> Answers:
    return Answers(torch.tensor([[0.0, 1.0], [2.0, -1.0]]), torch.tensor([0.5, 2.0]))


def test_the_density_of_a_mixture_by_hand() -> None:
    def normal(y: float, mean: float, std: float) -> float:
        return math.exp(-0.5 * ((y - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))

    by_hand = [
        math.log(0.5 * normal(0.3, 0.0, 0.5) + 0.5 * normal(0.3, 2.0, 2.0)),
        math.log(0.5 * normal(0.3, 1.0, 0.5) + 0.5 * normal(0.3, -1.0, 2.0)),
    ]
    found = mixture().log_density(torch.tensor([0.3, 0.3], dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor(by_hand, dtype=torch.float64))


def test_places_in_the_law_are_those_of_its_draws() -> None:
    source = torch.Generator().manual_seed(0)
    which = torch.randint(2, (200_000,), generator=source)
    own = mixture()
    drawn = own.means[which] + own.noise[which, None] * torch.randn(200_000, 2, generator=source)
    target = torch.tensor([0.3, 1.4])
    torch.testing.assert_close(own.below(target).float(), (drawn <= target).float().mean(0), atol=0.006, rtol=0)


def test_scores_are_in_the_units_of_the_data() -> None:
    own = Answers(torch.tensor([[0.0, 0.0, 0.0]]), torch.tensor([1.0]))
    targets = torch.tensor([0.0, 1.0, 5.0])
    found = scores(own, targets, unit=2.0, factor=4.0)
    assert found["rmse"] == pytest.approx(2 * math.sqrt(26 / 3))
    assert found["nll"] == pytest.approx(math.log(2) + 0.5 * math.log(2 * math.pi) + 26 / 6)
    assert found["coverage"] == pytest.approx(2 / 3)
    assert found["scaled_coverage"] == 1.0


def test_the_factor_on_the_noise_is_the_maximum_likelihood_one() -> None:
    targets = 3 * torch.randn(5_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    own = Answers(torch.zeros(1, 5_000), torch.ones(1))
    exact = float(targets.square().mean().sqrt())
    assert best_factor(own, targets) == pytest.approx(exact, rel=0.03)  # the candidates are 6 % apart
    assert nll(own, targets, best_factor(own, targets)) < nll(own, targets)


def test_a_network_that_lost_its_way_is_never_chosen() -> None:
    targets = torch.zeros(3)
    assert nll(Answers(torch.full((2, 3), math.nan), torch.ones(2)), targets) == LOST
    assert nll(Answers(torch.full((2, 3), 1e30), torch.ones(2)), targets) == LOST


def test_an_ensemble_is_the_mixture_of_its_members() -> None:
    parts = [Answers(mixture().means[:1], mixture().noise[:1]), Answers(mixture().means[1:], mixture().noise[1:])]
    target = torch.tensor([0.3, 1.4])
    torch.testing.assert_close(Answers.together(parts).log_density(target), mixture().log_density(target))


def test_laplace_is_the_dense_law_of_the_last_layer(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    objective = together.trained(Job("yacht", PLAIN, 0.01), [table], steps=50)[0]
    monkeypatch.setattr(alone, "DRAWS", 20_000)
    monkeypatch.setattr(alone, "PRECISIONS", torch.tensor([3.0], dtype=torch.float64))
    said = alone.laplace(objective, table, seed=0)(table.test.inputs)
    *hidden, head = objective.model

    def features(inputs: Tensor) -> Tensor:
        seen = torch.nn.Sequential(*hidden)(inputs).detach().double()
        return torch.cat([seen, torch.ones(len(seen), 1, dtype=torch.float64)], 1)

    train, test = features(table.train.inputs), features(table.test.inputs)
    noise = objective.likelihood.noise.detach().double()
    precision = train.T @ train / noise**2 + 3.0 * torch.eye(train.shape[1], dtype=torch.float64)
    spread = (test @ precision.inverse() * test).sum(1).sqrt()
    weights = torch.cat([head.weight[0], head.bias]).detach().double()
    off = (said.means.mean(0) - test @ weights) / spread
    assert off.abs().max() < 5 / math.sqrt(20_000)  # of 40 rows, chance exceeds five standard errors in 2e-5 of runs
    torch.testing.assert_close(said.means.std(0), spread, rtol=0.03, atol=0)


def test_the_evidence_chooses_the_precision(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the marginal likelihood that a dense normal law of the targets has, up to the fit, which has no δ."""
    objective = together.trained(Job("yacht", PLAIN, 0.01), [table], steps=50)[0]
    *hidden, head = objective.model
    seen = torch.nn.Sequential(*hidden)(table.train.inputs).detach().double()
    seen = torch.cat([seen, torch.ones(len(seen), 1, dtype=torch.float64)], 1)
    noise = objective.likelihood.noise.detach().double()
    weights = torch.cat([head.weight[0], head.bias]).detach().double()

    def evidence(delta: Tensor) -> float:
        precision = seen.T @ seen / noise**2 + delta * torch.eye(seen.shape[1], dtype=torch.float64)
        return float(seen.shape[1] * delta.log() - delta * weights.square().sum() - torch.logdet(precision))

    said = alone.laplace(objective, table, seed=0)(table.test.inputs)
    monkeypatch.setattr(alone, "PRECISIONS", max(alone.PRECISIONS, key=evidence)[None])
    torch.testing.assert_close(said.means, alone.laplace(objective, table, seed=0)(table.test.inputs).means)


def test_arms_begin_with_the_same_weights(table: Table) -> None:
    firsts = [together.trained(Job("yacht", arm, arm.values[0]), [table], steps=0)[0] for arm in (PLAIN, DROPOUT)]
    ours = together.trained(Job("yacht", DIAGONAL, 0.1), [table], steps=0)[0]
    weights = [next(one.model.parameters()) for one in (*firsts, ours)]
    assert all(torch.equal(weights[0], other) for other in weights[1:])


@pytest.mark.parametrize("arm", [arm for arm in ARMS if arm != IVON], ids=lambda arm: arm.name)
def test_every_arm_learns(arm: Any, table: Table) -> None:
    asked = answered(Job("yacht", arm, arm.values[1]), [table, table], steps=300)
    held, test = asked[0]
    assert held.means.shape == test.means.shape == (len(held.noise), ROWS)
    assert nll(test, table.test.targets) < nll(Answers(torch.zeros(1, ROWS), torch.ones(1)), table.test.targets)


def test_a_round_chooses_by_held_out_rows_and_stores(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.regressions.running.table", lambda *_: table)
    path, said = tmp_path / "results.json", tmp_path / "said"
    arms = (PLAIN, LAPLACE, SWAG, TRIDIAGONAL)
    study = Study(path, said, None, sets=("yacht",), arms=arms, splits=2, steps=10)
    study.choose()
    assert read_json(path)["test"] == {}  # nothing of the test rows before all is chosen
    study.held_out[Job("yacht", PLAIN, PLAIN.values[2]).name] = [-100.0, -100.0]
    assert study.chosen("yacht", PLAIN).value == PLAIN.values[2]
    study.look()
    kept = read_json(path)["test"]["yacht"]
    assert set(kept) == {*(arm.name for arm in arms), f"plain x {MEMBERS}", f"tridiagonal x {MEMBERS}"}
    assert all(len(splits) == 2 for splits in kept.values())
    again = Study(path, said, None, sets=("yacht",), arms=arms, splits=2, steps=10)
    monkeypatch.setattr("benchmarks.regressions.running.answered", None)  # what was said is not asked again
    again.choose()
    again.look()
    assert read_json(path)["test"]["yacht"] == kept


def test_the_page_says_what_the_results_say() -> None:
    command.main(["--check"])
