"""`tribayes fit DATA`: what was said on the command line becomes a run, new or resumed, and is trained."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from tribayes._errors import refusal
from tribayes._files import only_one
from tribayes._tensor_files import digest
from tribayes._text import printable
from tribayes.distributed.processes import processes
from tribayes.own.image_folder import ENDINGS
from tribayes.own.networks import build_network, check_network
from tribayes.own.own_run import OwnRun
from tribayes.own.own_trainer import chosen_weight
from tribayes.own.prepared import Form, Prepared, as_examples, prepare_images, prepare_table
from tribayes.own.schema import Schema
from tribayes.own.setting import IMAGES, MLP, RESNET, TABLE, OwnSetting
from tribayes.own.table_file import TABLE_ENDINGS
from tribayes.recipes.experiments import EXPERIMENTS
from tribayes.recipes.recipe_run import check_said_again, notes
from tribayes.runs import Examples, train_sessions
from tribayes.runs.environment import choose_device, compute_repeatably
from tribayes.runs.folder import check_free
from tribayes.runs.records import tensorboard_log


def data_named(word: str | None) -> Path | None:
    """The data that a word names; None where it is a name of the catalogue, or none of both."""
    if word is None or word in EXPERIMENTS:
        return None
    path = Path(word)
    return path if path.suffix.lower() in TABLE_ENDINGS or path.exists() else None


class OwnRequest(NamedTuple):
    """What was said on the command line; None where nothing was."""

    data: Path | None
    folder: Path | None
    seed: int | None
    changes: Mapping[str, Any]
    device: str
    threads: int | None
    target: str | None
    task: str | None
    network: str | None
    ignore: Sequence[str]

    @property
    def place(self) -> Path:
        """The run's folder, by the data's name and the seed where none is named."""
        return self.folder or Path("runs") / f"{self.name}-seed{self.seed or 0}"

    @property
    def name(self) -> str:
        return printable(self.data.resolve().stem) if self.data else "data"


def train_own(request: OwnRequest, resume: bool, checkpoint_seconds: float, tensorboard: bool) -> OwnRun:
    """Train as asked, and say on standard output how it goes. Of several processes the first speaks and writes."""
    first = processes().first
    run = _resumed(request) if resume else _begun(request)
    if run.finished:
        _say([f"{printable(run.folder)} is finished already."] if first else [])
        return run
    _say(map(printable, run.form.notes) if first else [])
    with ExitStack() as stack:
        if first:
            stack.enter_context(only_one(run.folder))
        session = run.session(choose_device(run.device), checkpoint_seconds)
        if tensorboard and first:
            log = tensorboard_log(run.path("tensorboard"), session.trainer.iteration)
            session.listeners.append(stack.enter_context(log))
        _say(notes(session, resume) if first else [])
        train_sessions([session])
    _say([f"\nDone: {printable(run.folder)}", f"calibrated: {run.widths.words}"] if first else [])
    return run


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _begun(request: OwnRequest) -> OwnRun:
    """A run that begins, of the same data in every process. Its folder is made last, when all else is right."""
    assert request.data is not None
    device, seed, group = choose_device(request.device), request.seed or 0, processes()
    group.after_first(lambda: check_free(request.place))
    compute_repeatably(request.threads)
    setting = _asked(request)
    prepared, form = _prepare(request, setting, seed)
    task = "classification" if form.target.classes else "regression"
    hashes = {"schema": digest({}, form.as_dict()), "examples": digest(prepared.tensors())}
    setting = setting.changed(task=task, **hashes).chosen(len(prepared.parts.train))
    shape, outputs = form.shape, form.target.outputs
    check_network(build_network(setting, shape, outputs, seed), setting.network, shape, outputs)
    train, held_out = (
        Examples(*as_examples(form, prepared, rows, device))
        for rows in (prepared.parts.train, prepared.parts.calibration)
    )
    group.check_batch(setting.batch, "--set batch")
    weight = chosen_weight(setting, form, train, held_out, seed, group.first and sys.stdout.isatty())
    setting = setting.changed(kl_weight=weight)
    group.after_first(lambda: OwnRun.begin(request.place, setting, seed, device, prepared, form))
    return OwnRun.open(request.place)


def _asked(request: OwnRequest) -> OwnSetting:
    """The setting as far as it is known before the data are read."""
    assert request.data is not None
    images = request.data.is_dir()
    if images and request.data.suffix.lower() in TABLE_ENDINGS:
        raise refusal("DATA", str(request.data), "be a file, but it is a folder", "pass one of the tables in it")
    if not images and request.data.suffix.lower() in ENDINGS:
        remedy = "pass the folder that has a sub-folder of images for each class"
        raise refusal("DATA", str(request.data), "be a table or a folder, but it is an image", remedy)
    for option, value in (("--target", request.target), ("--task", request.task), ("--ignore", request.ignore or None)):
        if images and value is not None:
            raise refusal(option, value, "be for tables: images have a sub-folder for each class", "leave it out")
    for key, value in request.changes.items():
        if not isinstance(value, str) and value <= 0 and key != "weight_decay":  # a setting's 0 leaves it to the data
            raise refusal(key, value, "be more than 0", "leave it out, and one is chosen")
    network = request.network or (RESNET if images else MLP)
    if network == RESNET and not images:
        raise refusal("--network", network, "take the rows of a table, but it takes images", f"pass {MLP}")
    kind = IMAGES if images else TABLE
    return OwnSetting(request.name, kind, printable(request.data), "classification", "", "", network, **request.changes)


def _prepare(request: OwnRequest, setting: OwnSetting, seed: int) -> tuple[Prepared, Form]:
    assert request.data is not None
    if setting.kind == IMAGES:
        return prepare_images(request.data, setting.size, seed)
    return prepare_table(request.data, request.target, request.ignore, request.task, seed)


def _resumed(request: OwnRequest) -> OwnRun:
    """A run that was begun. What was said again must be as it was said then."""
    run = OwnRun.open(request.place)
    setting = run.setting
    said: dict[str, tuple[Any, Any]] = {
        "DATA": (request.name if request.data else None, setting.name),
        "--target": (request.target, run.form.target.name),
        "--seed": (request.seed, run.seed),
        "--threads": (request.threads, run.threads),
        "--device": (None if request.device == "auto" else request.device, run.device),
        "--task": (request.task, setting.task),
        "--network": (request.network, setting.network),
    }
    said |= {f"--set {key}": (value, getattr(setting, key)) for key, value in request.changes.items()}
    check_said_again(said, run.folder)
    learned = [column.name for column in run.form.inputs.columns] if isinstance(run.form.inputs, Schema) else []
    for name in {*request.ignore}.intersection(learned):
        remedy = "leave it out, or start anew without --resume in another folder"
        raise refusal("--ignore", name, f"be a column that {run.folder} does not learn from", remedy)
    if setting.network not in (MLP, RESNET) and request.network is None and not run.finished:
        remedy = f"pass --network {setting.network} again if you trust it: its code is run"
        raise refusal("--network", None, "be said again: no file says what is run", remedy)
    compute_repeatably(run.threads)
    return run
