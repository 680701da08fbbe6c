"""What was tried: every trial with what it changes, what it was judged on and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pages.markdown import markdown_table
from reproduction.results.over_seeds import number, percent
from reproduction.results.quantities import posterior, score
from reproduction.results.result_files import TRIAL_FOLDER, Result, Results, spread_of
from tribayes._text import minus
from tribayes.recipes.experiments import EXPERIMENTS


class StoredTrial(NamedTuple):
    """Some runs of an experiment with the same changes."""

    name: str
    experiment: str
    changes: Mapping[str, Any]  # without `validation`, which says what it was judged on
    validation: int
    runs: Sequence[Result]

    @property
    def error(self) -> float:
        found = spread_of(self.runs, score("error"))
        assert found is not None  # a trial has runs, and every run an error
        return found.mean


def trials_of(results: Results, experiment: str) -> list[StoredTrial]:
    """The trials of an experiment and its own runs: those judged on the test set first, then by error."""
    named = {"the catalogue's": results.runs(experiment)}
    named |= {name.removeprefix(TRIAL_FOLDER): runs for name, runs in results.trials().items()}
    found = [_trial(name, runs) for name, runs in named.items() if runs and runs[0].setting.name == experiment]
    return sorted(found, key=lambda trial: (trial.validation, bool(trial.changes), trial.error, trial.name))


def baseline(trial: StoredTrial, trials: Sequence[StoredTrial]) -> StoredTrial | None:
    """The unchanged setting judged on the same images."""
    return next((each for each in trials if not each.changes and each.validation == trial.validation), None)


def trials_table(results: Results, experiment: str) -> str:
    """All trials of an experiment below its own runs."""
    header = ["trial", "changed", "judged on", "error", "NLL", "ECE", "τ of the weights", "ρ of the weights", "seeds"]
    body = [
        [
            trial.name,
            changes_text(trial),
            judged_on(trial.validation),
            percent(spread_of(trial.runs, score("error"))),
            number(spread_of(trial.runs, score("nll")), 3),
            percent(spread_of(trial.runs, score("ece"))),
            posterior_text(trial, "tau"),
            posterior_text(trial, "rho"),
            str(len(trial.runs)),
        ]
        for trial in trials_of(results, experiment)
    ]
    return markdown_table(header, body)


def judged_on(validation: int) -> str:
    return f"{validation:,} held-out training images" if validation else "test set"


def changes_text(trial: StoredTrial) -> str:
    """ "learning_rate 0.001 → 0.0005", one after the other."""
    base = EXPERIMENTS[trial.experiment].as_dict() if trial.experiment in EXPERIMENTS else {}
    texts = [f"{key} {value_text(base.get(key))} → {value_text(value)}" for key, value in trial.changes.items()]
    return ", ".join(texts) or "nothing"


def value_text(value: Any) -> str:
    """A field of a setting as text."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {value_text(each)}" for key, each in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _trial(name: str, runs: Sequence[Result]) -> StoredTrial:
    first = runs[0]
    changes = {key: value for key, value in first.changes.items() if key != "validation"}
    return StoredTrial(name, first.setting.name, changes, first.setting.validation, runs)


def posterior_text(trial: StoredTrial, parameter: str) -> str:
    """The means over seeds, a tensor after the other; nothing for a frequentist network."""
    rows = trial.runs[0].evaluation.get("posterior", [])
    names = [row["name"] for row in rows if not row["name"].endswith("bias")]
    means = [spread_of(trial.runs, posterior(name, parameter)) for name in names]
    return minus(" ".join(f"{mean.mean:.2f}" for mean in means if mean is not None)) or "-"
