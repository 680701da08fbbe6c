"""The training of a setting on one's own data: network, objective and steps, as of the tables in docs/coverage.md."""

from __future__ import annotations

import math
from typing import Any

import torch

from tribayes._progress import progress_bar
from tribayes.distributed.processes import processes
from tribayes.inference import ELBO, Categorical, Gaussian, Likelihood, parameter_groups
from tribayes.inference.memory import remember
from tribayes.nn.convert import to_bayesian
from tribayes.nn.module import BayesianModule
from tribayes.own.networks import build_network
from tribayes.own.prepared import Form
from tribayes.own.setting import TABLE, OwnSetting
from tribayes.posterior.streams import Stream
from tribayes.prediction.calibration import calibrate
from tribayes.runs.batches import Examples
from tribayes.runs.trainer import WINDOW, Trainer

CANDIDATES = (0.0, 0.3, 1.0)  # weights of the divergence to choose from; 0: the library's own

_START = 0.5  # of the noise, in standard deviations of the target
_MOST_TRIED = 20_000  # rows up to which the weight is chosen by trial
_TRIAL_STEPS = 1_000


class OwnTrainer(Trainer):
    """The trainer of a setting: setting, examples and seed say all."""

    model: BayesianModule
    objective: ELBO

    def __init__(self, setting: OwnSetting, form: Form, train: Examples, seed: int) -> None:
        model, likelihood = build_model(setting, form, seed)
        device = train.targets.device
        model, likelihood = model.to(device), likelihood.to(device)
        weight = setting.kl_weight or "auto"
        groups = parameter_groups(
            model, setting.learning_rate, likelihood=likelihood, weight_decay=setting.weight_decay
        )
        super().__init__(
            model,
            ELBO(likelihood, data_size=len(train), kl_weight=weight),
            torch.optim.AdamW(groups),
            train,
            batch_size=setting.batch,
            iterations=setting.iterations,
            seed=seed,
            schedule=lambda iteration: 0.5 * (1 + math.cos(math.pi * iteration / setting.iterations)),
        )

    def description(self) -> dict[str, Any]:
        """Nothing: the run's config has the setting, and the checksum of the examples."""
        return {}


def build_model(setting: OwnSetting, form: Form, seed: int) -> tuple[BayesianModule, Likelihood]:
    """The Bayesian network, freshly initialised from the seed, and what its outputs mean, which it remembers."""
    network = build_network(setting, form.shape, form.target.outputs, seed)
    model = to_bayesian(network, generator=Stream((seed, 0, "signs")), family=setting.family)
    likelihood = Categorical() if form.target.classes else Gaussian(_START, learned=True)
    remember(model, likelihood)
    return model, likelihood


def chosen_weight(
    setting: OwnSetting, form: Form, train: Examples, held_out: Examples, seed: int, progress: bool
) -> float:
    """The weight of the divergence: as set; of a table the one with which held-out rows are least of a surprise.

    No rule knows the noise: the library's own weight is too small where most of a target is noise. So short trainings
    with a few weights are calibrated by held-out rows, and compared.
    """
    if setting.kl_weight:
        return setting.kl_weight
    tried = CANDIDATES if setting.kind == TABLE and len(train) <= _MOST_TRIED else CANDIDATES[:1]
    steps = min(setting.iterations, _TRIAL_STEPS)
    weights, surprise = [], []
    with progress_bar("choosing the weight of the divergence", len(tried), progress and len(tried) > 1) as advance:
        for candidate in tried:
            trial = OwnTrainer(setting.changed(kl_weight=candidate, iterations=steps), form, train, seed)
            weight = trial.objective.weight()
            if len(tried) == 1:
                return weight
            while trial.iteration < steps:
                trial.advance(min(WINDOW, steps - trial.iteration))
            told = calibrate(trial.model, held_out.inputs, held_out.targets, seed=seed, progress=False)
            weights.append(weight)
            surprise.append(told.after)
            advance()
    return weights[processes().largest(surprise.index(min(surprise)))]  # the same in all processes, whatever rounds
