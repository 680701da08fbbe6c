"""The performance benchmarks run, refuse what is wrong, and their page says what the files say. No time is judged."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import tribayes as tb
from benchmarks import checks, draw, ensemble, growth, memory, peers, prediction, racing, step, training
from benchmarks import command as options
from benchmarks.isolation import isolated
from benchmarks.learners import Deterministic, Learner
from benchmarks.networks import TASKS, resnet18, resnet50
from benchmarks.peers.install import install
from benchmarks.performance import __main__ as command
from benchmarks.performance.document import document
from benchmarks.performance.floors import step_bytes
from benchmarks.performance.markdown import number
from benchmarks.performance.readme import speed_block
from benchmarks.performance.targets import against_peers
from benchmarks.racing import CaptureFailed, candidate, plain_candidate, race

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Result files of quick runs, without peers."""
    folder = tmp_path_factory.mktemp("results")
    words = ["--device", "cpu", "--quick", "--into", str(folder), "--peers", str(folder / "none")]
    for module in (draw, training, prediction, growth, memory):
        module.main(words)
    step.main([*words, "--network", "lenet-100"])
    return folder


@pytest.mark.parametrize("name", ["draw", "step", "training", "prediction", "growth", "memory"])
def test_a_quick_run_leaves_a_file_that_says_where_and_how(results: Path, name: str) -> None:
    stored = json.loads((results / f"{name}-cpu.json").read_text())
    assert stored["benchmark"] == name
    assert stored["quick"]
    assert stored["machine"]["torch"] == torch.__version__
    assert stored["machine"]["copy_bytes_per_second"] > 0
    assert not list(results.glob("*.part"))


def test_networks_keep_the_rows_that_the_same_machine_left(results: Path, tmp_path: Path) -> None:
    stored = json.loads((results / "step-cpu.json").read_text()) | {"quick": False}
    (tmp_path / "step-cpu.json").write_text(json.dumps(stored))
    words = ["--device", "cpu", "--into", str(tmp_path)]

    def kept(*more: str) -> Mapping[str, Any]:
        return options.kept("step", options.parser("").parse_args([*words, *more]))

    assert kept() == stored["figures"]
    assert kept("--quick") == {}
    assert kept("--threads", str(torch.get_num_threads() + 1)) == {}
    (tmp_path / "step-cpu.json").write_text(json.dumps(stored | {"quick": True}))
    assert kept() == {}


def test_each_network_is_kept_beside_those_that_ran_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "_row", lambda _arguments, name, _eager: {"name": name})
    monkeypatch.setattr(step, "_table", lambda row: row["name"])
    for name in ("cifar10-full", "lenet-100"):
        step.main(["--device", "cpu", "--into", str(tmp_path), "--network", name])
    rows = json.loads((tmp_path / "step-cpu.json").read_text())["figures"]["networks"]
    assert rows == [{"name": "lenet-100"}, {"name": "cifar10-full"}]


def test_peers_that_are_not_there_are_named(results: Path) -> None:
    row = json.loads((results / "step-cpu.json").read_text())["figures"]["networks"][0]
    assert [one["name"] for one in row["timings"]] == ["deterministic", "ours"]
    assert [one["name"] for one in row["absent"]] == list(peers.PEERS)
    assert all(one["reason"].startswith("not installed: python -m") for one in row["absent"])


def test_the_page_of_quick_runs_judges_nothing(results: Path) -> None:
    page = document(results)
    assert page.count("these are no measurements") == 6
    assert "not measured" in page
    assert "**not met**" not in page
    assert "| BLiTZ | – | – | not installed" in page


@pytest.mark.parametrize(
    ("ratio", "found", "verdict"),
    [
        ([1.2, 1.3, 1.35], "1.3 (1.2–1.35)", "met"),
        ([1.2, 1.3, 1.4], "1.3 (1.2–1.4)", "within error"),
        ([1.2, 1.4, 1.5], "1.4 (1.2–1.5)", "within error"),
        ([1.36, 1.4, 1.5], "1.4 (1.36–1.5)", "**not met**"),
        ([1.3, 1.3, 1.3], "1.3", "met"),
    ],
)
def test_targets_are_met_or_not_beyond_the_quartiles_of_whole_runs(
    results: Path, tmp_path: Path, ratio: list[float], found: str, verdict: str
) -> None:
    stored = json.loads((results / "step-cpu.json").read_text()) | {"quick": False}
    stored["figures"]["networks"][0]["timings"][1]["ratio"] = ratio
    (tmp_path / "step-cpu.json").write_text(json.dumps(stored))
    line = f"| CPU | training step, LeNet-100 | ≤ 1.35 × deterministic | {found} × deterministic | {verdict} |"
    assert line in document(tmp_path)


