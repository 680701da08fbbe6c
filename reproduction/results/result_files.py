"""Result files: one JSON per run, small enough to be committed.

    results/<experiment>/seed-<n>.json         a run of an experiment
    results/trials/<name>/seed-<n>.json        the same with some fields of the setting changed

A trial's `setting.name` says which experiment it varies; what differs from its setting is the trial.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from reproduction.results.curve import curve_of, smoothness
from reproduction.results.over_seeds import Spread
from reproduction.results.packing import pack_image, pack_outputs
from tribayes._errors import refusal
from tribayes._files import make_folder, read_json, store
from tribayes.recipes.experiments import EXPERIMENTS
from tribayes.recipes.setting import Setting
from tribayes.runs import Record

FORMAT = 1
TRIAL_FOLDER = "trials/"
FULL_SEED = 0  # the run whose outputs and images are stored, for the pictures

_NAME = re.compile(r"(trials/)?[a-z0-9][a-z0-9.-]*")
_FILE = re.compile(r"seed-(\d+)\.json")
_WRONG_IMAGES = 16  # at most, and only grey ones: those of CIFAR-10 are hundreds, and would fill the file


@dataclass(frozen=True)
class Result:
    """What is kept of one run."""

    experiment: str  # an experiment, or "trials/…"
    seed: int
    setting: Setting
    environment: Mapping[str, Any]  # by `tribayes.runs.environment`
    seconds: float  # of training
    evaluation: Mapping[str, Any]  # by `tribayes.runs.evaluate`; with `examples` where it is full
    curve: Mapping[str, Any]
    smoothness: Mapping[str, float]
    ood: Mapping[str, Any] | None = None  # by `out_of_distribution`

    @property
    def changes(self) -> dict[str, Any]:
        """Fields in which the setting differs from the experiment's of the same name; all, where it has none."""
        ours = self.setting.as_dict()
        base = EXPERIMENTS.get(self.setting.name)
        theirs = {} if base is None else base.as_dict()
        return {key: value for key, value in ours.items() if key not in theirs or theirs[key] != value}


def make_result(
    experiment: str,
    seed: int,
    setting: Setting,
    records: Sequence[Record],
    evaluation: Mapping[str, Any],
    environment: Mapping[str, Any],
    ood: Mapping[str, Any] | None = None,
    images: Tensor | None = None,
) -> Result:
    """A run's result from what it wrote down (`run.records()`) and its evaluation.

    `images` are the test images as they were read, before any scaling: uint8, or floats in [0, 1]. The pictures need
    some of them; they and the sampled outputs are kept for the seed 0 alone, and not at all for trials.
    """
    full = is_full(_check_name(experiment), seed)
    curve, scatter = curve_of(records), smoothness(records)
    return Result(
        experiment=experiment,
        seed=seed,
        setting=setting,
        environment=environment,
        seconds=round(records[-1].seconds, 1),
        evaluation=_for_pictures(evaluation, images) if full else _without_examples(evaluation),
        curve=curve,
        smoothness=scatter,
        ood=ood,
    )


def is_full(experiment: str, seed: int) -> bool:
    """Whether outputs and images are kept of a run."""
    return seed == FULL_SEED and not experiment.startswith(TRIAL_FOLDER)


def write_result(root: Path, result: Result) -> Path:
    """Write the file into the folder `root` of all results; an earlier one is replaced, whole or not at all."""
    path = root / _check_name(result.experiment) / f"seed-{result.seed}.json"
    make_folder(path.parent)
    values = {"format": FORMAT} | {name: getattr(result, name) for name in Result.__dataclass_fields__}
    values["setting"] = result.setting.as_dict()
    store(path, _json(values).encode())
    return path


def read_result(path: Path) -> Result:
    """Read one file and check that it is what its name says."""
    values = read_json(path)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        found = values.get("format") if isinstance(values, dict) else type(values).__name__
        raise refusal("result file", str(path), f"have the format {FORMAT}", f"it has {found}; run it again")
    names = set(Result.__dataclass_fields__)
    if set(values) != names | {"format"}:
        wrong = sorted(set(values) ^ (names | {"format"}))
        raise refusal("result file", str(path), "have the fields of a result", f"look at {wrong}; run it again")
    result = Result(**{name: values[name] for name in names} | {"setting": Setting.from_dict(values["setting"])})
    folder = f"{result.experiment}/seed-{result.seed}.json"
    if not path.as_posix().endswith(f"/{folder}"):
        raise refusal("result file", str(path), f"lie at {folder}, as its content says", "move it, or run it again")
    return result


