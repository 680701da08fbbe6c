"""The coverage benchmark counts what it says, on made-up data; its page is that of the stored figures."""

from __future__ import annotations

import doctest
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tribayes as tb
from benchmarks import peers
from benchmarks.coverage import __main__ as command
from benchmarks.coverage import document, figures, runs, ways
from benchmarks.coverage.cases import TASKS, Case, Recipe, Rows, class_case, regression_case
from benchmarks.coverage.runs import Job, Results
from benchmarks.coverage.training import trained
from benchmarks.modern.figures import Difference
from benchmarks.uci.splits import Split

SHORT = Recipe(hidden=4, outputs=1, steps=6, batch=16)
THREE = Recipe(hidden=4, outputs=3, steps=6, batch=16)


@pytest.fixture(autouse=True)
def _no_peer_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def silent(amount: float = 1, remark: str = "") -> None:
    del amount, remark


def values(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    return inputs, 5 + inputs.sum(-1) + 0.3 * torch.randn(count, generator=generator, dtype=torch.float64)


@pytest.fixture
def case() -> Case:
    return regression_case(Split(*values(350), *values(40, seed=1)), seed=0)


@pytest.fixture
def classes() -> Case:
    inputs, targets = values(390)
    rows = Rows(inputs.float(), (targets - 4).clamp(0, 2).long())
    return class_case(rows[:350], rows[350:], 70, seed=0)


def test_examples_in_docstrings() -> None:
    for module in (figures, document):
        failures, tried = doctest.testmod(module)
        assert tried
        assert not failures


def test_parts_of_a_case_share_no_row_and_are_in_units_of_the_rows_trained_on(case: Case) -> None:
    raw = values(350)[1]
    seen = torch.cat([case.train.targets, case.held.targets]).double() * case.unit
    torch.testing.assert_close((seen - seen.mean()).sort().values, (raw - raw.mean()).sort().values, atol=1e-4, rtol=0)
    assert [len(part) for part in (case.train, case.held, case.test)] == [280, 70, 40]
    torch.testing.assert_close(case.train.targets.std(correction=0), torch.tensor(1.0))


def test_class_rows_are_shared_out(classes: Case) -> None:
    assert [len(part) for part in (classes.train, classes.held, classes.test)] == [280, 70, 40]
    assert abs(float(classes.train.inputs.mean())) < 1e-5
    rows = torch.cat([classes.train.inputs, classes.held.inputs])
    assert len(rows.unique(dim=0)) == 350


def test_interval_figures_by_hand() -> None:
    lower, upper = torch.tensor([0.0, 0.0, 0.0, 0.0]), torch.tensor([1.0, 2.0, 1.0, 4.0])
    found = figures.interval_figures((lower, upper), torch.tensor([0.5, 3.0, 1.0, 1.0]), torch.tensor([0, 0, 1, 1]), 10)
    assert found == {"coverage": 0.75, "width": 20.0, "worst": 0.5}


def test_set_figures_by_hand() -> None:
    sets = torch.tensor([[True, False, False], [True, True, False], [False, False, True]])
    found = figures.set_figures(sets, torch.tensor([0, 1, 0]), torch.tensor([0, 0, 2]))
    assert found["coverage"] == pytest.approx(2 / 3)
    assert (found["width"], found["worst"]) == (pytest.approx(4 / 3), 0.0)


def test_equal_values_are_shared_out_among_quartiles() -> None:
    assert figures.quartiles(torch.ones(8)).bincount().tolist() == [2, 2, 2, 2]


def test_the_worst_group_by_chance_is_that_of_draws() -> None:
    # 20,000 draws of a share with a standard deviation below 0.05: off by 0.0015 once in 50,000 seeds at most
    draws = torch.distributions.Binomial(40, torch.tensor(0.9)).sample((20_000, 4)) / 40
    assert figures.expected_worst(0.9, 40, 4) == pytest.approx(float(draws.amin(1).mean()), abs=1.5e-3)
    assert figures.expected_worst(0.95, 3000, 1) == pytest.approx(0.95, abs=1e-6)


def test_calibrate_has_no_fewer_rows_than_it_asks_for() -> None:
    rows = Rows(torch.zeros(55, 1), torch.zeros(55))
    assert [len(part) for part in ways.halves(rows)] == [30, 25]
    assert [len(part) for part in ways.halves(rows[:50])] == [30, 20]
    many = Rows(torch.zeros(100, 1), torch.zeros(100))
    assert [len(part) for part in ways.halves(many)] == [50, 50]


def test_every_way_answers_and_leaves_the_network_as_it_was(case: Case, tmp_path: Path) -> None:
    (objective,) = trained([case], [0], SHORT, "auto", silent)
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    found = ways.split_figures(objective, case, 0, tmp_path)
    ours = set(ways.REGRESSION) - {ways.ABSOLUTE, ways.NORMALISED, ways.QUANTILES}
    assert ours <= set(found["ways"]) <= set(ways.REGRESSION)
    for by_level in found["ways"].values():
        assert by_level["0.9"]["coverage"] <= by_level["0.95"]["coverage"]
        assert by_level["0.9"]["width"] <= by_level["0.95"]["width"]
        assert by_level["0.9"]["worst"] <= by_level["0.9"]["coverage"]
    for name, value in objective.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_every_way_answers_about_classes(classes: Case, tmp_path: Path) -> None:
    (objective,) = trained([classes], [0], THREE, "auto", silent)
    found = ways.split_figures(objective, classes, 0, tmp_path)
    assert {f"{ways.SAME}, cumulative", ways.SCALED, ways.TRAINED} <= set(found["ways"])
    assert all(1 <= by_level["0.95"]["width"] <= 3 for by_level in found["ways"].values())
    assert objective.likelihood.temperature is None


def test_networks_trained_together_start_apart(case: Case) -> None:
    one, other = trained([case, case], [0, 1], SHORT, 0.01, silent)
    assert runs.objective_weight(one) == 0.01
    assert not torch.equal(*(next(iter(objective.model.parameters())) for objective in (one, other)))


@pytest.fixture
def mapie() -> Any:
    try:
        peers.find("mapie")
    except peers.NotInstalled:
        pytest.skip("MAPIE is not installed: python -m benchmarks.peers.install")
    from benchmarks.peers import mapie

    return mapie


def test_lac_is_our_probability_score_but_for_empty_sets(mapie: Any) -> None:
    torch.manual_seed(0)
    model = tb.to_bayesian(torch.nn.Linear(3, 4))
    held, new = torch.randn(60, 3), torch.randn(25, 3)
    truth = torch.randint(4, (60,))
    seen, asked = (tb.predict(model, x, 20, progress=False) for x in (held, new))
    sets = mapie.class_sets(seen.mean, truth, asked.mean, (0.9,), "lac")[0.9]
    sets[torch.arange(25), asked.label] = True
    assert torch.equal(sets, tb.conformalise(seen, truth).sets(asked, 0.9))


def test_absolute_residuals_have_the_conformal_rank(mapie: Any) -> None:
    torch.manual_seed(0)
    truth, known, new = torch.randn(39).double(), torch.zeros(39, 1), torch.zeros(2, 1)
    lower, upper = mapie.residual_intervals(known, truth, new, (0.9,))[0.9]
    rank = math.ceil(40 * 0.9)
    torch.testing.assert_close((upper - lower) / 2, truth.abs().sort().values[rank - 1].expand(2))


def split(shift: float, mapie: bool = True, classes: bool = False) -> dict[str, Any]:
    """Figures of one split, made up."""
    names = [way for way in (ways.CLASSIFICATION if classes else ways.REGRESSION) if mapie or "MAPIE" not in way]
    one = {f"{level:g}": {"coverage": level - shift, "width": 1 + shift, "worst": level / 2} for level in ways.LEVELS}
    factors = {"tau_factor": 1.5, "noise_factor": 2.0, "temperature": 1.0}
    calibration = {ways.CALIBRATED: factors} | ({ways.SCALED: factors} if classes else {})
    rows = {"train": 222, "held": 55, "test": 31}
    rest = {"rmse": 1.0, "error": 0.1, "kl_weight": 0.05, "seconds": 1.0}
    return {"rows": rows, "calibration": calibration, "ways": dict.fromkeys(names, one), **rest}


def test_what_is_stored_is_not_run_again(tmp_path: Path) -> None:
    job = Job(TASKS["yacht"], (0, 1))
    results = Results(tmp_path / "coverage.json")
    assert not results.has(job)
    results.add(job, [split(0.0), split(0.1)])
    again = Results(results.path)
    assert again.has(job)
    assert not again.has(Job(TASKS["yacht"], (0, 1, 2)))
    assert not again.has(Job(TASKS["yacht"], (0, 1), 1.0))
    command.main(["--set", "yacht", "--results", str(_filled(tmp_path)), "--into", str(tmp_path / "page.md")])
    assert "### yacht" in (tmp_path / "page.md").read_text()


def _filled(folder: Path) -> Path:
    results = Results(folder / "full.json")
    results.add(Job(TASKS["yacht"], tuple(range(20))), [split(0.3 + 0.002 * number) for number in range(20)])
    return results.path


def test_the_page_marks_what_falls_short(tmp_path: Path) -> None:
    text = document.document(Results(_filled(tmp_path)))
    assert "| as trained | **−31.9** | **−31.9** |" in text
    assert "| conformal | 2 | 2 | 0 | 0 | −31.9 |" in text


def test_without_mapie_its_rows_are_left_out(tmp_path: Path) -> None:
    results = Results(tmp_path / "coverage.json")
    results.add(Job(TASKS["digits"], (0, 1, 2)), [split(0.001 * n, mapie=False, classes=True) for n in range(3)])
    results.made_with["mapie"] = None
    text = document.document(results)
    assert "| MAPIE" not in text
    assert "MAPIE not installed" in text
    assert "set size" in text


def test_differences_are_written_with_their_interval() -> None:
    assert document.difference_text(Difference(-0.1, -0.2, -0.05, 5), 100) == "**−10.0 (−20.0 to −5.0)**"
    assert document.difference_text(Difference(0.1, -0.2, 0.4, 5), 1) == "+0.1 (−0.2 to +0.4)"


def test_the_page_is_up_to_date() -> None:
    command.main(["--check"])