@pytest.mark.parametrize(
    ("images", "found"), [(1, "0.9 (0.8–1) × one about 200 images | met"), (2, "– | not measured")]
)
def test_kept_networks_are_judged_by_one_image(tmp_path: Path, images: int, found: str) -> None:
    row = {"networks": 200, "images": images, "timings": [{"name": ensemble.KEPT, "ratio": [0.8, 0.9, 1.0]}]}
    stored = {"quick": False, "machine": {"kind": "cpu"}, "figures": {ensemble.LENET: row}}
    (tmp_path / "ensemble-cpu.json").write_text(json.dumps(stored))
    line = f"| CPU | 200 LeNets kept, about one image | ≤ 1.5 × one about 200 images | {found} |"
    assert line in document(tmp_path)


def test_a_peer_is_compared_by_opposite_quartiles() -> None:
    times = {"ours": [1.0, 1.1, 1.2], "IVON": [1.0, 1.25, 2.0], "BLiTZ": [2.0, 2.0, 2.0]}
    row = {"name": "lenet-100", "timings": [{"name": name, "seconds": seconds} for name, seconds in times.items()]}
    found = against_peers("lenet-100")({"networks": [row]})
    assert found == pytest.approx((0.5, 0.88, 1.2))
    assert against_peers("resnet-18")({"networks": [row]}) is None


def test_what_an_earlier_version_was_measured_with_says_so(results: Path, tmp_path: Path) -> None:
    assert "; by tribayes" not in document(results)
    stored = json.loads((results / "step-cpu.json").read_text())
    stored["machine"]["tribayes"] = "0.0.9"
    (tmp_path / "step-cpu.json").write_text(json.dumps(stored))
    assert document(tmp_path).count("TFLOP/s; by tribayes 0.0.9\n") == 1


def test_the_page_can_be_made_without_any_file(tmp_path: Path) -> None:
    assert document(tmp_path).count("Not measured yet.") == 8


def test_the_committed_page_is_up_to_date() -> None:
    command.main(["--check"])


def test_the_readme_has_a_row_for_each_network(results: Path, tmp_path: Path) -> None:
    stored = json.loads((results / "step-cpu.json").read_text())
    ours = stored["figures"]["networks"][0]["timings"][1]
    ours["ratio"] = [1.2, 1.3, 1.4]
    (tmp_path / "step-cpu.json").write_text(json.dumps(stored))
    block = speed_block(tmp_path)
    assert "| CPU, LeNet-100 | **1.30** | – | – | – | – | – | – | – |" in block
    ours["how"] = "not capturable, eager: a reason"
    (tmp_path / "step-cpu.json").write_text(json.dumps(stored))
    assert "**1.30 (no graph)**" in speed_block(tmp_path)
    assert speed_block(tmp_path / "none") == "Not measured yet.\n"


def test_page_and_readme_are_written(results: Path, tmp_path: Path) -> None:
    page, readme = tmp_path / "page.md", tmp_path / "readme.md"
    readme.write_text("before\n<!-- speed:start -->\nold\n<!-- speed:end -->\nafter\n")
    words = ["--results", str(results), "--page", str(page), "--readme", str(readme)]
    with pytest.raises(SystemExit, match=r"page\.md is not"):
        command.main([*words, "--check"])
    command.main(words)
    command.main([*words, "--check"])
    assert page.read_text() == document(results)
    assert speed_block(results) in readme.read_text()
    readme.write_text(readme.read_text().replace("CPU, LeNet", "CPU, a LeNet"))
    with pytest.raises(SystemExit, match=r"readme\.md is not what the results say"):
        command.main([*words, "--check"])


def test_a_page_that_is_out_of_date_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("something else")
    with pytest.raises(
        SystemExit, match=r"page\.md is not what the results say; run python -m benchmarks\.performance"
    ):
        command.main(["--check", "--page", str(page)])


def test_a_race_gives_ratios_turn_by_turn() -> None:
    runs: list[str] = []
    field = [plain_candidate(name, lambda name=name: runs.append(name)) for name in ("one", "two")]
    first, second = race(field, CPU, seconds=0.0, base="one")
    assert (first.name, second.name) == ("one", "two")
    assert first.ratio == (1.0, 1.0, 1.0)
    assert first.turns == second.turns >= 5
    assert second.seconds[0] <= second.seconds[1] <= second.seconds[2]
    assert set(runs) == {"one", "two"}