class Results:
    """All result files of a folder; an empty or missing folder has none."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._runs: dict[str, list[Result]] = {}
        for result in sorted(results, key=lambda one: (one.experiment, one.seed)):
            self._runs.setdefault(result.experiment, []).append(result)
        for name, runs in self._runs.items():
            if any(run.setting != runs[0].setting for run in runs):
                remedy = "run all seeds by the same, or give the others a trial of their own"
                raise refusal("result files", name, "have one setting for all seeds", remedy)

    @classmethod
    def read(cls, root: Path) -> Results:
        files = (path for path in root.rglob("*.json") if _FILE.fullmatch(path.name))
        return cls([read_result(path) for path in sorted(files)])

    def __iter__(self) -> Iterator[Result]:
        return (result for runs in self._runs.values() for result in runs)

    def runs(self, experiment: str) -> list[Result]:
        """The runs of an experiment by seed; none where it was not run."""
        return self._runs.get(experiment, [])

    def trials(self) -> dict[str, list[Result]]:
        """Trial name → its runs."""
        return {name: runs for name, runs in self._runs.items() if name.startswith(TRIAL_FOLDER)}

    def full(self, experiment: str) -> Result | None:
        """The run with the sampled outputs and images."""
        return next((run for run in self.runs(experiment) if run.seed == FULL_SEED), None)

    def spread(self, experiment: str, figure: Callable[[Result], float | None]) -> Spread | None:
        """Mean and spread over seeds of a figure of each run; None where there is none."""
        return spread_of(self.runs(experiment), figure)

    def differences(self, experiment: str, rival: str, figure: Callable[[Result], float | None]) -> dict[int, float]:
        """Seed → the figure of an experiment less that of another; seeds that only one of them has do not count."""
        ours, theirs = ({run.seed: figure(run) for run in self.runs(name)} for name in (experiment, rival))
        pairs = ((seed, value, theirs.get(seed)) for seed, value in ours.items())
        return {seed: one - other for seed, one, other in pairs if one is not None and other is not None}

    def difference(self, experiment: str, rival: str, figure: Callable[[Result], float | None]) -> Spread | None:
        """Mean and spread of these differences: what both owe to the seed does not count."""
        return Spread.of([*self.differences(experiment, rival, figure).values()])


def spread_of(runs: Sequence[Result], figure: Callable[[Result], float | None]) -> Spread | None:
    """The same for given runs. A run that has no such figure does not count."""
    values = [figure(run) for run in runs]
    return Spread.of([value for value in values if value is not None])


def _for_pictures(evaluation: Mapping[str, Any], images: Tensor | None) -> dict[str, Any]:
    """The evaluation with its outputs packed, and with the images it speaks of."""
    if "examples" not in evaluation:
        return dict(evaluation)
    examples = {
        kind: {**example, "outputs": pack_outputs(example["outputs"])}
        for kind, example in evaluation["examples"].items()
    }
    wrong = dict(evaluation["confidently_wrong"])
    if images is not None:
        for example in examples.values():
            example["image"] = pack_image(images[example["index"]])
        if images.shape[1] == 1:
            wrong["images"] = [pack_image(images[index]) for index in wrong["index"][:_WRONG_IMAGES]]
    return {**evaluation, "examples": examples, "confidently_wrong": wrong}


def _without_examples(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in evaluation.items() if key != "examples"}


def _check_name(experiment: str) -> str:
    if not _NAME.fullmatch(experiment):
        remedy = "use small letters, digits and dashes; trials begin with trials/"
        raise refusal("experiment", experiment, "be a name for a folder", remedy)
    return experiment


def _json(values: Mapping[str, Any], depth: int = 0) -> str:
    """JSON with a line for each entry of the outer two levels: small, and readable as a difference."""
    if depth == 2 or not isinstance(values, Mapping) or not values:
        return json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    pad = " " * (depth + 1)
    lines = [f"{pad}{json.dumps(str(key))}: {_json(value, depth + 1)}" for key, value in values.items()]
    return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}" + ("\n" if depth == 0 else "")
