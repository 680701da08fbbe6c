"""The queue: runs one after the other, each written down at once, as many as fit into the time."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from benchmarks.modern import archive, judging
from benchmarks.modern.archive import Record
from benchmarks.modern.arms import ARMS
from benchmarks.modern.sources import Study
from benchmarks.modern.task import Settings, Value, combinations
from benchmarks.modern.training import OutOfTime, Say, Trained, expected_bytes, free_memory, task_of, train
from tribayes._graphs import CaptureFailed
from tribayes.runs.environment import device_name, environment

MARGIN = 1.1  # by which a run may take longer than the one before it
OTHER_ARM = 2.0  # by which an arm that was never run may take longer than the slowest of those that were
TEST_IMAGES = 36  # times those held out: test images, 75 corruptions of a fifth of them, and foreign ones


class Broken(Exception):
    """A GPU that nothing more can be asked of in this process."""


@dataclass
class Queue:
    """Where runs go, and what they may take. `test`: look at test images, too."""

    study: Study
    folder: Path
    seconds: float = float("inf")
    test: bool = False
    retry: bool = False  # what has failed before
    say: Say = print
    _begin: float = field(default_factory=perf_counter)
    _plain: dict[str, tuple[dict[str, Tensor], float]] = field(default_factory=dict)  # the last one's weights, seconds

    def left(self) -> float:
        return self.seconds - (perf_counter() - self._begin)

    def run(self, plan: Sequence[Settings]) -> None:
        """All that is not there yet, in order."""
        steps = sum(task_of(settings, self.study).steps for settings in plan)
        self.say(f"{len(plan)} runs, {steps:,} steps, on {device_name(self.study.device)}")
        for number, settings in enumerate(plan, start=1):
            reason = self._reason_to_skip(settings)
            self.say(f"[{number}/{len(plan)}] {settings.name}: {reason or 'begins'}, {self.left():.0f} s left")
            if reason is None:
                self._attempt(settings)
                free_memory(self.study.device)

    def _reason_to_skip(self, settings: Settings) -> str | None:
        known = archive.records(self.folder)
        if any(one["name"] == settings.name and ("test" in one or not self.test) for one in known):
            return "is there"
        if not self.retry and any(one["name"] == settings.name for one in archive.failures(self.folder)):
            return "failed before"
        expected = expected_seconds(settings, known, self.test, trained=_twin(settings) in self._plain)
        if expected * MARGIN > self.left():
            return f"would take {expected:.0f} s"
        return None

    def _attempt(self, settings: Settings) -> None:
        self.say(size_text(settings, self.study))
        try:
            self._whole(settings)
        except OutOfTime as error:
            self.say(f"  given up: {error}")
        except Exception as error:  # an arm that fails must not take the others with it
            record = {"name": settings.name, "settings": settings.as_dict(), "error": error_text(error)}
            archive.save_failure(self.folder, record | {"machine": environment(self.study.device)})
            self.say(f"  failed: {type(error).__name__}: {error}")
            if isinstance(error, CaptureFailed) or _gpu_is_broken(self.study.device):
                raise Broken(str(error)) from error

    def _whole(self, settings: Settings) -> None:
        if self.study.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.study.device)
        weights, before = self._plain.get(_twin(settings), (None, 0.0))
        trained = train(settings, self.study, self.say, self.left, adopted=weights)
        trained_seconds = trained.seconds + (before if not trained.losses else 0.0)
        self._remember(settings, trained)
        record: Record = {
            "name": settings.name,
            "cell": settings.cell,
            "settings": settings.as_dict(),
            "note": trained.arm.note,
            "machine": environment(self.study.device),
            "data_size": len(self.study.images),
            "steps": task_of(settings, self.study).steps,
            "weights": sum(parameter.numel() for parameter in trained.arm.network.parameters()),
            "loss": trained.losses,
            "posterior": trained.arm.posterior(),
        }
        judged = judging.judge(trained.arm, self.study, self.test)
        seconds = {"train": trained_seconds, "finish": trained.finishing_seconds, **judged.seconds}
        record |= {"seconds": seconds, "peak_bytes": _peak(self.study.device), **judged.figures}
        archive.save(self.folder, record, judged.answers, judged.labels)
        self.say(f"  {judging.in_words(record)}")

    def _remember(self, settings: Settings, trained: Trained) -> None:
        """A plain network, for the arm that only adds to one."""
        if settings.arm == "plain":
            state = {name: value.detach().clone() for name, value in trained.arm.model.state_dict().items()}
            self._plain = {_twin(settings): (state, trained.seconds)}


def planned(
    base: Mapping[str, Any],
    arms: Sequence[str],
    seeds: Sequence[int],
    choices: Mapping[str, Sequence[Value]],
) -> list[Settings]:
    """Seeds outermost, then arms, then what is to be chosen; an arm is given those options that it has."""
    plan: list[Settings] = []
    for seed in seeds:
        for arm in arms:
            known = ARMS[arm].options
            own = combinations({name: choices.get(name) or [default] for name, default in known.items()})
            plan += [Settings(arm=arm, seed=seed, options=options, **base) for options in own]
    return plan


def expected_seconds(settings: Settings, known: Iterable[Record], test: bool, trained: bool = False) -> float:
    """What a run should take, by those of the same data and network; 0 where there are none."""
    alike = [one for one in known if _same(one, settings, "data", "network", "batch")]
    own = [one for one in alike if _same(one, settings, "arm", "samples")]
    own = [one for one in own if one["settings"]["options"].get("draws") == settings.options.get("draws")]
    times = [_scaled(one, settings, test, trained) for one in own or alike]
    return max(times, default=0.0) * (1.0 if own else OTHER_ARM)


def _scaled(one: Record, settings: Settings, test: bool, trained: bool) -> float:
    seconds = one["seconds"]
    steps = 0.0 if trained else seconds["train"] * settings.epochs / one["settings"]["epochs"]
    tested: float = seconds.get("test", TEST_IMAGES * seconds["held_out"]) if test else 0.0
    return float(steps + seconds["finish"] + 2 * seconds["held_out"] + tested)  # asked twice: judging.judge


def _same(one: Record, settings: Settings, *names: str) -> bool:
    return all(one["settings"][name] == getattr(settings, name) for name in names)


def _twin(settings: Settings) -> str:
    """The plain run that an arm could start from; other arms have none."""
    if settings.arm not in ("plain", "laplace"):
        return ""
    kept = {name: value for name, value in vars(settings).items() if name not in ("arm", "options", "samples")}
    return Settings(arm="plain", **kept).name


def error_text(error: BaseException) -> str:
    """What was raised, and on the way to where, without the folders of this machine."""
    way = [f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in traceback.extract_tb(error.__traceback__)]
    return "\n".join([*way, f"{type(error).__name__}: {error}"])


def size_text(settings: Settings, study: Study) -> str:
    """What a run takes, before it begins."""
    steps = task_of(settings, study).steps
    return f"  {steps:,} steps of {settings.batch} images, about {expected_bytes(settings, study) / 2**30:.1f} GiB"


def _peak(device: torch.device) -> int | None:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def _gpu_is_broken(device: torch.device) -> bool:
    if device.type != "cuda":
        return False
    try:
        torch.cuda.synchronize(device)
        return False
    except RuntimeError:
        return True
