"""The study of the defaults: its rule, its criterion and its page, and a run of a few steps."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import tribayes as tb
from benchmarks.defaults import __main__ as command
from benchmarks.defaults import classification, regression
from benchmarks.defaults.judging import Rows, Trained, judged_on_held_out, judged_on_test
from benchmarks.defaults.keeping import Keep
from benchmarks.defaults.picture import picture
from benchmarks.defaults.plan import DIAGONAL, PLAIN, PRIORS, SHARES, TASKS, USUAL, Arm, Job, kl_weight, queue
from benchmarks.defaults.results import RESULTS, Record, Results, values
from benchmarks.defaults.running import run
from benchmarks.defaults.verdict import excess, mean_nll, verdict
from benchmarks.uci.splits import Split


def silent(amount: float = 1, remark: str = "") -> None:
    del amount, remark


def made_up(seeds: int = 2) -> list[Record]:
    """Records of two tasks: concrete is best at c = 0.1, the digits a little better at 1."""
    surprise = {"concrete": (3.4, 3.2, 3.0, 3.3, 3.9), "digits-mlp": (0.15, 0.14, 0.13, 0.125, 0.12)}
    found = []
    for task, row in surprise.items():
        for arm in TASKS[task].arms:
            nll = 0.14 if arm == PLAIN else row[SHARES.index(arm.share)] + 0.05 * (arm.prior == "paper")
            for seed in range(seeds):
                figures = {"nll": nll + 0.01 * seed, TASKS[task].miss: 0.5, TASKS[task].trust: 0.9}
                if arm != PLAIN:
                    figures |= {"rest_nll": nll, "calibrated_nll": nll - 0.01, "tau_factor": 1.5}
                found.append(Record(task, arm, seed, figures, 1.0))
    return found


def test_the_rule_at_the_usual_share_is_that_of_the_product() -> None:
    model = tb.to_bayesian(torch.nn.Linear(30, 20))
    elbo = tb.ELBO(tb.Categorical(), data_size=60)
    elbo(model, torch.randn(4, 30), torch.zeros(4, dtype=torch.long))
    assert elbo.weight() == kl_weight(USUAL, rows=60, weights=620)


@pytest.mark.parametrize("task", [task for task in TASKS.values() if not task.regression], ids=lambda task: task.name)
def test_weights_of_image_networks_are_as_stated(task) -> None:
    assert classification.weights_of(tb.to_bayesian(classification.network(task.name))) == task.weights


@pytest.mark.parametrize(("name", "inputs"), [("concrete", 8), ("energy", 8), ("yacht", 6)])
def test_weights_of_regressions_are_as_stated(name: str, inputs: int) -> None:
    task = TASKS[name]
    objective = regression.Objective(inputs, task.rows, Arm("paper"))
    assert classification.weights_of(objective.model) == task.weights
    assert objective.elbo.weight() == kl_weight(USUAL, task.rows, task.weights)


def test_every_job_is_queued_once_and_first_seeds_come_first() -> None:
    jobs = list(queue(list(TASKS.values())))
    assert len(jobs) == len(set(jobs))
    for task in TASKS.values():
        own = [job for job in jobs if job.task == task]
        wanted = {(prior, share) for prior in PRIORS for share in SHARES}
        assert wanted <= {(job.arm.prior, job.arm.share) for job in own}
        assert DIAGONAL in {job.arm for job in own}
        assert sorted({seed for job in own for seed in job.seeds}) == list(range(task.seeds))
    firsts = [job.seeds[0] for job in jobs]
    assert firsts == sorted(firsts)
    assert {job.seeds for job in queue([TASKS["digits-mlp"]], seeds=1)} == {(0,)}


def test_the_smallest_worst_excess_decides() -> None:
    table = excess(mean_nll(made_up(), "relative"))
    found = verdict(table)
    assert table["concrete"] == pytest.approx(dict(zip(SHARES, (0.4, 0.2, 0, 0.3, 0.9), strict=True)))
    assert found.share == found.by_mean == 0.1
    assert found.worst[0.1] == pytest.approx(0.01)
    assert verdict(table, ["digits-mlp"]).share == 1.0
    assert verdict({}) is None


def test_a_task_without_every_share_does_not_count() -> None:
    records = [one for one in made_up() if (one.task, one.arm) != ("concrete", Arm("relative", share=1.0))]
    assert set(mean_nll(records, "relative")) == {"digits-mlp"}
    assert set(mean_nll(records, "paper")) == {"concrete", "digits-mlp"}


def test_means_are_over_seeds_that_all_shares_have() -> None:
    records = [one for one in made_up() if one.seed == 0 or one.arm.share != 1.0]
    assert mean_nll(records, "relative")["concrete"][0.1] == pytest.approx(3.0)


def test_the_page_and_its_check(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    results = Results(tmp_path / "defaults.json")
    results.add(made_up(), test=False)
    options = ["--results", str(results.path), "--docs", str(tmp_path)]
    command.main(["--page", *options])
    command.main(["--check", *options])
    page = (tmp_path / "defaults.md").read_text()
    assert "| UCI concrete | 2 | 3.005 | 0.400 | 0.200 | **0.000** | 0.300 | 0.900 |" in page
    assert "| UCI concrete | 2 | −0.0500 (−0.0500 to −0.0500) |" in page  # relative minus paper's
    assert "- Fashion-MNIST, LeNet-100: nothing was run" in page
    assert "UCI concrete: 11 arms have 2 of 10 seeds" in page
    assert "Not yet looked at." in page
    results.add([replace(one, figures={**one.figures, "nll": 0.0}) for one in made_up()], test=True)
    with pytest.raises(SystemExit, match=r"defaults\.md is not what the results say"):
        command.main(["--check", *options])


def test_a_page_of_nothing_says_so(tmp_path: Path) -> None:
    page = command.texts(Results(tmp_path / "none.json"), tmp_path)[tmp_path / "defaults.md"]
    assert page.count("Nothing has been run yet.") >= 5


def test_the_picture_has_a_line_for_every_task_and_prior() -> None:
    tables = {prior: excess(mean_nll(made_up(), prior)) for prior in PRIORS}
    drawn = picture(tables)
    assert drawn.count("<polyline") == 4
    assert drawn == picture(tables)


def test_test_rows_are_asked_with_the_rule_and_with_what_was_found() -> None:
    results = Results(None)
    with pytest.raises(SystemExit, match="c is not chosen yet"):
        command.tested(results)
    results.held_out = made_up()
    assert set(command.tested(results)) == {Arm("relative"), Arm("paper"), DIAGONAL, PLAIN}
    results.held_out = [one for one in made_up() if one.task != "concrete"]
    assert {arm.share for arm in command.tested(results)} == {0.0, 0.1, 1.0}


def test_half_of_the_held_out_rows_calibrate_and_the_other_half_judges() -> None:
    """A likelihood that is far too sure: calibrated on one half, it is better on the other."""
    torch.manual_seed(0)
    model, likelihood = tb.to_bayesian(torch.nn.Linear(2, 1)), tb.Gaussian(noise=0.01)
    rows = Rows(torch.randn(80, 2), torch.randn(80))
    trained = Trained(model, likelihood, unit=2.0)
    found = judged_on_held_out(trained, rows, networks=5, seed=0)
    assert found["calibrated_nll"] < found["rest_nll"]
    assert float(likelihood.noise) == pytest.approx(0.01, rel=1e-4)  # put back
    again = judged_on_test(trained, rows.part(40), rows.part(0, 40), networks=5, seed=0)
    assert again["rest_nll"] == again["nll"] == pytest.approx(found["rest_nll"])
    assert again["calibrated_nll"] == pytest.approx(found["calibrated_nll"])


def test_a_regression_keeps_held_out_and_test_rows_apart() -> None:
    split = Split(torch.randn(50, 3).double(), torch.arange(50.0).double(), torch.ones(5, 3).double(), torch.ones(5))
    one = regression.Table.of(split, seed=0)
    assert (len(one.train.targets), len(one.held_out.targets), len(one.test.targets)) == (40, 10, 5)
    seen = torch.cat([one.train.targets, one.held_out.targets]) * one.unit
    assert torch.allclose((seen - seen.min()).sort().values, torch.arange(50.0), atol=1e-4)


def test_a_few_steps_are_stored_and_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = replace(TASKS["digits-mlp"], length=1, networks=3)
    jobs = [Job(task, arm, (0,)) for arm in (Arm("relative"), PLAIN)]
    results, keep = Results(tmp_path / "defaults.json"), Keep(tmp_path / "kept")
    assert run(jobs, results, keep, None, test=False, seconds=-1) == 2
    assert run(jobs, results, keep, None, test=False, seconds=100) == 0
    assert capsys.readouterr().out.count("digits-mlp") == 2
    stored = Results(results.path)
    assert all(stored.has(job, test=False) for job in jobs)
    assert not stored.has(jobs[0], test=True)
    assert run(jobs, stored, keep, None, test=False, seconds=100) == 0
    assert capsys.readouterr().out == ""
    assert set(values(stored.held_out, "digits-mlp", PLAIN, "ece")) == {0}
    assert str(tmp_path) not in results.path.read_text()


def test_what_was_kept_is_asked_again_without_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = replace(TASKS["digits-mlp"], length=1)
    job, data = Job(task, Arm("paper"), (0,)), classification.images("digits-mlp", None)
    first = classification.trained(job, data, Keep(tmp_path), silent)
    monkeypatch.setattr(classification, "train", pytest.fail)
    again = classification.trained(job, data, Keep(tmp_path), silent)
    torch.testing.assert_close(list(again.model.parameters()), list(first.model.parameters()), rtol=0, atol=0)


def test_the_page_is_up_to_date() -> None:
    if not RESULTS.is_file():
        pytest.skip("nothing has been run yet")
    assert json.loads(RESULTS.read_text())["held_out"]
    command.main(["--check"])
