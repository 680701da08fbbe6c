"""The code that people read first: every block of every page, and every example, runs as it is written."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from runpy import run_path
from textwrap import dedent
from typing import Any

import pytest
import torch
from torch import nn

import tribayes as tb
from pages.notebooks import notebook
from tests.libraries import among_other_libraries, library
from tribayes.cli import app

ROOT = Path(__file__).parent.parent


PAGES = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
KINDS = {"python", "text", "sh", ""}  # of blocks: run, said by what was run, commands, neither
NEEDED = {  # by pages, beyond torch
    "docs/five-minutes.md": ["sklearn"],
    "docs/guides/fine-tuning.md": ["sklearn"],
    "docs/guides/language-models.md": ["transformers", "peft"],
    "docs/guides/tables.md": ["sklearn"],
    "docs/guides/trust.md": ["sklearn", "matplotlib"],
    "docs/guides/regression.md": ["matplotlib"],
}


def blocks_of(page: str) -> list[tuple[str, str]]:
    """All blocks of a page, in order: what kind, and what is in it; also those inside a list or a note."""
    text = (ROOT / page).read_text()
    found = re.findall(r"^( *)```([\w-]*)[^\n]*\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return [(kind, dedent(block)) for _, kind, block in found]


def code_of(page: str) -> list[str]:
    """The Python blocks of a page, in order; whole files that it shows are examples, run as such."""
    return [block for kind, block in blocks_of(page) if kind == "python" and not block.startswith("--8<--")]


def run_blocks(page: str) -> dict[str, Any]:
    """All blocks of a page in one namespace, as a reader types them."""
    names: dict[str, Any] = {}
    for block in code_of(page):
        exec(compile(block, page, "exec"), names)
    return names


def test_readme_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn", reason="README's example takes its digits from scikit-learn")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        names = run_blocks("README.md")
    said = capsys.readouterr().out
    assert "test error" in said
    assert "images go to a person" in said
    assert names["pred"].summary(names["digits"].test_labels).error < 0.1
    assert names["optimizer"].defaults["fused"]  # as in benchmarks/learners.py: what is timed is what is written


def test_readme_leads_with_a_modern_network_and_with_how_the_defaults_were_chosen() -> None:
    """Both written by programs, whose tests compare them with the stored results; the paper's tables come after."""
    marks = re.findall(r"<!-- (\w+):start -->", (ROOT / "README.md").read_text())
    assert marks == ["modern", "defaults", "results", "speed"]


def has_a_test_of_its_own(page: str) -> bool:
    return f'run_blocks("{page}")' in Path(__file__).read_text()


@pytest.mark.parametrize("page", [page for page in PAGES if code_of(page) and not has_a_test_of_its_own(page)])
@pytest.mark.filterwarnings("ignore::FutureWarning:transformers", "ignore::FutureWarning:peft")
def test_a_page_runs_as_written(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in NEEDED.get(page, []):
        library(package)
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        run_blocks(page)
    said = words(capsys.readouterr().out)
    for line in [block for kind, block in blocks_of(page) if kind == "text"]:
        assert words(line) in said, f"{page} quotes what its code does not say"


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_only_blocks_of_known_kinds(page: str) -> None:
    assert {kind for kind, _ in blocks_of(page)} <= KINDS
    assert (ROOT / page).read_text().count("```") % 2 == 0


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_exist(page: str) -> None:
    lines = [line for kind, block in blocks_of(page) if kind in {"sh", ""} for line in block.splitlines()]
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    for line in lines:
        if start := re.match(r"(make|tribayes) ([a-z]+)", line):
            assert start[2] in (targets if start[1] == "make" else commands), line


def named_in_lines(page: str) -> list[ast.AST]:
    """What a page writes as code inside its lines and table cells, where that is an expression."""
    lines = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    found = []
    for code in re.findall(r"`([^`\n]+)`", lines):
        with suppress(SyntaxError):
            found += list(ast.walk(ast.parse(code, mode="eval")))
    return found


def of_the_library(node: ast.AST) -> Any:
    """What `tb.some.name` is; None for what is no such name."""
    found = re.fullmatch(r"tb\.(?!name$)([\w.]+)", ast.unparse(node)) if isinstance(node, ast.Attribute) else None
    return functools.reduce(getattr, found[1].split("."), tb) if found else None


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])  # which has what is gone, too
def test_what_a_page_names_in_its_lines_exists(page: str) -> None:
    """Such as the cheat sheet: each name of the library, and that a call may have these arguments."""
    if "tb.sklearn" in (ROOT / page).read_text():
        pytest.importorskip("sklearn", reason="tb.sklearn is named, which needs scikit-learn")
    for node in named_in_lines(page):
        of_the_library(node)
        if isinstance(node, ast.Call) and (called := of_the_library(node.func)) is not None:
            named = {each.arg: None for each in node.keywords if each.arg}
            inspect.signature(called).bind_partial(*node.args, **named)


