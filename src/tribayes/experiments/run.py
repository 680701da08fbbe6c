"""A run as a folder: what it was asked to do, where, how it went, and what came out.

config.json             setting, seed, device, threads: all that determines the result
environment.json        versions and machine
metrics.jsonl           a record every so many iterations
checkpoint.safetensors  where it stands (and previous-checkpoint.safetensors, the one before)
final.safetensors       the trained network
posterior.json          its τ and ρ, a row a tensor (Bayesian networks)
evaluation.json         what `tribayes evaluate` found
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tribayes._errors import refusal
from tribayes._files import make_folder, read_json, store_json
from tribayes.experiments.checkpoint import FORMAT, check_owner
from tribayes.experiments.environment import environment
from tribayes.experiments.metrics import Record, read_records
from tribayes.experiments.sealed import read_sealed, unusable, write_sealed
from tribayes.experiments.setting import Setting
from tribayes.experiments.trainer import build_model, sampler_for
from tribayes.nn.module import BayesianModule

_SAME = ("tribayes", "torch", "cuda", "device", "threads")  # of the environment: where these differ, bits may


@dataclass(frozen=True)
class Run:
    """One run. `create` begins one, `open` finds one; the rest reads and writes its files."""

    folder: Path
    setting: Setting
    seed: int
    device: str  # "cpu" or "cuda"
    threads: int

    @classmethod
    def create(cls, folder: Path, setting: Setting, seed: int, device: torch.device) -> Run:
        """Begin a run in a folder that is new or empty."""
        check_free(folder)
        make_folder(folder)
        run = cls(folder, setting, seed, device.type, torch.get_num_threads())
        store_json(run.path("environment.json"), environment(device))
        config = {"format": FORMAT, "setting": setting.as_dict(), "seed": seed}
        store_json(run.path("config.json"), config | {"device": run.device, "threads": run.threads})
        return run

    @classmethod
    def open(cls, folder: Path) -> Run:
        """The run in a folder."""
        path = folder / "config.json"
        if not path.is_file():
            remedy = "`tribayes fit` makes one; correct the name"
            raise refusal("RUN", str(folder), "be the folder of a run, with a config.json", remedy)
        config = read_json(path)
        if not isinstance(config, dict) or config.get("format") != FORMAT:
            problem = f"is not of a run of format {FORMAT}"
            raise unusable(path, problem, "use the tribayes that wrote it, or start anew in another folder")
        setting = Setting.from_dict(config["setting"])
        return cls(folder, setting, config["seed"], config["device"], config["threads"])

    def path(self, name: str) -> Path:
        return self.folder / name

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
        """What the training wrote down."""
        return read_records(self.metrics)

    def environment(self) -> dict[str, Any]:
        """Where the run was begun, and under "resumed" where it went on under other conditions."""
        found = read_json(self.path("environment.json"))
        assert isinstance(found, dict)
        return found

    def note_resumption(self, device: torch.device, iteration: int) -> list[str]:
        """Compare this machine with the one the run was begun on; differences are written down and returned."""
        before, now = self.environment(), environment(device)
        changed = [f"{key} was {before.get(key)}, is {now[key]}" for key in _SAME if before.get(key) != now[key]]
        if changed:
            resumed = [*before.get("resumed", []), {"iteration": iteration, **now}]
            store_json(self.path("environment.json"), before | {"resumed": resumed})
        return changed

    def save_model(self, model: nn.Module) -> None:
        """Keep the trained network; once it is there, the run is finished."""
        if isinstance(model, BayesianModule):
            rows = [{"name": name, **row} for name, row in model.posterior().as_dict().items()]
            store_json(self.path("posterior.json"), rows)
        facts = {"format": FORMAT, "kind": "trained network", "setting": self.setting.as_dict(), "seed": self.seed}
        write_sealed(self.final, {name: value.cpu() for name, value in model.state_dict().items()}, facts)

    def load_model(self, device: torch.device) -> nn.Module:
        """The trained network, on a device."""
        if not self.finished:
            remedy = f"finish it with: tribayes fit --resume --run {self.folder}"
            raise refusal("RUN", str(self.folder), "be finished, but it has no final.safetensors", remedy)
        tensors, facts = read_sealed(self.final, "remove it, and make it anew from the last checkpoint with --resume")
        check_owner(self.final, facts, "trained network", self.setting, self.seed)
        model = build_model(self.setting, self.seed)
        model.load_state_dict(tensors)
        if isinstance(model, BayesianModule):
            model.sampler = sampler_for(self.setting, device)
        return model.to(device)

    def save_evaluation(self, result: dict[str, Any], device: torch.device) -> None:
        """Keep what an evaluation found, with what it was made of and where."""
        origin = {"name": self.setting.name, "seed": self.seed, "iterations": self.setting.iterations}
        store_json(self.path("evaluation.json"), origin | result | {"environment": environment(device)})

    def evaluation(self) -> dict[str, Any]:
        path = self.path("evaluation.json")
        if not path.is_file():
            remedy = f"make one with: tribayes evaluate {self.folder}"
            raise refusal("RUN", str(self.folder), "have an evaluation.json", remedy)
        found = read_json(path)
        assert isinstance(found, dict)
        return found


def check_free(folder: Path) -> None:
    """Refuse a folder in which something is already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        remedy = "continue the run in it with --resume, or choose another folder with --run"
        raise refusal("--run", str(folder), "be a new or empty folder", remedy)
