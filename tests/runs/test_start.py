"""A start that dies, at any of its file operations, leaves a folder in which a run is, or can be begun."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.recipes.small import change_config, names, new_run, session, tribayes
from tribayes import _files
from tribayes.runs import Run
from tribayes.runs import folder as folders

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders as the killed starts have left them, by the operation they died at; the last is that of a whole start."""
    root = tmp_path_factory.mktemp("starts")
    command = [sys.executable, "-m", "tests.runs.killed_starts", str(root)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True, timeout=PATIENCE)
    return [root / str(number) for number in range(1, 1 + max(int(name) for name in names(root)))]


def test_all_operations_were_tried(killed: list[Path]) -> None:
    left = [tuple(names(folder)) if folder.exists() else None for folder in killed]
    assert left[0] is None  # killed before the folder was made
    assert () in left
    assert ("environment.json",) in left
    assert any(files and ".config.json.new" in files for files in left)
    assert left[-1] == ("config.json", "environment.json")
    assert len(left) > 6


def test_a_folder_holds_a_run_or_takes_one(killed: list[Path]) -> None:
    for folder in killed:
        if (folder / "config.json").exists():
            assert Run.open(folder).environment()["tribayes"]
        else:
            with pytest.raises(ValueError, match=r"must be the folder of a run, with a config\.json; "):
                Run.open(folder)
            Run.create(folder, {"width": 16}, 0, "cpu")
        assert Run.at(folder, config={"width": 16}).config == {"width": 16}
        assert names(folder) == ["config.json", "environment.json"]


@pytest.mark.parametrize(
    "left", [["environment.json"], ["environment.json", ".config.json.new"], [".environment.json.new"]]
)
def test_the_command_says_what_to_do_and_does_it(tmp_path: Path, left: list[str]) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in left:
        (folder / name).write_text("{")
    answer = tribayes("fit", "--resume", "--run", folder)
    assert answer.code == 1
    assert answer.err.endswith("with a config.json; its start was cut short: begin it again.\n")
    assert tribayes("fit", "--run", folder, "--iterations", 10, "--threads", 1).code == 0
    assert Run.open(folder).finished


def test_a_foreign_file_keeps_a_run_out(tmp_path: Path) -> None:
    (tmp_path / "environment.json").write_text("{}")
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="must be a new or empty folder"):
        Run.create(tmp_path, {}, 0, "cpu")
    assert (tmp_path / "environment.json").read_text() == "{}"


@pytest.mark.parametrize("file", ["environment.json", "config.json"])
def test_a_disk_that_is_full_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    folder = tmp_path / "run"
    usual = _files.put_in_place

    def full(finished: Path, path: Path) -> None:
        if path.name == file:
            raise OSError(28, "No space left on device")
        usual(finished, path)

    with monkeypatch.context() as patch:
        patch.setattr(_files, "put_in_place", full)
        with pytest.raises(OSError, match=f"{file} could not be written: No space left on device"):
            new_run(folder)
    assert new_run(folder).finished is False


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", "0"),
        ("seed", None),
        ("seed", True),
        ("threads", 1.5),
        ("device", 0),
        ("setting", []),
        ("setting", None),
    ],
)
def test_a_config_that_was_changed_by_hand(tmp_path: Path, key: str, value: object) -> None:
    path = new_run(tmp_path / "run").path("config.json")
    change_config(path, checked=False, **{key: value})
    answer = tribayes("fit", "--resume", "--run", path.parent)
    assert answer.code == 1
    assert answer.err.startswith(f"error: {path} is damaged: its {key} is {value!r}; restore it, or start anew")