def test_a_turn_on_a_cpu_repeats_its_work_as_far_as_the_time_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[float] = []  # a clock that only work moves on, a millisecond at a time
    monkeypatch.setattr(racing, "perf_counter", lambda: 0.001 * len(runs))
    (timing,) = race([plain_candidate("one", lambda: runs.append(0))], CPU, seconds=0.1, base="one")
    assert timing.turns >= 5
    assert len(runs) >= 15 * timing.turns  # about twenty in a turn of a fifth of the time
    assert timing.seconds[1] == pytest.approx(0.001)  # of one


def test_on_a_cpu_a_candidate_runs_as_it_is() -> None:
    assert candidate("name", lambda: None, CPU, eager={"name": "a reason"}).how == "eager"


def work_that_one_candidate_spoils(eager: Mapping[str, str]) -> dict[str, Any]:
    if "spoiler" not in eager:
        raise CaptureFailed("spoiler", "a reason")
    return dict(eager)


def test_work_begins_anew_in_another_process_when_a_capture_fails() -> None:
    assert isolated(work_that_one_candidate_spoils, torch.device("cuda")) == {"spoiler": "a reason"}


@pytest.mark.parametrize("implementation", ["cpu", "plain"])
def test_the_draw_passes_its_check(implementation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = checks.weights_model

    def forced(device: torch.device, *sizes: int) -> tb.BayesianModule:
        model = made(device, *sizes)
        model.family._implementation = implementation
        return model

    monkeypatch.setattr(checks, "weights_model", forced)
    checks.check_draw(CPU)


def test_a_draw_of_another_law_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(device: torch.device, *sizes: int) -> tb.BayesianModule:
        return tb.to_bayesian(checks.Weights(*sizes), tau=0.29, rho=-0.3).to(device)

    monkeypatch.setattr(checks, "weights_model", other)
    with pytest.raises(SystemExit, match=r"is wrong \(variance.*nothing was timed"):
        checks.check_draw(CPU)


class Broken(Deterministic):
    """Says that it is random and is not."""

    random = True


class Narrow(Deterministic):
    def outputs(self, images: torch.Tensor) -> torch.Tensor:
        return super().outputs(images)[:, :3]


@pytest.mark.parametrize(
    ("learner", "problem"),
    [
        (Broken, "two passes draw the same weights"),
        (Narrow, "its outputs have the shape (4, 3) instead of (4, 10)"),
    ],
)
def test_a_wrong_contender_is_found_out(learner: type[Learner], problem: str) -> None:
    task = TASKS["lenet-100"]
    assert checks.problem_of(learner(task, CPU), *task.examples(CPU, 4)) == problem


def test_the_residual_networks_have_their_known_sizes() -> None:
    with torch.device("meta"):
        sizes = [sum(value.numel() for value in net.parameters()) for net in (resnet18(), resnet50())]
        assert resnet18()(torch.empty(2, 3, 32, 32)).shape == (2, 10)
        assert resnet50()(torch.empty(2, 3, 224, 224)).shape == (2, 1000)
    assert sizes == [11_173_962, 25_557_032]


def test_exponents_of_exact_powers() -> None:
    assert growth.exponent([1, 10, 100], [2, 20, 200]) == pytest.approx(1)
    assert growth.exponent([1, 4, 16], [3, 6, 12]) == pytest.approx(0.5)


def test_the_floor_of_a_step_in_bytes() -> None:
    assert (step_bytes(half=False), step_bytes(half=True)) == (24, 8)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567.0, "1,234,567"),
        (1234.6, "1,235"),
        (12.345, "12.3"),
        (0.000012345, "0.0000123"),
        (-1.5, "−1.5"),
        (0, "0"),
    ],
)
def test_numbers_as_a_reader_wants_them(value: float, text: str) -> None:
    assert number(value) == text


def test_peers_that_do_not_arrive_leave_the_old_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "old").touch()
    commands: list[list[str]] = []

    def refuse(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return subprocess.CompletedProcess(command, returncode=1)

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(SystemExit, match="the peers could not be installed; the benchmarks run without them"):
        install(folder)
    assert (folder / "old").exists()
    assert "--no-deps" in commands[0]
