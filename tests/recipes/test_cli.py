"""The command line, from a training to a page about it, and what it says to a wrong word."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

import tribayes as tb
from tests.patience import PATIENCE
from tests.recipes.small import CPU, change_config, names, new_run, session, timeless, tribayes
from tribayes import cli
from tribayes._files import only_one
from tribayes._tensor_files import read_tensors, write_tensors
from tribayes.data import load
from tribayes.prediction import ClassificationSummary
from tribayes.recipes.experiments import EXPERIMENTS
from tribayes.recipes.recipe_run import RecipeRun, notes
from tribayes.runs import train_sessions


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned something, evaluated."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    answer = tribayes("fit", "--run", folder, "--iterations", 300, "--threads", 1)
    assert (answer.code, answer.err) == (0, "")
    assert tribayes("evaluate", folder, "--samples", 20).code == 0
    return folder


@pytest.fixture(scope="module")
def frequentist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "frequentist"
    answer = tribayes("fit", "digits-frequentist", "--run", folder, "--iterations", 20, "--seed", 7)
    assert answer.out.endswith(f"Next:\n  tribayes evaluate {folder}\n")
    assert tribayes("evaluate", folder).code == 0
    return folder


def complaint(*words: object) -> str:
    """What is said to words that are refused."""
    answer = tribayes(*words)
    assert answer.code == 1
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    return answer.err.removeprefix("error: ").removesuffix("\n")


def test_the_catalogue() -> None:
    lines = tribayes("experiments").out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == list(EXPERIMENTS)


def test_fit_by_default_trains_the_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIBAYES_DATA", raising=False)
    answer = tribayes("fit", "--iterations", 10)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("digits: 10 of 10  ")
    assert "fc1.weight  " in answer.out
    assert answer.out.endswith("Next:\n  tribayes evaluate runs/digits-seed0\n  tribayes report runs/digits-seed0\n")
    assert RecipeRun.open(Path("runs/digits-seed0")).finished
    again = tribayes("fit", "--resume")
    assert again.out.startswith("runs/digits-seed0 is finished already.\n")
    assert tribayes("fit", "digits-diagonal", "--seed", 3, "--iterations", 1).code == 0
    assert names(Path("runs")) == ["digits-diagonal-seed3", "digits-seed0"]


def test_fit_does_what_a_session_does(run: Path, tmp_path: Path) -> None:
    by_hand = session(tmp_path / "r", iterations=300)
    train_sessions([by_hand], progress=False)
    assert (run / "final.safetensors").read_bytes() == by_hand.run.final.read_bytes()
    assert timeless(run / "metrics.jsonl") == timeless(by_hand.run.metrics)


def test_fit_with_changes(tmp_path: Path) -> None:
    words = ("--set", "batch=8", "--set", 'prior_scale={"fc*": 0.5}', "--validation", 100, "--iterations", 10)
    assert tribayes("fit", "--run", tmp_path / "r", *words).code == 0
    found = RecipeRun.open(tmp_path / "r").setting
    assert (found.batch, found.prior_scale, found.validation, found.iterations) == (8, {"fc*": 0.5}, 100, 10)
    assert tribayes("evaluate", tmp_path / "r", "--samples", 2).code == 0
    assert RecipeRun.open(tmp_path / "r").evaluation()["examples_tested"] == 100


def test_bad_words_make_no_folder(tmp_path: Path) -> None:
    at = ("--run", tmp_path / "r")
    assert "`NAME` (='digit') must name an experiment" in complaint("fit", "digit", *at)
    assert "did you mean 'digits'?" in complaint("fit", "digit", *at)
    assert complaint("fit", *at, "--set", "batch=0") == "`batch` (=0) must be positive; change the value."
    assert complaint("fit", *at, "--set", "batch=1438") == (
        "`batch` (=1438) must be at most the 1,437 training images; choose a smaller one."
    )
    assert "`iterations` (=0) must be at least 1" in complaint("fit", *at, "--iterations", 0)
    assert "`--iterations` (=5) must agree with --set iterations=6; give one of the two." in complaint(
        "fit", *at, "--iterations", 5, "--set", "iterations=6"
    )
    assert "`--validation` (=1437) must leave some of the 1,437 training images" in complaint(
        "fit", *at, "--validation", 1437
    )
    assert '`--device` (=\'tpu\') must be "auto", "cpu" or "cuda"' in complaint("fit", *at, "--device", "tpu")
    assert "must be an existing folder" in complaint("fit", "mnist-lenet100", *at, "--data-dir", tmp_path / "nowhere")
    assert names(tmp_path) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    said = complaint("fit", "--run", tmp_path / "r", "--device", "cuda")
    assert said.startswith("`--device` (='cuda') must be there, but torch sees no GPU; use --device cpu")


def test_resume_takes_no_other_words(run: Path) -> None:
    again = ("fit", "--resume", "--run", run)
    rest = "; leave it out, or start anew without --resume in another folder."
    assert complaint(*again, "--seed", 1) == f"`--seed` (=1) must be 0, as {run} was begun{rest}"
    assert complaint("fit", "digits-diagonal", *again[1:]).startswith(
        "`NAME` (='digits-diagonal') must be 'digits', as"
    )
    assert complaint(*again, "--set", "batch=8").startswith("`--set batch` (=8) must be 64, as")
    assert complaint(*again, "--iterations", 9).startswith("`--set iterations` (=9) must be 300, as")
    assert complaint(*again, "--threads", 2).startswith("`--threads` (=2) must be 1, as")
    assert complaint(*again, "--device", "cuda").startswith("`--device` (='cuda') must be 'cpu', as")
    same = tribayes(*again, "--seed", 0, "--set", "batch=64", "--iterations", 300, "--device", "cpu")
    assert same.out.startswith(f"{run} is finished already.")


def test_a_folder_in_use(run: Path, tmp_path: Path) -> None:
    assert complaint("fit", "--run", run).startswith(f"`--run` (={str(run)!r}) must be a new or empty folder; continue")
    at_once = complaint("fit", "mnist-lenet100", "--run", run, "--data-dir", tmp_path / "none")  # before data are read
    assert "must be a new or empty folder" in at_once
    assert complaint("fit", "--resume", "--run", tmp_path).startswith("`RUN` (=")
    started = session(tmp_path / "r")
    with only_one(started.run.folder):
        assert "another process trains in it" in complaint("fit", "--resume", "--run", started.run.folder)


def test_another_version_is_mentioned(tmp_path: Path) -> None:
    started = session(tmp_path / "r", iterations=10)
    path = started.run.path("environment.json")
    path.write_text(json.dumps(started.run.environment() | {"torch": "1.0"}))
    out = tribayes("fit", "--resume", "--run", tmp_path / "r").out
    said = f"note: torch was 1.0, is {torch.__version__}; the result may differ from an uninterrupted run's"
    assert out.splitlines()[1] == said


def test_that_a_network_is_compiled_is_said_before(tmp_path: Path) -> None:
    started = session(tmp_path / "r")
    assert notes(started, resumed=False) == []
    started.trainer.compiled = True
    assert notes(started, resumed=False) == ["the network is compiled first, which takes some seconds"]
    assert len(notes(started, resumed=True)) == 2


def test_the_command_keeps_freed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(cli, "keep_freed_memory", lambda: calls.append("kept"))
    tribayes("experiments")
    assert calls == ["kept"]


def test_evaluate(run: Path) -> None:
    found = json.loads((run / "evaluation.json").read_text())
    assert (found["name"], found["seed"], found["samples"]) == ("digits", 0, 20)
    assert found["examples_tested"] == 360
    assert found["error"] < 0.2
    assert found["environment"]["tribayes"] == tb.__version__
    text = str(ClassificationSummary.from_dict(found))
    assert re.search(
        rf"^test error +{100 * found['error']:.2f} % \({round(360 * found['error'])} of 360\)$", text, re.M
    )
    counts = found["certain"]["0.99"]
    assert re.search(rf"^99 % +wrong +{counts['wrong_certain']} +{counts['wrong_uncertain']}$", text, re.M)


def test_evaluate_a_frequentist(frequentist: Path) -> None:
    answer = tribayes("evaluate", frequentist)
    assert "quite certain" not in answer.out
    assert answer.out.endswith(f"Written to {frequentist / 'evaluation.json'}\n")


def test_a_run_as_0_1_wrote_it_is_evaluated_shown_and_compared(run: Path, tmp_path: Path) -> None:
    """Its settings named a sampler, and neither they nor its records had a checksum."""
    old = tmp_path / "old"
    shutil.copytree(run, old)
    content = json.loads((old / "config.json").read_text())
    del content["sha256"]
    content["setting"]["sampler"] = "auto"
    (old / "config.json").write_text(json.dumps(content))
    lines = [json.loads(line) for line in (old / "metrics.jsonl").read_text().splitlines()]
    plain = [{key: value for key, value in line.items() if key != "sha256"} for line in lines]
    (old / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in plain))
    tensors, facts = read_tensors(old / "final.safetensors", "")
    write_tensors(old / "final.safetensors", tensors, facts | {"setting": content["setting"]})
    (old / "evaluation.json").unlink()
    said, expected = (tribayes("evaluate", folder, "--samples", 20) for folder in (old, run))
    assert (said.code, said.err) == (0, "")
    assert said.out.replace(str(old), str(run)) == expected.out
    assert tribayes("compare", old, run).code == 0
    assert tribayes("report", old, "--samples", 20).code == 0


def test_compare(run: Path, frequentist: Path, tmp_path: Path) -> None:
    answer = tribayes("compare", run, frequentist)
    assert (answer.code, answer.err) == (0, "")
    header, _, first, second = answer.out.splitlines()
    found = RecipeRun.open(run).evaluation()
    counts = found["certain"]["0.95"]
    assert re.split(r"  +", first) == [
        str(run),
        "digits",
        "0",
        f"{100 * found['error']:.2f} %",
        f"{found['nll']:.3f}",
        f"{found['brier']:.3f}",
        f"{100 * found['ece']:.2f} %",
        *(str(count) for count in counts.values()),
    ]
    assert second.startswith(str(frequentist))
    assert re.split(r"  +", second)[1:3] == ["digits-frequentist", "7"]
    assert re.split(r"  +", second)[-4:] == ["-"] * 4
    assert header.split()[:3] == ["run", "experiment", "seed"]
    new_run(tmp_path / "new")
    assert complaint("compare", run, tmp_path / "new").endswith(
        f"must have an evaluation.json; make one, as with: tribayes evaluate {tmp_path / 'new'}."
    )


def test_report(run: Path) -> None:
    answer = tribayes("report", run, "--samples", 20)
    assert (answer.code, answer.out) == (0, f"{run / 'report.html'}\n")
    page = (run / "report.html").read_text()
    found = RecipeRun.open(run).evaluation()
    assert f"{found['nll']:.4f}" in page  # the same sampled networks as the evaluation's
    assert "digits, seed 0" in page
    assert "Training curves over 300 iterations" in page


def test_the_history_has_a_value_per_iteration(run: Path) -> None:
    history = RecipeRun.open(run).history()
    records = RecipeRun.open(run).records()
    assert len(history) == len(history.nll) == 300
    assert history.loss[:10] == [records[0].loss] * 10
    assert history.nll[-1] == records[-1].nll


def test_predict(run: Path, tmp_path: Path) -> None:
    data = load("digits")
    paths = [tmp_path / "a" / "x.png", tmp_path / "b" / "x.png"]
    for path, image in zip(paths, data.test_images[:2], strict=True):
        path.parent.mkdir()
        picture = Image.fromarray((image[0] * 255).round().byte().numpy())
        (picture if path == paths[0] else picture.resize((16, 16))).save(path)
    answer = tribayes("predict", run, *paths, "--samples", 50)
    assert (answer.code, answer.err) == (0, "")
    pred = tb.predict(RecipeRun.open(run).network(CPU), data.test_images[:1], 200, progress=False)
    lines = answer.out.splitlines()
    verdict = r"probability (\d\.\d{3}), 95 % interval (\d\.\d{3}) to (\d\.\d{3}), (quite certain|uncertain)"
    found = re.fullmatch(re.escape(f"{paths[0]}: {int(pred.label[0])}, ") + verdict, lines[0])
    assert found
    probability, lower, upper = (float(found[place]) for place in (1, 2, 3))
    assert probability == pytest.approx(float(pred.confidence[0]), abs=0.1)
    assert lower <= probability <= upper
    folder = run / "predictions"
    assert lines[1] == f"  boxplot: {folder / 'x.boxplot.png'}"
    assert lines[3:] == ["  resized from 16×16 to 8×8", f"  boxplot: {folder / 'x-2.boxplot.png'}"]
    for name in ("x.boxplot.png", "x-2.boxplot.png"):
        with Image.open(folder / name) as drawn:
            assert drawn.width > 300
    assert (folder / "x.boxplot.png").read_bytes() != (folder / "x-2.boxplot.png").read_bytes()
    assert complaint("predict", run, paths[0], tmp_path / "none.png").endswith("must be a file; correct the name.")


def test_a_frequentist_has_no_doubts_to_show(frequentist: Path, tmp_path: Path) -> None:
    said = (
        "must be of a Bayesian network; a frequentist network has no intervals; `tribayes evaluate` gives its figures."
    )
    assert complaint("report", frequentist).endswith(said)
    assert complaint("predict", frequentist, tmp_path / "x.png").endswith(said)


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "r"
    assert tribayes("fit", "--run", folder, "--iterations", 25, "--tensorboard").code == 0
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    records = RecipeRun.open(folder).records()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [
        (record.iteration, pytest.approx(record.loss)) for record in records
    ]
    assert events.Scalars("rho/fc1.weight")[-1].value == pytest.approx(records[-1].rho["fc1.weight"])


def test_a_missing_package_is_named(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    said = complaint("fit", "--run", tmp_path / "r", "--tensorboard")
    assert said.endswith("which is not installed; install it with: pip install 'tribayes[tensorboard]'")
    monkeypatch.setitem(sys.modules, "PIL", None)
    for module in ("tribayes.recipes.image_files", "tribayes.data.pictures"):  # which import it
        monkeypatch.delitem(sys.modules, module, raising=False)
    said = complaint("predict", run, tmp_path / "x.png")
    assert said.endswith("which is not installed; install it with: pip install 'tribayes[plot]'")


STRANGE: dict[str, tuple[object, ...]] = {
    "a batch of all there is": ("fit", "--run", "new", "--set", "batch=100000000"),
    "brackets nested deep": ("fit", "--run", "new", "--set", f"batch={'[' * 100_000}"),
    "a number of thousands of digits": ("fit", "--run", "new", "--seed", "9" * 5000),
    "a NaN in a prior": ("fit", "--run", "new", "--set", 'prior_scale={"*":NaN}'),
    "more threads than any machine has": ("fit", "--run", "new", "--threads", 100_000),
    "a name with a zero": ("fit", "--run", "\0"),
    "a name that is too long": ("fit", "--run", "x" * 300),
    "a file for a folder": ("fit", "--run", "file/run", "--iterations", 1),
    "more samples than a lifetime": ("evaluate", "run", "--samples", 10**25),
    "a single sample": ("evaluate", "run", "--samples", 1),
    "a folder for a page": ("report", "run", "--out", ".", "--samples", 2),
    "a folder for an image": ("predict", "run", "."),
    "a zero for an image": ("predict", "run", "\0"),
    "a file for the boxplots": ("predict", "run", "black.png", "--out", "file", "--samples", 2),
    "a file among runs": ("compare", "run", "file"),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_strange_command_is_answered_in_a_sentence(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run").symlink_to(run)
    Path("file").write_text("")
    Image.new("L", (8, 8)).save("black.png")
    answer = tribayes(*STRANGE[kind])
    assert answer.code in (1, 2)  # 2 is typer's, for an option out of range
    assert 0 < len(answer.err) < 1500
    assert "Traceback" not in answer.err
    assert not Path("new").exists()


def test_an_error_nobody_foresaw_is_a_sentence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("where\x1b[2J\nwhat")

    monkeypatch.setattr(cli, "format_table", broken)
    assert complaint("experiments") == r"KeyError: 'where\x1b[2J\nwhat' (tribayes --traceback … shows where)"


def test_names_do_not_command_the_terminal_nor_lose_the_answer(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "\x1b[2J\udcff"
    shutil.copytree(run, folder)
    picture = folder / "\udcff\x07.png"
    Image.new("L", (8, 8)).save(picture)
    for words in (
        ("evaluate", folder, "--samples", 2),
        ("predict", folder, picture, "--samples", 2),
        ("compare", folder),
    ):
        answer = tribayes(*words)
        assert (answer.code, answer.err) == (0, "")
        assert r"\x1b[2J\udcff" in answer.out
        answer.out.encode()
        assert "\x1b" not in answer.out
    assert "\x1b" not in tribayes("evaluate", tmp_path / "\x1b[2J").err


def test_ctrl_c_while_torch_is_imported_shows_no_traceback() -> None:
    script = (
        "import os, signal, sys, tribayes_command\n"
        "class Torch:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch': os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Torch())\n"
        "tribayes_command.main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr == ""


def test_the_command_is_the_command_line() -> None:
    script = "import tribayes_command, sys; sys.argv = ['tribayes', 'experiments']; tribayes_command.main()"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert ended.stdout.splitlines()[2].split()[0] == next(iter(EXPERIMENTS))


def test_an_error_shows_its_place_when_asked_to(tmp_path: Path) -> None:
    words = ["--traceback", "evaluate", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "tribayes", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: `RUN` (=")
    assert "Traceback" in done.stderr
    assert "Traceback" not in tribayes(*words[1:]).err


def test_a_slice_of_real_mnist(tmp_path: Path) -> None:
    """Through the same code as the whole: trained on the rest, tested on 300 images held out."""
    if not os.environ.get("TRIBAYES_DATA"):
        pytest.skip("needs real data: $TRIBAYES_DATA is not set")
    if not (Path(os.environ["TRIBAYES_DATA"]) / "mnist").is_dir():
        pytest.skip("needs real data: $TRIBAYES_DATA has no mnist")
    folder = tmp_path / "r"
    words = ("--iterations", 60, "--validation", 300, "--threads", 1)
    assert tribayes("fit", "mnist-lenet100", "--run", folder, *words).code == 0
    assert tribayes("evaluate", folder, "--samples", 5).code == 0
    found = RecipeRun.open(folder).evaluation()
    assert found["examples_tested"] == 300
    assert found["error"] < 0.5  # chance is 0.9
    picture = tmp_path / "black.png"
    Image.new("L", (28, 28)).save(picture)
    assert tribayes("predict", folder, picture, "--samples", 5).out.startswith(f"{picture}: ")


def test_a_resumed_run_has_as_many_threads_as_before(tmp_path: Path) -> None:
    run = session(tmp_path / "r", iterations=10).run
    change_config(run.path("config.json"), threads=2)
    try:
        assert tribayes("fit", "--resume", "--run", run.folder).code == 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