@pytest.mark.parametrize(
    ("key", "value"),
    [("iterations", "many"), ("batch", 1.5), ("prior_scale", {"*": "wide"}), ("xavier", 1), ("name", None)],
)
def test_a_setting_that_was_changed_by_hand(tmp_path: Path, key: str, value: object) -> None:
    run = new_run(tmp_path / "run")
    path = run.path("config.json")
    change_config(path, setting={**run.config, key: value})
    answer = tribayes("fit", "--resume", "--run", path.parent)
    assert answer.code == 1
    assert answer.err.startswith(f"error: `setting.{key}` (={value!r}) must be of its type; the file was changed")


@pytest.mark.parametrize(
    ("key", "value"), [("kl_weight", 0.02), ("batch", 32), ("learning_rate", 0.001), ("iterations", 30), ("name", "x")]
)
def test_a_setting_that_was_changed_before_the_first_checkpoint_is_noticed(
    tmp_path: Path, key: str, value: object
) -> None:
    """Nothing else would know what the run was begun with."""
    run = new_run(tmp_path / "run")
    path = run.path("config.json")
    change_config(path, checked=False, setting={**run.config, key: value})
    said = f"error: {path} is damaged: its content does not match its sha256; restore it, or start anew"
    assert tribayes("fit", "--resume", "--run", path.parent).err.startswith(said)
    content = {name: each for name, each in json.loads(path.read_text()).items() if name != "sha256"}
    path.write_text(json.dumps(content))
    assert tribayes("fit", "--resume", "--run", path.parent).err.startswith(said)


@pytest.mark.parametrize(("key", "value"), [("seed", 1), ("threads", 2), ("device", "cuda")])
def test_other_changes_of_a_config_are_noticed_too(tmp_path: Path, key: str, value: object) -> None:
    path = new_run(tmp_path / "run").path("config.json")
    change_config(path, checked=False, **{key: value})
    with pytest.raises(ValueError, match="is damaged: its content does not match its sha256"):
        Run.open(path.parent)


def test_a_run_of_before_the_checksum_is_vouched_for_by_its_checkpoint(tmp_path: Path) -> None:
    started = session(tmp_path / "run")
    started.checkpoint()
    path = started.run.path("config.json")
    path.write_text(json.dumps({name: each for name, each in json.loads(path.read_text()).items() if name != "sha256"}))
    assert Run.open(path.parent).config == started.run.config


@pytest.mark.parametrize("content", ["[" * 100_000, "{", "[]", "null", "1e999", "\xff"])
def test_a_config_that_is_no_config(tmp_path: Path, content: str) -> None:
    path = new_run(tmp_path / "run").path("config.json")
    path.write_bytes(content.encode("latin-1"))
    answer = tribayes("fit", "--resume", "--run", path.parent)
    assert (answer.code, answer.err.count("\n")) == (1, 1)
    assert answer.err.startswith(f"error: {path} is ")


def test_an_environment_that_was_changed_by_hand(tmp_path: Path) -> None:
    started = session(tmp_path / "run")
    path = started.run.path("environment.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"torch": "1.0", "resumed": 5}))
    with pytest.raises(ValueError, match=r"environment\.json is damaged: its resumed is 5; restore it"):
        started.run.note_resumption(0)


@pytest.mark.parametrize("moment", ["make_folder", "environment"])
def test_of_two_starts_in_one_folder_the_second_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Both wrote a config.json, and one of them ended with a network that was of another run than its folder said."""
    pytest.importorskip("fcntl", reason="locks are those of POSIX")
    path, original, refused = tmp_path / "run", getattr(folders, moment), list[str]()

    def interfered(*given: Any) -> Any:
        """Another program starts at this moment."""
        monkeypatch.undo()
        result = original(*given)
        try:
            Run.create(path, {"of": "the other"}, 1, "cpu")
        except ValueError as error:
            refused.append(str(error))
        return result

    monkeypatch.setattr(folders, moment, interfered)
    try:
        begun = Run.create(path, {"of": "one"}, 0, "cpu")
    except ValueError as error:
        refused.append(str(error))
        assert Run.open(path).config == {"of": "the other"}
    else:
        assert Run.open(path) == begun
    assert len(refused) == 1