def test_the_page_on_training_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    names = run_blocks("docs/training.md")
    said = capsys.readouterr().out
    history = names["history"]
    best = min(history.validation, key=lambda record: record.nll)
    assert f"best after epoch {best.epoch}: " in said
    assert "the loss of step 3 is not finite: its nll is nan. Inputs of the batch hold NaN" in said
    assert len(names["curves"]) > 2
    assert {"nll", "kl", "tau/0.weight", "rho/0.weight", "lr/means", "validation/nll"} <= names["curves"][-1].keys()


def test_the_page_on_integrations_runs_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("lightning", "transformers", "accelerate", "tensorboard", "torchmetrics"):
        library(name)
    monkeypatch.chdir(tmp_path)
    with among_other_libraries(), torch.random.fork_rng():
        torch.manual_seed(0)
        names = run_blocks("docs/integrations.md")
    capfd.readouterr()  # progress of other libraries
    assert names["pred"].mean.shape == (40, 3)
    assert names["probabilities"].shape == (40, 3)
    assert names["terms"].loss.isfinite()
    assert 0 < names["accuracy"] <= 1


def test_the_page_of_likelihoods_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    with torch.random.fork_rng():
        names = run_blocks("docs/likelihoods.md")
    assert "test error" in capsys.readouterr().out
    pred = names["pred"]
    assert isinstance(pred, tb.RegressionPredictive)
    assert pred.noise_law == names["laplace"].noise_law()
    covered = (names["lower"] <= names["y"]) & (names["y"] <= names["upper"])
    assert 0.8 < float(covered.double().mean()) <= 1


def test_the_page_of_likelihoods_names_them_all() -> None:
    page = (ROOT / "docs/likelihoods.md").read_text()
    public = [getattr(tb, name) for name in tb.inference.__all__]
    kinds = [kind for kind in public if isinstance(kind, type) and issubclass(kind, tb.Likelihood)]
    assert [kind.__name__ for kind in kinds if kind is not tb.Likelihood and f"`tb.{kind.__name__}(" not in page] == []


def test_the_likelihood_of_contributing_learns_and_predicts() -> None:
    """Grades by thresholds of a known number: it finds the thresholds, and says how sure it is."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ordinal = run_blocks("CONTRIBUTING.md")["Ordinal"](classes=3)
        x = torch.randn(300, 1)
        y = (x[:, 0] > -0.5).long() + (x[:, 0] > 1).long()
        model = tb.to_bayesian(nn.Linear(1, 1))
        optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.1, likelihood=ordinal))
        tb.fit(model, tb.ELBO(ordinal, data_size=300), [(x, y)], optimizer, epochs=150, progress=False)
    pred = tb.predict(model, x, 50, progress=False)
    assert isinstance(pred, tb.ClassPredictive)
    assert pred.mean.shape == (300, 3)
    torch.testing.assert_close(pred.mean.sum(1), torch.ones(300))
    assert pred.summary(y).error < 0.1


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # torch's exporter meets its own
def test_the_page_of_serving_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="the page exports to ONNX: pip install 'tribayes[onnx]'")
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        names = run_blocks("docs/serving.md")
    assert names["answers"].shape == (200, 2, 3)
    assert torch.equal(names["pred"].samples, tb.predict(names["model"], names["images"], progress=False).samples)


def test_the_page_of_processes_runs_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a group of one, by the variables that torchrun sets."""
    if not torch.distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": "0", "WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    try:
        with torch.random.fork_rng():
            names = run_blocks("docs/distributed.md")
        assert names["terms"].loss.isfinite()
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


