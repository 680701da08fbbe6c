"""The UCI benchmark does what it says, on a small made-up data folder."""

import copy
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import tribayes as tb
from benchmarks.uci import __main__ as command
from benchmarks.uci import document as written
from benchmarks.uci import results as results_file
from benchmarks.uci.document import document
from benchmarks.uci.recipe import FAMILIES, SETS, Recipe
from benchmarks.uci.results import RESULTS, TABLE, Measurement, Results
from benchmarks.uci.splits import Split, Standardised, load_splits
from benchmarks.uci.training import Figures, Objective, assess, train

ROWS, FEATURES, TEST_ROWS, SPLITS = 40, 3, 8, 2
SHORT = Recipe(steps=6, batch_size=16, kl_weight=0.1)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A folder laid out as the real one: three sets with two splits each."""
    rng = np.random.default_rng(0)
    for name in SETS:
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        inputs = rng.normal(5, [1, 10, 0.1], (ROWS, FEATURES))
        targets = inputs @ [3.0, 0.2, -1] + rng.normal(0, 1, ROWS)
        np.savetxt(folder / "data.txt", np.column_stack([inputs, targets]))
        np.savetxt(folder / "index_features.txt", np.arange(FEATURES), fmt="%d")
        np.savetxt(folder / "index_target.txt", [FEATURES], fmt="%d")
        np.savetxt(folder / "n_splits.txt", [SPLITS], fmt="%d")
        for split in range(SPLITS):
            order = rng.permutation(ROWS)
            np.savetxt(folder / f"index_test_{split}.txt", order[:TEST_ROWS], fmt="%d")
            np.savetxt(folder / f"index_train_{split}.txt", order[TEST_ROWS:], fmt="%d")
    return tmp_path / "data"


@pytest.fixture
def splits(data_dir: Path) -> list[Split]:
    return load_splits(data_dir / "yacht", SPLITS)


def silent(amount: float = 1, remark: str = "") -> None:
    del amount, remark


def objective(recipe: Recipe = SHORT, family: str = "tridiagonal") -> Objective:
    torch.manual_seed(0)
    return Objective(FEATURES, ROWS - TEST_ROWS, family, recipe)


def test_splits_hold_the_rows_of_their_index_files(data_dir: Path, splits: list[Split]) -> None:
    table = np.loadtxt(data_dir / "yacht" / "data.txt")
    rows = np.loadtxt(data_dir / "yacht" / "index_test_1.txt", dtype=int)
    np.testing.assert_array_equal(splits[1].test_inputs, table[rows, :FEATURES])
    np.testing.assert_array_equal(splits[1].test_targets, table[rows, FEATURES])
    assert len(splits[1].train_targets) == ROWS - TEST_ROWS


def test_standardised_on_the_training_rows_only(splits: list[Split]) -> None:
    data = Standardised.of(splits[0])
    shifted = Standardised.of(replace(splits[0], test_inputs=splits[0].test_inputs + 100))
    torch.testing.assert_close(data.split.train_inputs.mean(0), torch.zeros(FEATURES), rtol=0, atol=1e-5)
    torch.testing.assert_close(data.split.train_inputs.std(0, correction=0), torch.ones(FEATURES))
    torch.testing.assert_close(shifted.split.train_inputs, data.split.train_inputs, rtol=0, atol=0)
    moved = (shifted.split.test_inputs - data.split.test_inputs).mean(0).double()
    torch.testing.assert_close(moved, 100 / splits[0].train_inputs.std(0, correction=0), rtol=1e-4, atol=0)


def test_a_constant_feature_does_no_harm(splits: list[Split]) -> None:
    constant = replace(splits[0], train_inputs=torch.ones_like(splits[0].train_inputs))
    assert Standardised.of(constant).split.train_inputs.eq(0).all()


def test_validation_uses_training_rows_only(splits: list[Split]) -> None:
    inner = splits[0].held_out(seed=0)
    rows = torch.cat([inner.train_targets, inner.test_targets]).sort().values
    assert torch.equal(rows, splits[0].train_targets.sort().values)
    assert len(inner.test_targets) == round(0.2 * (ROWS - TEST_ROWS))


def test_figures_are_in_the_units_of_the_data(splits: list[Split]) -> None:
    """With almost no weight noise the predictive is N(f(x), noise²), whose figures are known in closed form."""
    certain = objective(replace(SHORT, tau=1e-6, noise=0.7))
    data = Standardised.of(splits[0])
    with torch.no_grad():
        standard = certain.model.apply_weights({}, data.split.test_inputs).squeeze(-1).double()
    train = splits[0].train_targets
    spread = train.std(correction=0)
    errors = splits[0].test_targets - (train.mean() + spread * standard)
    log_density = torch.distributions.Normal(0.0, 0.7 * spread).log_prob(errors)
    figures = assess(certain, data, seed=0)
    assert figures.rmse == pytest.approx(float(errors.square().mean().sqrt()), rel=1e-4)
    assert figures.log_likelihood == pytest.approx(float(log_density.mean()), rel=1e-4)
    assert figures.noise == pytest.approx(0.7 * float(spread), rel=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_stack_of_one_is_the_plain_training_loop(splits: list[Split], family: str) -> None:
    recipe = replace(SHORT, batch_size=0, correlation_lr_multiplier=5.0)
    stacked, plain = objective(recipe, family), objective(recipe, family)
    split = Standardised.of(splits[0]).split
    torch.manual_seed(1)
    train([stacked], [split], recipe, silent)
    torch.manual_seed(1)
    groups = tb.parameter_groups(plain.model, recipe.lr, 5.0, likelihood=plain.likelihood)
    optimizer = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.steps)
    batch = [(split.train_inputs, split.train_targets.unsqueeze(-1))]
    tb.fit(plain.model, plain.elbo, batch, optimizer, epochs=recipe.steps, scheduler=schedule, progress=False)
    tb.stabilise_(plain)
    for (name, ours), theirs in zip(stacked.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6, msg=name)


def test_members_of_a_stack_do_not_disturb_each_other(splits: list[Split]) -> None:
    first, second = (Standardised.of(split).split for split in splits)
    alone = []
    for other in (second, replace(second, train_targets=second.train_targets.flip(0))):
        pair = [objective(), copy.deepcopy(objective())]
        torch.manual_seed(2)
        train(pair, [first, other], SHORT, silent)
        alone.append(list(pair[0].parameters()))
    torch.testing.assert_close(alone[0], alone[1], rtol=0, atol=0)


def test_the_whole_way_on_a_small_folder(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (results_file, written):
        monkeypatch.setattr(module, "finalists", lambda: [SHORT, replace(SHORT, kl_weight=1.0)])
    monkeypatch.setattr(command, "TABLE", tmp_path / "uci.md")
    path = tmp_path / "results" / "uci.json"
    common = ["--data-dir", str(data_dir), "--splits", "2", "--results", str(path)]
    command.main([*common, "--choose"])
    command.main(common)
    results = Results(path)
    assert {(one.data_set, one.family) for one in results.tests} == {(s, f) for s in SETS for f in FAMILIES}
    assert all(math.isfinite(value) for one in results.tests for value in one.values("log_likelihood"))
    assert str(tmp_path) not in path.read_text()
    command.main(["--table", "--results", str(path)])
    assert "| yacht | tridiagonal |" in (tmp_path / "uci.md").read_text()

    results.tests.pop()
    results.save()
    ran = []
    monkeypatch.setattr(results_file, "run", lambda *job: ran.append(job[1]) or results.validation[0].figures)
    command.main([*common, "--resume"])
    assert len(ran) == 1
    assert [file.name for file in path.parent.iterdir()] == ["uci.json"]


def test_missing_files_are_named(data_dir: Path) -> None:
    (data_dir / "energy" / "index_train_1.txt").unlink()
    with pytest.raises(SystemExit, match=r"missing file index_train_1\.txt in .*energy"):
        load_splits(data_dir / "energy", 2)
    with pytest.raises(SystemExit, match="holds 2 splits"):
        load_splits(data_dir / "yacht", 3)


def test_a_missing_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="there is no folder"):
        command.main(["--data-dir", str(tmp_path / "nowhere")])
    monkeypatch.delenv("TRIBAYES_DATA", raising=False)
    with pytest.raises(SystemExit, match="TRIBAYES_DATA"):
        command.main([])


def test_tests_need_a_choice_first(data_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--choose"):
        command.main(["--data-dir", str(data_dir), "--splits", "1", "--results", str(tmp_path / "none.json")])


def test_the_document_is_up_to_date() -> None:
    assert document(Results(RESULTS)) == TABLE.read_text(), "run: python -m benchmarks.uci --table"


def test_what_is_within_error_is_not_called_better() -> None:
    """Beside a published mean by both errors, and beside the other family split by split."""

    def measured(family: str, values: list[float]) -> Measurement:
        figures = tuple(Figures(1.0, value, 0.95, 1.0) for value in values)
        return Measurement("yacht", family, Recipe(), figures, 0, 1.0)

    ours = measured("tridiagonal", [-1.0, -1.2, -0.8, -1.0])  # −1 ± 0.08
    assert written._beside(ours, -1.0, 0.0) == "+0.00 ± 0.08, within error"
    assert written._beside(ours, -1.2, 0.0) == "+0.20 ± 0.08, within error"  # Student's 3.18 errors are 0.26
    assert written._beside(ours, -1.3, 0.0) == "+0.30 ± 0.08, better"
    assert written._beside(ours, -1.3, 0.1) == "+0.30 ± 0.13, within error"
    assert written._beside(ours, -0.7, 0.0) == "−0.30 ± 0.08, worse"
    alike = measured("diagonal", [-1.1, -1.3, -0.9, -1.11])
    assert written._paired(ours, alike) == "+0.10 (+0.09 to +0.11), better"
    assert written._paired(ours, measured("diagonal", [-1.4, -1.3, -0.6, -1.1])).endswith(", within error")
