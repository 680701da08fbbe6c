"""A user's own network trained in a folder: killed and resumed to the same bits, and held to what it was begun with."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import tribayes as tb
from tests.patience import PATIENCE
from tests.recipes.small import change_config, names, timeless
from tests.runs.program import ITERATIONS, data, network, train
from tribayes._files import only_one
from tribayes.runs import Run
from tribayes.runs.session import read_checkpoint

ROOT = Path(__file__).parents[2]


def start(folder: Path, *words: object) -> subprocess.Popen[str]:
    """The program in another process."""
    command = [sys.executable, "-m", "tests.runs.program", str(folder), *map(str, words)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run killed at its first step: its initial weights, drawn without a seed, are in its checkpoint."""
    folder = tmp_path_factory.mktemp("begun") / "run"
    process = start(folder, "step", 1)
    assert process.communicate(timeout=PATIENCE)[1] == ""
    assert process.returncode == -signal.SIGKILL
    assert read_checkpoint(Run.open(folder))[1]["iteration"] == 0
    return folder


@pytest.fixture(scope="module")
def whole(begun: Path) -> Path:
    """The same run, to its end without another interruption."""
    folder = begun.with_name("whole")
    shutil.copytree(begun, folder)
    run, _, _ = train(folder, progress=False)
    assert run.finished
    return folder


def assert_same(folder: Path, whole: Path) -> None:
    """Every bit of the result, and every record but for its time."""
    for name in ("final.safetensors", "posterior.json"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), name
    assert timeless(folder / "metrics.jsonl") == timeless(whole / "metrics.jsonl")
    ours, theirs = (load_file(each / "checkpoint.safetensors") for each in (folder, whole))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(("where", "count"), [("step", 7), ("step", 37), ("rename", 2), ("rename", 6), ("rename", 14)])
def test_killed_and_resumed_to_the_same_bits(begun: Path, whole: Path, tmp_path: Path, where: str, count: int) -> None:
    folder = tmp_path / "run"
    shutil.copytree(begun, folder)
    process = start(folder, where, count)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (-signal.SIGKILL, ""), out
    process = start(folder)
    assert (process.communicate(timeout=PATIENCE)[1], process.returncode) == ("", 0)
    assert_same(folder, whole)


@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, -2, "KeyboardInterrupt"), (signal.SIGTERM, 143, "")]
)
def test_asked_to_stop(begun: Path, whole: Path, tmp_path: Path, number: signal.Signals, code: int, said: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(begun, folder)
    process = start(folder, "slow", 200)
    assert process.stdout is not None
    assert re.match(r"run: 10 of 60  .*  loss \S+  test NLL \S+  τ", process.stdout.readline())
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert said in err
    assert 10 <= read_checkpoint(Run.open(folder))[1]["iteration"] < ITERATIONS
    train(folder, progress=False)
    assert_same(folder, whole)


def test_a_finished_run_gives_its_weights_and_trains_no_more(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tb.runs.Trainer, "step", lambda _: pytest.fail("trained again"))
    run, model, elbo = train(whole, progress=False)
    stored = load_file(run.final)
    for name, value in model.state_dict().items():
        assert torch.equal(value, stored[name])
    assert torch.equal(elbo.likelihood.raw_noise, stored["objective/likelihood.raw_noise"])
    assert float(elbo.likelihood.noise.detach()) != pytest.approx(0.3, abs=1e-3)  # it was learned
    loaded = run.load_model(network)
    assert all(torch.equal(value, stored[name]) for name, value in loaded.state_dict().items())


def test_the_records_and_the_folder(whole: Path) -> None:
    run = Run.open(whole)
    assert (run.seed, run.device, run.config) == (3, "cpu", {"width": 16})
    assert {"config.json", "environment.json", "metrics.jsonl", "final.safetensors", "posterior.json"} <= set(
        names(whole)
    )
    records = run.records()
    assert [record.iteration for record in records] == [10, 20, 30, 40, 50, 60]
    assert records[-1].learning_rate == pytest.approx(0.01 * 0.99**59)
    assert all(record.one_sample_error is None for record in records)  # targets are no classes
    assert records[-1].test_nll < records[0].test_nll
    assert len(run.history()) == ITERATIONS


def another_network() -> nn.Module:
    return tb.to_bayesian(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)))


