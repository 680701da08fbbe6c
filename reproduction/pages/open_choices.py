"""What the paper leaves open, what was chosen, and what the choice does where a trial varied it."""

from __future__ import annotations

from typing import NamedTuple

from pages.markdown import markdown_table
from reproduction.pages.trial_table import StoredTrial, baseline, judged_on, trials_of, value_text
from reproduction.results.over_seeds import percent
from reproduction.results.quantities import score
from reproduction.results.result_files import Results, spread_of
from tribayes.recipes.experiments import EXPERIMENTS
from tribayes.recipes.networks import Cifar10Full


class Choice(NamedTuple):
    """Something the paper does not state. `field` is that of the setting, where it is one."""

    what: str
    chosen: str
    field: str | None = None


def choices() -> list[Choice]:
    """All of them; values come from the code that uses them."""
    lenet, cifar = EXPERIMENTS["mnist-lenet100"], EXPERIMENTS["cifar10"]
    stds = ", ".join(f"{std:g}" for std in Cifar10Full.initial_std)
    frequentist = EXPERIMENTS["mnist-lenet100-frequentist"]
    return [
        Choice(
            "initial means m",
            "Caffe's rules: uniform in ±√(3 / fan-in) for LeNet, Gaussian with standard deviations "
            f"{stds} for CIFAR10_full; biases 0, which the guard moves to ±1e-6",
            "xavier",
        ),
        Choice("initial δ", f"such that τ = {lenet.tau:g} for every tensor", "tau"),
        Choice(
            "initial γ",
            f"±{lenet.gamma:g}, a random sign for each tensor: just outside the guard, so that its own random start "
            "does not decide",
            "gamma",
        ),
        Choice(
            "learning rate of the biases",
            f"× {lenet.bias_rate:g} in Bayesian networks, × {frequentist.bias_rate:g} in frequentist ones: as in "
            "Caffe, but for CIFAR10_full's third convolution, whose bias Caffe's definition leaves at × 1",
            "bias_rate",
        ),
        Choice("learning rate of δ", f"× {lenet.scale_rate:g}: the paper speaks of κ for γ only", "scale_rate"),
        Choice("momentum on CIFAR-10", f"{cifar.momentum:g}, as in Caffe's solver", "momentum"),
        Choice("guards (stated, but the closed form needs fewer)", f"the {cifar.guards}'s, all of them", "guards"),
        Choice("scale of the inputs", "MNIST and Fashion-MNIST × 1/256; CIFAR-10 raw, less the mean training image"),
        Choice("order of the data", "a fresh permutation every epoch; a batch may run on into the next epoch"),
        Choice(
            "CIFAR10_full's normalisation",
            "within a channel over 3×3, α = 5e-5, β = 0.75, as in Caffe's definition; pooling rounds up",
        ),
        Choice(
            "weight decay of the biases",
            "as of the weights, but none for CIFAR10_full's last layer, as in Caffe's definition",
        ),
        Choice(
            "one-sample test error in the curves",
            "one draw for every 2,500 images, not one per image; only the curves show it",
        ),
        Choice(
            "quantiles and touching intervals",
            "linear interpolation between order statistics; intervals that only touch overlap",
        ),
    ]


def choices_table(results: Results) -> str:
    """The list, with the figures of trials that changed this field and nothing else."""
    rows = [[choice.what, choice.chosen, _effect(results, choice.field)] for choice in choices()]
    return markdown_table(["left open", "chosen", "effect on the error"], rows)


def _effect(results: Results, field: str | None) -> str:
    if field is None:
        return "not varied"
    texts = []
    for experiment in _varied(results):
        trials = trials_of(results, experiment)
        texts += [_compared(trial, baseline(trial, trials), field) for trial in trials if set(trial.changes) == {field}]
    return "; ".join(texts) or "no trial stored"


def _varied(results: Results) -> list[str]:
    return sorted({runs[0].setting.name for runs in results.trials().values()})


def _compared(trial: StoredTrial, base: StoredTrial | None, field: str) -> str:
    theirs = "not run" if base is None else percent(spread_of(base.runs, score("error")))
    ours = percent(spread_of(trial.runs, score("error")))
    place = judged_on(trial.validation)
    return f"{trial.experiment}, {value_text(trial.changes[field])}: {ours} (as chosen: {theirs}; {place})"