class TestOwnFamily:
    """The family of CONTRIBUTING.md, used for everything a family is there for."""

    def _model(self) -> tb.BayesianModule:
        family = run_blocks("CONTRIBUTING.md")["OneScale"]
        torch.manual_seed(0)
        return tb.to_bayesian(
            nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3)), family=family, tau=0.2, prior=tb.Prior()
        )

    def test_it_trains_and_predicts(self) -> None:
        model = self._model()
        x = torch.randn(300, 2)
        y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
        elbo = tb.ELBO(tb.Categorical(), data_size=300, kl_weight=0.01)
        optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.02))
        start = model.family.log_scale.detach().clone()
        history = tb.fit(model, elbo, [(x, y)], optimizer, epochs=150, progress=False)
        assert history.nll[-1] < 0.5 * history.nll[0]
        assert (model.family.log_scale != start).all()
        pred = tb.predict(model, x, 50, progress=False)
        assert pred.summary(y).error < 0.15
        assert (pred.std > 0).all()

    def test_it_draws_from_the_law_it_names(self) -> None:
        # 2,000 draws of 32 weights: each deviation is off by more than 6 standard errors with probability 2e-9
        model = self._model()
        draws = model.sample_weights(2000, generator=1)["0.weight"]
        scale = model.family.log_scale[0].exp()
        assert ((draws.std(0) / scale - 1).abs() < 6 / (2 * 2000) ** 0.5).all()

    def test_its_divergence_is_the_sum_over_its_weights(self) -> None:
        model = self._model()
        expected = sum(
            torch.distributions.kl_divergence(
                torch.distributions.Normal(mean, scale), torch.distributions.Normal(0.0, 1.0)
            ).sum()
            for (_, mean), scale in zip(model.means(), model.family.log_scale.exp(), strict=True)
        )
        torch.testing.assert_close(model.kl(), expected)

    def test_it_is_saved_and_loaded_as_the_text_says(self, tmp_path: Path) -> None:
        text = (ROOT / "CONTRIBUTING.md").read_text()
        saved, loaded = "tb.save(model, path, custom=True)", "tb.load(path, net, family=OneScale)"
        assert f"`{saved}`" in text
        assert f"`{loaded}`" in text
        model = self._model()
        with torch.no_grad():
            model.family.log_scale.sub_(1.0)
        names = {"tb": tb, "model": model, "path": tmp_path / "model", "OneScale": type(model.family)}
        eval(saved, names)
        other = eval(loaded, names | {"net": nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))})
        x = torch.randn(4, 2)
        ours, theirs = (tb.predict(one, x, 5, progress=False).samples for one in (model, other))
        assert torch.equal(ours, theirs)

    def test_what_knows_laws_by_their_class_takes_it(self) -> None:
        model = self._model()
        x, y = torch.randn(8, 2), torch.randint(3, (8,))
        assert tb.ELBO(tb.Categorical(), data_size=8, estimator="local")(model, x, y).loss.isfinite()


EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if not path.name.startswith("with_"))  # the gallery
WITH_TESTS = {"digits", "sklearn_pipeline"}  # of their own, below


@pytest.mark.parametrize(
    "example", [path for path in EXAMPLES if path.stem not in WITH_TESTS], ids=lambda path: path.stem
)
def test_an_example_runs_to_its_picture(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, where torch is imported already, and at a size for tests."""
    for package in ("sklearn", "matplotlib"):
        library(package)
    monkeypatch.setenv("TRIBAYES_SMALL", "1")
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        run_path(str(example), run_name="__main__")
    made = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert [path.name for path in made] == [f"{example.stem}.png"]
    assert made[0].stat().st_size > 5000


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_shown_and_a_notebook_too(example: Path) -> None:
    assert len(example.read_text().splitlines()) <= 80
    assert f"examples/{example.name}" in (ROOT / "docs/gallery.md").read_text()
    written = (ROOT / "examples/notebooks" / f"{example.stem}.ipynb").read_text()
    assert written == notebook(example), "write it anew: make notebooks"
    cells = ["".join(cell["source"]) for cell in json.loads(written)["cells"] if cell["cell_type"] == "code"]
    compile("\n".join(cells), example.name, "exec")
    if "PICTURE" in example.read_text():
        assert cells[-1].endswith("Image(str(PICTURE))"), "a notebook shows its picture"


def test_the_demo_makes_its_report(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the demo takes its digits from scikit-learn")
    pytest.importorskip("matplotlib", reason="the demo draws its report")
    command = [sys.executable, ROOT / "examples" / "digits.py"]
    small = {**os.environ, "TRIBAYES_SMALL": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=small, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "would go to a person" in done.stdout
    page = (tmp_path / "runs/demo/report.html").read_text()
    assert "Handwritten digits" in page


def test_the_pipeline_of_the_examples_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn", reason="the example is a pipeline of scikit-learn's")
    pytest.importorskip("pandas", reason="the example's tables are pandas'")
    threads = torch.get_num_threads()
    names = run_path(str(ROOT / "examples" / "sklearn_pipeline.py"))
    try:
        names["main"](steps=100)
    finally:
        torch.set_num_threads(threads)
    said = capsys.readouterr().out
    assert "R² of 89 people" in said
    assert "90 % intervals hold" in said
    assert len((ROOT / "examples" / "sklearn_pipeline.py").read_text().splitlines()) <= 40