def wider_network() -> nn.Module:
    return tb.to_bayesian(nn.Sequential(nn.Linear(1, 17), nn.Tanh(), nn.Dropout(0.1), nn.Linear(17, 1)))


@pytest.mark.parametrize("place", ["begun", "whole"])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"iterations": 61}, "`iterations` (=61) must be 60, as the run in "),
        ({"batch_size": 9}, "`batch_size` (=9) must be 8, as the run in "),
        ({"kl_weight": 0.2}, "`kl_weight` (=0.2) must be 0.1, as the run in "),
        ({"kl_weight": lambda step: 0.1 + step}, "`kl_weight` (=[0.1, 30.1, 59.1]) must be 0.1, as"),
        ({"rule": "paper"}, "`rule` (='paper') must be 'closed_form', as"),
        ({"schedule": None}, "`schedule` (=None) must be ["),
        ({"optimizer": torch.optim.SGD}, "`optimizer` (='SGD') must be 'Adam', as"),
        ({"hyperparameters": {"eps": 1e-6}}, "`optimizer groups` (={'eps': 1e-06}) must be {'eps': 1e-08}, as"),
        ({"model": wider_network}, "`parameters` (={'module.0.bias': [17]}) must be {'module.0.bias': [16]}, as"),
        ({"model": another_network}, "`optimizer groups`"),
        ({"train": (torch.zeros(45, 1), torch.zeros(45, 1))}, "`training examples` (='"),
        ({"seed": 4}, "`seed` (=4) must be 3, as the run in "),
        ({"config": {"width": 17}}, "`width` (=17) must be 16, as the run in "),
        ({"config": {}}, "`width` (=None) must be 16, as the run in "),
    ],
)
def test_a_difference_is_refused_by_its_name(
    place: str, changes: dict[str, Any], said: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(request.getfixturevalue(place), folder)
    before = (folder / "checkpoint.safetensors").read_bytes()
    if "model" in changes:
        changes = changes | {"model": changes["model"]()}
    with pytest.raises(ValueError, match=re.escape(said)):
        train(folder, progress=False, **changes)
    assert (folder / "checkpoint.safetensors").read_bytes() == before


class Counting(torch.optim.SGD):
    """An optimizer that keeps plain numbers, as some do."""

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["count"] = state.get("count", 0) + 1
                state["share"] = 0.5 * state.get("share", 1.0)


@pytest.mark.parametrize(
    ("optimizer", "hyperparameters"),
    [
        (torch.optim.SGD, {}),
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.AdamW, {"amsgrad": True}),
        (torch.optim.Adam, {"lr": torch.tensor(0.003)}),
        (torch.optim.RMSprop, {"centered": True}),
        (Counting, {"momentum": 0.9}),
    ],
)
def test_any_optimizer_is_resumed_to_the_same_bits(
    tmp_path: Path, optimizer: Any, hyperparameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"optimizer": optimizer, "hyperparameters": hyperparameters, "progress": False}
    with monkeypatch.context() as patch:
        patch.setattr(tb.runs.Trainer, "advance", stopped_after(0))
        with pytest.raises(RuntimeError, match="enough"):
            train(tmp_path / "parts", **settings)
    shutil.copytree(tmp_path / "parts", tmp_path / "whole")
    train(tmp_path / "whole", **settings)
    for steps in (20, 10):
        with monkeypatch.context() as patch:
            patch.setattr(tb.runs.Trainer, "advance", stopped_after(steps))
            with pytest.raises(RuntimeError, match="enough"):
                train(tmp_path / "parts", **settings)
    run, _, _ = train(tmp_path / "parts", **settings)
    assert run.finished
    assert_same(tmp_path / "parts", tmp_path / "whole")


def stopped_after(steps: int) -> Any:
    """`Trainer.advance` that fails once it has done so many steps."""
    usual, done = tb.runs.Trainer.advance, 0

    def advance(self: tb.runs.Trainer, wanted: int) -> None:
        nonlocal done
        if done >= steps:
            raise RuntimeError("enough")
        usual(self, wanted)
        done += wanted

    return advance


