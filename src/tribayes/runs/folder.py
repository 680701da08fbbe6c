"""A run as a folder: what it was asked to do, where, how it went, and what came out.

config.json             setting, seed, device, threads: all that determines the result; a folder with it is a run
environment.json        versions and machine
metrics.jsonl           one record every so many iterations
checkpoint.safetensors  where it stands (and previous-checkpoint.safetensors, the one before)
final.safetensors       the trained network; a run with it is finished
posterior.json          its τ and ρ, one row per random tensor
evaluation.json         what an evaluation found

Tensors are in safetensors files with facts about them and a checksum, so that a torn or changed file is found out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from tribayes._errors import check_whole, refusal
from tribayes._files import make_folder, only_one, read_json, store_json
from tribayes._tensor_files import digest, plain_values, read_tensors, unusable, write_tensors
from tribayes.inference.history import History
from tribayes.nn.stage import posterior_rows
from tribayes.runs.environment import check_device, environment
from tribayes.runs.records import Record, is_of, read_records
from tribayes.runs.trainer import copied

FORMAT = 1

SCHEMA, EXAMPLES = "schema.json", "examples.safetensors"  # of runs that keep their data with them

_CONFIG, _ENVIRONMENT = "config.json", "environment.json"
_BEFORE = (SCHEMA, EXAMPLES, _ENVIRONMENT)  # config.json comes last, and makes it a run
_OF_A_START = {*_BEFORE, *(f".{name}.new" for name in (*_BEFORE, _CONFIG))}
_SAME = ("tribayes", "torch", "cuda", "device", "threads")  # of the environment: where these differ, bits may
_CHECKSUM = "sha256"  # key of config.json: of all the rest, so that a changed rate does not train unnoticed
_OBJECTIVE = "objective/"  # before the names of an objective's own tensors; no module's name has a slash


@dataclass(frozen=True)
class RunFolder:
    """The files of one run. `create` begins one, `open` finds one; the rest reads and writes."""

    folder: Path
    config: Mapping[str, Any]
    seed: int
    device: str  # "cpu" or "cuda"
    threads: int

    @classmethod
    def create(cls, folder: Path | str, config: Mapping[str, Any], seed: int, device: torch.device | str) -> Self:
        """Begin a run in a folder that is new or empty, or in which a start was cut short.

        Config (plain values, as JSON has them), seed and device determine the result; who opens the run finds them.
        """
        folder, device = Path(folder), check_device(torch.device(device))
        seed = check_whole("seed", seed, "pass e.g. 0")
        run = cls(folder, plain_values("config", config), seed, device.type, torch.get_num_threads())
        with beginning(folder):
            run._start(device)
        return run

    def _start(self, device: torch.device) -> None:
        """Make a folder that is held a run."""
        store_json(self.path(_ENVIRONMENT), environment(device))
        content = {"format": FORMAT, "setting": self.config, "seed": self.seed, "device": self.device}
        content["threads"] = self.threads
        store_json(self.path(_CONFIG), content | {_CHECKSUM: digest({}, content)})

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """The run in a folder."""
        folder = Path(folder)
        path = folder / _CONFIG
        if not path.is_file():
            cut_short = folder.is_dir() and _is_free(folder) and any(folder.iterdir())
            remedy = "its start was cut short: begin it again" if cut_short else "`tribayes fit` begins one"
            raise refusal("RUN", str(folder), "be the folder of a run, with a config.json", remedy)
        found = read_json(path)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            problem = f"is not of a run of format {FORMAT}"
            raise unusable(path, problem, "use the tribayes that wrote it, or start anew in another folder")
        kinds = {"setting": dict, "seed": int, "device": str, "threads": int}
        for key, kind in kinds.items():
            if not is_of(kind, found.get(key)):
                problem = f"is damaged: its {key} is {found.get(key)!r}"
                raise unusable(path, problem, "restore it, or start anew in another folder")
        run = cls(folder, *(found[key] for key in kinds))
        written = found.pop(_CHECKSUM, None)
        # without one it is of an older version, where checkpoint and network alone say what they were made with
        if written != digest({}, found) and (written is not None or not (run.checkpoint.exists() or run.finished)):
            problem = "is damaged: its content does not match its sha256"
            raise unusable(path, problem, "restore it, or start anew in another folder")
        return run

    def path(self, name: str) -> Path:
        return self.folder / name

    @property
    def name(self) -> str:
        """By the run's config, else by its folder."""
        return str(self.config.get("name", self.folder.name))

    @property
    def checkpoint(self) -> Path:
        return self.path("checkpoint.safetensors")

    @property
    def metrics(self) -> Path:
        return self.path("metrics.jsonl")

    @property
    def final(self) -> Path:
        return self.path("final.safetensors")

    @property
    def finished(self) -> bool:
        return self.final.is_file()

    def records(self) -> list[Record]:
        """What the training wrote down so far."""
        return read_records(self.metrics) if self.metrics.is_file() else []

    def history(self) -> History:
        """Loss and NLL of every iteration, as far as records tell: each has the mean of its record."""
        history = History()
        for record in self.records():
            steps = record.iteration - len(history)
            history.loss += [record.loss] * steps
            history.nll += [record.nll] * steps
        return history

    def environment(self) -> dict[str, Any]:
        """Where the run was begun, and under "resumed" where it went on under other conditions."""
        return _read_object(self.path(_ENVIRONMENT))

    def note_resumption(self, iteration: int) -> list[str]:
        """Compare this machine with the one the run was begun on; differences are written down and returned."""
        before, now = self.environment(), environment(torch.device(self.device))
        changed = [f"{key} was {before.get(key)}, is {now[key]}" for key in _SAME if before.get(key) != now[key]]
        if changed:
            resumed = before.get("resumed", [])
            if not isinstance(resumed, list):
                problem = f"is damaged: its resumed is {resumed!r}"
                raise unusable(self.path(_ENVIRONMENT), problem, "restore it, or start anew elsewhere")
            now_too = [*resumed, {"iteration": iteration, **now}]
            store_json(self.path(_ENVIRONMENT), before | {"resumed": now_too})
        return changed

    def save_model(self, model: nn.Module, objective: nn.Module, training: Mapping[str, Any]) -> None:
        """Keep the trained network, and what the objective has learned; once it is there, the run is finished."""
        rows = [asdict(row) | {"name": name} for name, row in posterior_rows(model).items()]
        if rows:
            store_json(self.path("posterior.json"), rows)
        tensors = copied(model.state_dict(), "model")
        learned = copied(objective.state_dict(), "objective")
        tensors |= {_OBJECTIVE + name: value for name, value in learned.items()}
        self.write(self.final, "trained network", tensors, training)

    def load_model(self, build: Callable[[], nn.Module], device: torch.device | str | None = None) -> nn.Module:
        """The trained network: `build` makes one of its kind, which is given the trained weights."""
        model = build()
        model.load_state_dict(self.trained()[0])
        return model if device is None else model.to(device)

    def trained(self) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
        """The trained network's state, the objective's, and the facts kept with them."""
        if not self.finished:
            remedy = f"finish it, as with: tribayes fit --resume --run {self.folder}"
            raise refusal("RUN", str(self.folder), "be finished, but it has no final.safetensors", remedy)
        remedy = "remove it, and make it anew from the last checkpoint with --resume"
        tensors, facts = self.read(self.final, "trained network", remedy)
        learned = {key.removeprefix(_OBJECTIVE): tensors.pop(key) for key in [*tensors] if key.startswith(_OBJECTIVE)}
        return tensors, learned, facts

    def save_evaluation(self, result: Mapping[str, Any], device: torch.device) -> None:
        """Keep what an evaluation found, with what it is of and where it was made."""
        records = self.records()
        origin = {"name": self.name, "seed": self.seed, "iterations": records[-1].iteration if records else 0}
        found = origin | dict(result) | {"environment": environment(device)}
        store_json(self.path("evaluation.json"), found, contested=True)

    def evaluation(self) -> dict[str, Any]:
        """What the last evaluation found."""
        path = self.path("evaluation.json")
        if not path.is_file():
            remedy = f"make one, as with: tribayes evaluate {self.folder}"
            raise refusal("RUN", str(self.folder), "have an evaluation.json", remedy)
        return _read_object(path)

    def comparable(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """A config as it is compared with another; a subclass may say here what older ones meant."""
        return config

    def write(
        self, path: Path, kind: str, tensors: Mapping[str, Tensor], training: Mapping[str, Any], **facts: Any
    ) -> None:
        """Write tensors of this run; `training` is what the trainer was given beside the config."""
        origin = {"format": FORMAT, "kind": kind, "setting": self.config, "seed": self.seed}
        write_tensors(path, tensors, origin | facts | ({"training": training} if training else {}))

    def read(self, path: Path, kind: str, remedy: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Read them again, with their facts; a file that is torn, or of another kind, version or run, is refused."""
        tensors, facts = read_tensors(path, remedy)
        remedy = "put the right file in its place"
        if facts.get("kind") != kind:
            raise unusable(path, f"is no {kind} but of the kind {facts.get('kind')!r}", remedy)
        if facts.get("format") != FORMAT:
            raise unusable(path, f"has format {facts.get('format')!r}, not {FORMAT}", "use the tribayes that wrote it")
        held = {**self.comparable(facts["setting"]), "seed": facts["seed"]}
        own = {**self.comparable(self.config), "seed": self.seed}
        if (key := first_difference(held, own)) is not None:
            problem = f"belongs to another run: its {key} is {held.get(key)!r}, not {own.get(key)!r}"
            raise unusable(path, problem, remedy)
        return tensors, facts


@contextmanager
def beginning(folder: Path) -> Iterator[None]:
    """Make a folder and hold it while a run begins in it; of two programs that begin one there, the second is refused.

    Both would write their settings, and the first would end with a network that is of another run.
    """
    check_free(folder)
    make_folder(folder)
    with only_one(folder):
        check_free(folder)  # the other may have been here since the first look
        yield


def check_free(folder: Path) -> None:
    """Refuse a folder in which something is already, unless it is what a start that was cut short has left."""
    if folder.exists() and not _is_free(folder):
        remedy = "continue the run in it with --resume, or choose another folder with --run"
        raise refusal("--run", str(folder), "be a new or empty folder", remedy)


def check_same(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Refuse to go on with something else than the run in `folder` was begun with."""
    if (key := first_difference(before, now)) is not None:
        ours, theirs = _narrowed(now.get(key), before.get(key))
        remedy = "pass what was passed then, or begin another run in another folder"
        raise refusal(key, ours, f"be {theirs!r}, as the run in {folder} was begun", remedy)


def _narrowed(ours: Any, theirs: Any) -> tuple[Any, Any]:
    """The part in which two values differ, for a message that can be read."""
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return _narrowed(*next((a, b) for a, b in zip(ours, theirs, strict=True) if a != b))
    if isinstance(ours, dict) and isinstance(theirs, dict) and (key := first_difference(ours, theirs)):
        return {key: ours.get(key)}, {key: theirs.get(key)}
    return ours, theirs


def first_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """A key under which two mappings differ, the first by name; None where they are equal."""
    keys = sorted({*one, *other})
    return next((key for key in keys if key not in one or key not in other or one[key] != other[key]), None)


def _is_free(folder: Path) -> bool:
    return folder.is_dir() and {path.name for path in folder.iterdir()} <= _OF_A_START


def _read_object(path: Path) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict):
        raise unusable(path, "is damaged: it holds no object", "restore it, or start anew elsewhere")
    return found
