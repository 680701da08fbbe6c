"""From a table to answers about new rows, by the command line."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

import tribayes as tb
from tests.own.cases import QUICK, complaint, fit, rows_of, write_csv
from tests.recipes.small import change_config, timeless, tribayes
from tribayes.own import judging
from tribayes.own.answers import CLASSES, VALUES
from tribayes.own.own_run import OwnRun
from tribayes.own.prepared import Form
from tribayes.prediction import ClassificationSummary, RegressionPredictive

pandas = pytest.importorskip("pandas", reason="tables are read with pandas")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("own") / "people.csv", rows_of())


@pytest.fixture(scope="module")
def values(table: Path) -> Path:
    """A run that predicts prices, with nothing said but the target and how long."""
    folder = table.parent / "values"
    answer = tribayes("fit", table, "--target", "price", "--ignore", "dear", "--run", folder, "--iterations", 150)
    assert (answer.code, answer.err) == (0, "")
    assert "'price' is learned as a number\nlearned from numbers: 'height'; words: 'colour'\n" in answer.out
    assert "column 'id' is left out: it has 200 different words, more than 100" in answer.out
    assert "column 'always' is left out: it says the same in all training rows" in answer.out
    assert "120 rows were trained on, 40 others set the widths of intervals and sets (calibration)" in answer.out
    assert answer.out.endswith(f"Next:\n  tribayes evaluate {folder}\n  tribayes report {folder}\n")
    return folder


@pytest.fixture(scope="module")
def classes(table: Path) -> Path:
    folder = table.parent / "classes"
    assert fit(table, folder, "--target", "dear", "--ignore", "price").code == 0
    return folder


def asked(run: Path, rows: list[dict[str, object]]) -> tuple[str, list[dict[str, str]]]:
    """What is said about new rows, and the table of answers."""
    data = write_csv(run.parent / "new.csv", rows)
    answer = tribayes("predict", run, data, "--samples", 20)
    assert (answer.code, answer.err) == (0, "")
    with (run / "predictions" / "new.csv").open(newline="") as file:
        return answer.out, list(csv.DictReader(file))


def test_values_are_learned_and_intervals_hold(values: Path) -> None:
    # 40 test rows, level 95 %: fewer than 32 inside has a probability of 1e-4 for exact intervals
    answer = tribayes("evaluate", values, "--samples", 50)
    assert "root mean square error" in answer.out
    assert "The 95 % conformal intervals hold" in answer.out
    found = json.loads((values / "evaluation.json").read_text())
    assert found["task"] == "regression"
    assert found["rmse"] < 8  # the prices' own standard deviation is 11
    assert found["conformal"]["covered"] >= 0.8


def test_answers_about_values_have_an_interval_each(values: Path) -> None:
    said, lines = asked(values, rows_of(30, seed=1))
    assert said == f"{values / 'predictions' / 'new.csv'}\n"
    assert list(lines[0]) == ["row", *VALUES, "remark"]
    assert [line["row"] for line in lines] == [str(number) for number in range(1, 31)]
    truth = [float(str(row["price"])) for row in rows_of(30, seed=1)]
    inside = [float(line["lower"]) <= y <= float(line["upper"]) for line, y in zip(lines, truth, strict=True)]
    assert sum(inside) >= 22  # of 30 at 95 %: fewer has a probability of 2e-5
    assert {line["certain"] for line in lines} <= {"yes", "no"}


def test_values_that_lie_far_from_zero_have_the_digits_that_tell_them_apart(tmp_path: Path) -> None:
    rows = [row | {"price": f"{1e9 + float(str(row['price'])):.3f}"} for row in rows_of()]
    assert fit(write_csv(tmp_path / "table.csv", rows), tmp_path / "run", "--target", "price").code == 0
    _, lines = asked(tmp_path / "run", rows[:3])
    for line in lines:
        lower, said, upper, std = (float(line[name]) for name in ("lower", "prediction", "upper", "std"))
        assert upper - lower > std
        assert (lower + upper) / 2 == pytest.approx(said, abs=1e-3, rel=0)  # of prices that differ by 11
    assert tribayes("report", tmp_path / "run", "--samples", 5).code == 0
    assert ">1e+09<" not in (tmp_path / "run" / "report.html").read_text()


def test_answers_are_those_of_the_library(values: Path) -> None:
    """By another way: the stored network, rows encoded by hand, `tribayes.predict`, back to the units."""
    _, lines = asked(values, rows_of(3, seed=1))
    run = OwnRun.open(values)
    model, form = run.network(CPU), run.form
    pred = run.ask(model, run.part("test", CPU).arguments[0], 20)
    again = tb.predict(model, run.part("test", CPU).arguments[0], 20, seed=pred.origin.seed, progress=False)  # type: ignore[union-attr]
    torch.testing.assert_close(pred.mean, again.mean.double() * form.target.std + form.target.mean)
    assert isinstance(pred, RegressionPredictive)
    torch.testing.assert_close(pred.std, again.std.double() * form.target.std)
    assert len(lines) == 3


def test_what_was_not_seen_makes_a_row_uncertain(values: Path) -> None:
    rows = rows_of(3, seed=1)
    rows[1]["colour"] = "mauve"
    said, lines = asked(values, rows)
    assert "1 of 3 rows hold what the training had hardly or not seen, and are called uncertain; row 2: colour " in said
    assert lines[1]["remark"] == "colour 'mauve' was not seen in training"
    assert lines[1]["certain"] == "no"
    assert lines[0]["remark"] == ""


def test_a_number_far_from_all_that_was_seen_makes_a_row_uncertain(values: Path) -> None:
    """Networks may agree about what none of them has learned."""
    column = next(column for column in OwnRun.open(values).form.inputs.columns if column.name == "height")  # type: ignore[union-attr]
    rows = rows_of(3, seed=1)
    rows[1]["height"], rows[2]["height"] = column.mean + 9.5 * column.std, column.mean - 1234.0 * column.std
    _, lines = asked(values, rows)
    assert [line["remark"] for line in lines] == ["", "", "height is 1,234 standard deviations from its mean"]
    assert lines[2]["certain"] == "no"


def test_new_rows_of_one_column_alone_are_answered(tmp_path: Path) -> None:
    rows = [{key: row[key] for key in ("colour", "dear")} for row in rows_of(100)]
    assert fit(write_csv(tmp_path / "table.csv", rows), tmp_path / "run", "--target", "dear").code == 0
    _, lines = asked(tmp_path / "run", [{"colour": "red"}, {"colour": "blue"}])
    assert [line["row"] for line in lines] == ["1", "2"]


def test_a_word_of_digits_is_the_same_alone_and_among_others(tmp_path: Path) -> None:
    """A table in which all codes are digits was read as numbers, and 001 was taken for one that had not been seen."""
    rows: list[dict[str, object]] = [{"code": ["001", "V10", "TRUE"][n % 3], "dear": "ny"[n % 2]} for n in range(100)]
    assert fit(write_csv(tmp_path / "table.csv", rows), tmp_path / "run", "--target", "dear").code == 0
    _, among = asked(tmp_path / "run", rows[:3])
    for number in (0, 2):
        _, alone = asked(tmp_path / "run", rows[number : number + 1])
        assert alone[0]["remark"] == ""
        numbers = [name for name in alone[0] if name.endswith(("entropy", "aleatoric", "epistemic"))]
        for name in numbers:  # a pass over three rows rounds its own way
            assert float(alone[0].pop(name)) == pytest.approx(float(among[number].pop(name)), rel=1e-3, abs=1e-6)
        assert alone[0] | {"row": str(number + 1)} == among[number]


def test_new_tables_that_do_not_fit_are_refused(values: Path, tmp_path: Path) -> None:
    rows = [{key: value for key, value in row.items() if key != "height"} for row in rows_of(3)]
    data = write_csv(tmp_path / "new.csv", rows)
    assert "but 'height' is not there; correct the name in its header" in complaint("predict", values, data)
    wrong = write_csv(tmp_path / "wrong.csv", [row | {"height": "tall"} for row in rows_of(3)])
    assert "must hold numbers alone" in complaint("predict", values, wrong)
    assert "be one table" in complaint("predict", values, data, wrong)
    wild = write_csv(tmp_path / "wild.csv", [row | {"height": "1e300"} for row in rows_of(3)])
    said = complaint("predict", values, wild)
    assert "column 'height', row 1: 1e+300\") must lie within 1,000,000 standard deviations of the mean" in said
    good = write_csv(tmp_path / "good.csv", rows_of(3))
    assert "not what is asked about" in complaint("predict", values, good, "--out", tmp_path)
    assert "not what is asked about" in complaint("predict", values, good, "--out", good)
    said = complaint("predict", values, good, "--out", tmp_path / "answers.parquet")
    assert "must be a CSV file: nothing else is written; end its name in .csv" in said


def test_classes_have_probability_entropies_and_a_set(classes: Path) -> None:
    _, lines = asked(classes, rows_of(20, seed=1))
    assert list(lines[0]) == ["row", *CLASSES, "remark"]
    for line in lines:
        assert line["prediction"] in ("yes", "no")
        assert line["prediction"] in line["set"].split(" | ")
        assert float(line["lower"]) <= float(line["probability"]) <= float(line["upper"])
        assert float(line["entropy"]) == pytest.approx(float(line["aleatoric"]) + float(line["epistemic"]), abs=1e-4)


def test_no_answer_is_a_formula(tmp_path: Path) -> None:
    """Names of classes and columns, and new words, may come from anyone; a spreadsheet would compute some of them."""
    rows = [{"=col": row["colour"], "kind": "=1+1" if row["dear"] == "yes" else "-2"} for row in rows_of()]
    assert fit(write_csv(tmp_path / "table.csv", rows), tmp_path / "run", "--target", "kind").code == 0
    _, lines = asked(tmp_path / "run", [{"=col": "red"}, {"=col": "green"}, {"=col": "@SUM(A1)"}])
    assert {line["prediction"] for line in lines} == {"'=1+1", "-2"}  # a number is none
    assert not any(line["set"].startswith("=") for line in lines)
    assert lines[2]["remark"] == "'=col '@SUM(A1)' was not seen in training"


NAMES = {
    "bytes that are no text": (os.fsdecode(b"\xff\xfe t.csv"), " t.csv"),
    "nearly 255 bytes": ("x" * 251 + ".csv", "x" * 200 + ".csv"),
    "an escape sequence": ("\x1b[2J[bold]t.csv", "\x1b[2J[bold]t.csv"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_any_name_is_learned_and_answered(name: str, tmp_path: Path) -> None:
    given, answers = NAMES[name]
    data = write_csv(tmp_path / given, rows_of())
    found = fit(data, tmp_path / "run", "--target", "dear", "--ignore", "price")
    assert (found.code, found.err) == (0, "")
    assert "\x1b" not in found.out
    assert tribayes("predict", tmp_path / "run", data, "--samples", 5).code == 0
    assert (tmp_path / "run" / "predictions" / answers).is_file()


def test_any_whole_number_is_a_seed(table: Path, tmp_path: Path) -> None:
    found = fit(table, tmp_path / "run", "--target", "dear", "--ignore", "price", "--seed", 10**30)
    assert (found.code, found.err) == (0, "")
    assert OwnRun.open(tmp_path / "run").seed == 10**30


def test_reports_say_which_rows_did_what(values: Path, classes: Path) -> None:
    for run, words in ((values, "The largest surprises"), (classes, "Can the uncertainty be trusted?")):
        assert tribayes("report", run, "--samples", 20).code == 0
        page = (run / "report.html").read_text()
        assert words in page
        assert "120 rows were trained on, 40 others set the widths" in page
        assert "conformal" in page


def test_runs_are_compared(values: Path, classes: Path) -> None:
    for run in (values, classes):
        assert tribayes("evaluate", run, "--samples", 20).code == 0
    assert "RMSE" in tribayes("compare", values, values).out
    assert "right certain" in tribayes("compare", classes).out
    assert "compare classes among themselves" in complaint("compare", values, classes)
    ClassificationSummary.from_dict(OwnRun.open(classes).evaluation())


@pytest.mark.parametrize("steps", [17, 31])
def test_a_killed_run_ends_with_the_same_bits(steps: int, table: Path, classes: Path, tmp_path: Path) -> None:
    words = ["fit", table, "--target", "dear", "--ignore", "price", "--run", tmp_path / "run", *QUICK]
    command = [sys.executable, "-m", "tests.recipes.killed", "step", steps, *words, "--checkpoint-seconds", 0]
    if steps == 31:  # there are 30: it dies when the trained network gets its name, after the calibration
        renames = _renames_until("final.safetensors", tmp_path, words)
        command = [sys.executable, "-m", "tests.recipes.killed", "rename", renames, *words]
    assert subprocess.run(list(map(str, command)), capture_output=True, check=False).returncode == -9
    assert not (tmp_path / "run" / "final.safetensors").exists()
    answer = tribayes("fit", "--resume", "--run", tmp_path / "run")
    assert answer.code == 0, answer.err
    for name in ("final.safetensors", "calibration.json", "schema.json", "examples.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (classes / name).read_bytes(), name
    assert timeless(tmp_path / "run" / "metrics.jsonl") == timeless(classes / "metrics.jsonl")


def _renames_until(name: str, folder: Path, words: list[object]) -> int:
    """How many files get their name up to this one: counted in a run of its own."""
    seen: list[str] = []
    rename = os.replace

    def noted(source: object, target: object) -> None:
        seen.append(Path(str(target)).name)
        rename(source, target)  # type: ignore[arg-type]

    with patch.object(os, "replace", noted):
        assert tribayes(*[folder / "counted" if word == folder / "run" else word for word in words]).code == 0
    return seen.index(name) + 1


def test_a_start_that_was_cut_short_is_begun_again(table: Path, classes: Path, tmp_path: Path) -> None:
    words = ["fit", table, "--target", "dear", "--ignore", "price", "--run", tmp_path / "run", *QUICK]
    command = [sys.executable, "-m", "tests.recipes.killed", "rename", 3, *words]
    assert subprocess.run(list(map(str, command)), capture_output=True, check=False).returncode == -9
    assert not (tmp_path / "run" / "config.json").exists()
    assert tribayes(*words).code == 0
    assert (tmp_path / "run" / "final.safetensors").read_bytes() == (classes / "final.safetensors").read_bytes()


def test_a_resumed_run_is_the_one_that_was_begun(table: Path, classes: Path) -> None:
    assert tribayes("fit", "--resume", "--run", classes).out.startswith(f"{classes} is finished already.")
    assert "be 0, as" in complaint("fit", "--resume", "--run", classes, "--seed", 3)
    assert "be 30, as" in complaint("fit", table, "--resume", "--run", classes, "--iterations", 31)
    assert "be a new or empty folder" in complaint("fit", table, "--target", "dear", "--run", classes)
    again = ("fit", table, "--resume", "--run", classes, "--target")
    assert tribayes(*again, "dear", "--ignore", "price").code == 0
    assert "`--target` (='price') must be 'dear', as" in complaint(*again, "price")
    assert "`--ignore` (='height') must be a column that" in complaint(*again, "dear", "--ignore", "height")
    other = write_csv(table.parent / "others.csv", rows_of())
    assert "`DATA` (='others') must be 'people', as" in complaint("fit", other, "--resume", "--run", classes)


def test_a_schema_that_was_changed_is_refused(classes: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(classes, run)
    stored = json.loads((run / "schema.json").read_text())
    stored["columns"][0]["mean"] += 1
    (run / "schema.json").write_text(json.dumps(stored))
    assert "schema.json is not as it was written; restore it" in complaint("evaluate", run)
    (run / "schema.json").unlink()
    assert "have its schema.json" in complaint("evaluate", run)


COLUMN = {"name": "x", "kind": "number", "mean": 0.0, "std": 1.0, "categories": [], "missing": False}
DAMAGE: dict[str, object] = {
    "no columns": {"columns": []},
    "a column without a scale": {"columns": [COLUMN | {"std": 0.0}]},
    "a mean that is a word": {"columns": [COLUMN | {"mean": "0"}]},
    "an unknown entry": {"code": "import os"},
    "one class": {"target": {"name": "y", "classes": ["a"], "mean": 0.0, "std": 1.0}},
    "notes that are no text": {"notes": [1]},
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_schema_is_checked_value_by_value(name: str, classes: Path) -> None:
    stored = OwnRun.open(classes).form.as_dict()
    assert Form.from_dict(json.loads(json.dumps(stored))) == OwnRun.open(classes).form
    with pytest.raises(ValueError, match=r"schema\.json was changed or is damaged"):
        Form.from_dict(stored | DAMAGE[name])  # type: ignore[operator]


def test_rows_without_a_target_are_left_out_and_said(tmp_path: Path) -> None:
    rows = [row | ({"price": ""} if number < 7 else {}) for number, row in enumerate(rows_of(100))]
    data = write_csv(tmp_path / "table.csv", rows)
    answer = fit(data, tmp_path / "run", "--target", "price", "--ignore", "dear")
    assert "7 of 100 rows have no 'price', and are left out" in answer.out
    run = OwnRun.open(tmp_path / "run")
    assert len(run.prepared.targets) == 93


def test_parquet_is_the_same_table(table: Path, classes: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet is read with pyarrow")
    data = tmp_path / "people.parquet"
    pandas.read_csv(table).to_parquet(data)
    assert fit(data, tmp_path / "run", "--target", "dear", "--ignore", "price").code == 0
    ours, theirs = OwnRun.open(tmp_path / "run"), OwnRun.open(classes)
    assert ours.form == theirs.form
    assert torch.equal(ours.prepared.inputs, theirs.prepared.inputs)
    said = [judging.tested(run, run.network(CPU), 5, False)[0].mean for run in (ours, theirs)]
    assert torch.equal(*said)


def test_a_network_of_ones_own_is_named_again(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_nets.py").write_text(
        "from torch import nn\n"
        "def build(shape, outputs):\n    return nn.Sequential(nn.Linear(*shape, 5), nn.Tanh(), nn.Linear(5, outputs))\n"
        "def wrong(shape, outputs):\n    return nn.Linear(3, outputs)\n"
        "def nothing(shape, outputs):\n    return None\n"
    )
    words = ("--target", "dear", "--ignore", "price", "--network")
    answer = fit(table, tmp_path / "run", *words, "own_nets:build")
    assert f"tribayes evaluate {tmp_path / 'run'} --network own_nets:build\n" in answer.out
    assert "pass --network own_nets:build if you trust it" in complaint("evaluate", tmp_path / "run")
    assert tribayes("evaluate", tmp_path / "run", "--samples", 5, "--network", "own_nets:build").code == 0
    at = ("fit", table, "--run", tmp_path / "other", *words)
    assert "take inputs of shape" in complaint(*at, "own_nets:wrong")
    assert "return an nn.Module" in complaint(*at, "own_nets:nothing")
    assert "be there (" in complaint(*at, "own_nets:absent")
    assert "or module:function" in complaint(*at, "absent")
    assert not (tmp_path / "other").exists()


def test_options_that_a_run_has_no_use_for_are_refused(classes: Path) -> None:
    """Who named a network was answered by another."""
    for command, *files in (("evaluate",), ("report",), ("predict", classes.parent / "people.csv")):
        at = (command, classes, *files)
        assert complaint(*at, "--network", "nets:build").endswith("with which the run was made; leave it out.")
        assert "`--data-dir` (='/data') must be for experiments" in complaint(*at, "--data-dir", "/data")
    assert tribayes("evaluate", classes, "--samples", 5, "--network", "mlp").code == 0


def test_a_config_that_was_changed_is_refused(classes: Path, tmp_path: Path) -> None:
    shutil.copytree(classes, tmp_path / "run")
    config = json.loads((tmp_path / "run/config.json").read_text())["setting"]
    change_config(tmp_path / "run/config.json", setting=config | {"width": "wide"})
    assert "`setting.width` (='wide') must be of its type" in complaint("evaluate", tmp_path / "run")
    change_config(tmp_path / "run/config.json", setting=config | {"width": 60})
    assert "belongs to another run" in complaint("evaluate", tmp_path / "run")


def test_the_version() -> None:
    answer = tribayes("--version")
    assert (answer.code, answer.out) == (0, f"tribayes {tb.__version__}\n")