def test_the_callers_world_is_left_as_it_was(tmp_path: Path) -> None:
    threads, deterministic = torch.get_num_threads(), torch.backends.cudnn.deterministic
    model = tb.to_bayesian(nn.Linear(1, 1), generator=0)
    elbo = tb.ELBO(tb.Gaussian(), data_size=45)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    (x, y), _ = data()
    before = torch.get_rng_state()
    Run.at(tmp_path / "r").train(
        model,
        elbo,
        optimizer,
        train=(x, y),
        iterations=20,
        schedule=lambda i: 0.5 + 0 * i,
        progress=False,
        batch_size=5,
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert (torch.get_num_threads(), torch.backends.cudnn.deterministic) == (threads, deterministic)
    assert [group["lr"] for group in optimizer.param_groups] == [0.01]


def test_a_run_trains_in_another_thread(tmp_path: Path) -> None:
    thread = threading.Thread(target=lambda: train(tmp_path / "r", progress=False))
    thread.start()
    thread.join(PATIENCE)
    assert Run.open(tmp_path / "r").finished


class TwoInputs(nn.Module):
    """Two inputs, and an answer of which the second part counts."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.norm = nn.BatchNorm1d(2)

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> dict[str, torch.Tensor]:
        inputs = torch.cat([one, other], 1)
        return {"inputs": -inputs, "scores": self.norm(self.layer(inputs))}


def test_a_classifier_of_two_inputs_is_trained_and_judged(tmp_path: Path) -> None:
    torch.manual_seed(0)
    one, other = torch.randn(2, 200, 1)
    labels = (one > other).long().squeeze(1)
    model = tb.to_bayesian(TwoInputs())
    elbo = tb.ELBO(tb.Categorical(), data_size=200, kl_weight=0.1, output="scores")
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.1), momentum=0.9)
    run = Run.at(tmp_path / "r", config={"name": "two inputs"})
    examples = ((one, other), labels)
    records = run.train(model, elbo, optimizer, train=examples, test=examples, iterations=200, progress=False)
    assert records[-1].one_sample_error < 0.1
    found = run.evaluate(model, examples, samples=20, progress=False)
    assert found["error"] < 0.1
    assert found["mean_network_error"] < 0.1
    assert run.evaluation()["error"] == found["error"]
    assert (run.evaluation()["name"], run.evaluation()["iterations"]) == ("two inputs", 200)
    assert tb.runs.comparison([run]).splitlines()[2].split()[1:3] == ["two", "inputs"]


def test_numbers_and_arrays_of_numpy_are_as_good(tmp_path: Path) -> None:
    """A run of the one is continued with the other."""
    (x, y), (x_test, y_test) = data()
    tensors: dict[str, Any] = {"train": (x, y), "test": (x_test, y_test), "iterations": 20, "batch_size": 5}
    arrays: dict[str, Any] = {
        "train": (x.double().numpy(), y.double().numpy()),
        "test": [x_test.numpy(), y_test.numpy()],
        "iterations": np.int64(20),
        "batch_size": np.int32(5),
    }
    for name, seed, given in (("a", 3, tensors), ("b", np.int64(3), arrays), ("b", 3, tensors)):
        torch.manual_seed(0)
        model = tb.to_bayesian(nn.Linear(1, 1))
        elbo = tb.ELBO(tb.Gaussian(), data_size=45)
        optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.01))
        Run.at(tmp_path / name, seed=seed).train(model, elbo, optimizer, progress=False, **given)
    assert_same(tmp_path / "b", tmp_path / "a")
    created = Run.create(tmp_path / "c", {}, np.int64(3), "cpu")
    assert Run.open(created.folder).seed == 3
    labels = (y[:, 0] > 0).long()
    judged = Run.at(tmp_path / "d").evaluate(tb.to_bayesian(nn.Linear(1, 2)), (x.numpy(), labels.numpy()), samples=5)
    assert judged["examples_tested"] == 45


def test_bad_arguments(tmp_path: Path) -> None:
    (x, y), _ = data()
    with pytest.raises(TypeError, match=r"`schedule` \(='int'\) must be a function of the iteration; pass"):
        train(tmp_path / "a", schedule=3)
    with pytest.raises(ValueError, match=r"`batch_size` \(=46\) must be at most the 45 training examples; choose"):
        train(tmp_path / "b", batch_size=46)
    with pytest.raises(ValueError, match=r"`batch_size` \(=0\) must be at least 1"):
        train(tmp_path / "c", batch_size=0)
    with pytest.raises(TypeError, match=r"`iterations` \(=1.5\) must be a whole number"):
        train(tmp_path / "d", iterations=1.5)
    with pytest.raises(ValueError, match=r"`examples` .* must have one entry for each of the 45 targets"):
        train(tmp_path / "e", train=(x[:-1], y))
    with pytest.raises(TypeError, match=r"`train` .* must be a pair \(inputs, targets\)"):
        train(tmp_path / "f", train=x)
    with pytest.raises(TypeError, match=r"`seed` \(='1'\) must be a whole number"):
        train(tmp_path / "g", seed="1")
    with pytest.raises(ValueError, match=r"`config` .* must be plain values \(.*\); use numbers"):
        train(tmp_path / "h", config={"x": torch.zeros(2)})
    with pytest.raises(ValueError, match=r"`config` .* must be plain values \(.*\); use numbers"):
        train(tmp_path / "i", config={"x": float("nan")})
    assert not (tmp_path / "h").exists()
    assert not (tmp_path / "i").exists()
    for seconds in ("60", -1, float("nan")):
        with pytest.raises(ValueError, match=r"`checkpoint_seconds` \(=.*\) must be a number, not negative; 60 is"):
            train(tmp_path / "j", checkpoint_seconds=seconds)
    said = r"`schedule` \(=<function .*\) must give a number for every iteration, but gave None for 0; mend its return"
    with pytest.raises(TypeError, match=said):
        train(tmp_path / "k", schedule=lambda _: None)
    with pytest.raises(TypeError, match=r"`examples` \(='dict of x: tensor \(45, 1\)'\) must be tensors; pass \(x, "):
        train(tmp_path / "l", train=({"x": x}, y))
    with pytest.raises(TypeError, match=r"`model` \(=.*\) must be a torch.nn.Module"):
        Run.at(tmp_path / "m").train(nn.Linear, None, None, train=(x, y), iterations=3)


def test_a_device_that_is_no_place_for_a_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`device` \(='meta'\) must be a CPU or a CUDA device; pass"):
        Run.at(tmp_path / "r", device="meta")
    assert not (tmp_path / "r").exists()


def test_an_optimizer_of_something_else_is_refused(tmp_path: Path) -> None:
    (x, y), _ = data()
    model = tb.to_bayesian(nn.Linear(1, 1))
    optimizer = torch.optim.SGD([*model.parameters(), nn.Parameter(torch.zeros(2))], lr=0.1)
    with pytest.raises(ValueError, match=r"`optimizer` .* must hold only parameters of the model and the objective"):
        Run.at(tmp_path / "r").train(
            model, tb.ELBO(tb.Gaussian(), data_size=45), optimizer, train=(x, y), iterations=3, batch_size=5
        )


def test_another_process_is_kept_out(tmp_path: Path) -> None:
    run = Run.at(tmp_path / "r", seed=3, config={"width": 16})
    with only_one(run.folder), pytest.raises(ValueError, match="must be free, but another process trains in it"):
        train(run.folder, progress=False)


def test_other_versions_are_mentioned_on_resumption(begun: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(begun, folder)
    path = folder / "environment.json"
    path.write_text(re.sub(r'"torch": "[^"]*"', '"torch": "1.0"', path.read_text()))
    with pytest.warns(UserWarning, match=r"torch was 1\.0, is .*; the result may differ from an uninterrupted run's"):
        train(folder, progress=False)


def test_a_device_is_held_to(tmp_path: Path) -> None:
    config = Run.at(tmp_path / "r").path("config.json")
    change_config(config, device="cuda")
    with pytest.raises(ValueError, match=r"`device` \(='cpu'\) must be 'cuda', as the run in "):
        Run.at(tmp_path / "r")
    run = Run.at(tmp_path / "r", device="cuda:0")
    (x, y), _ = data()
    model = tb.to_bayesian(nn.Linear(1, 1))
    with pytest.raises(ValueError, match=r"`model, train` \(=\['cpu'\]\) must lie on the run's device, 'cuda'; move"):
        run.train(
            model,
            tb.ELBO(tb.Gaussian(), data_size=45),
            torch.optim.SGD(model.parameters(), lr=0.1),
            train=(x, y),
            iterations=3,
        )


def test_a_config_with_tuples_is_the_same_when_run_again(tmp_path: Path) -> None:
    """JSON makes lists of them."""
    for _ in range(2):
        run = tb.runs.Run.at(tmp_path / "run", seed=0, config={"layers": (16, 16)})
    assert run.config["layers"] == [16, 16]
