"""Made-up runs: no training, but every field a real result file has."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from reproduction.results.packing import OUTPUT_UNIT
from reproduction.results.result_files import Result, make_result
from tribayes.recipes.experiments import EXPERIMENTS
from tribayes.recipes.setting import Setting
from tribayes.runs import Record

LAYERS = {"cifar10-full": ("conv1", "conv2", "conv3", "fc")}
ENVIRONMENT = {"device": "an abacus", "python": "3.11.0", "torch": "2.13.0", "tribayes": "0.1.0"}
ERRORS = {"mnist": 0.0068, "fashion-mnist": 0.09, "cifar-10": 0.21, "digits": 0.02}


def made_up(
    name: str,
    seed: int,
    setting: Setting | None = None,
    images: Tensor | None = None,
    error: float | None = None,
    scatter: float = 1.0,
    wrong: int = 5,
) -> Result:
    """A result of an experiment or, with a setting, of a trial."""
    setting = EXPERIMENTS[name] if setting is None else setting
    error = ERRORS[setting.data] + 0.0003 * seed if error is None else error
    ood = foreign(setting, seed) if setting.data == "mnist" else None
    found = evaluation(setting, seed, error, wrong)
    return make_result(name, seed, setting, records(setting, scatter + 0.01 * seed), found, ENVIRONMENT, ood, images)


def tensors(setting: Setting) -> list[str]:
    layers = LAYERS.get(setting.network, ("conv1", "conv2", "fc1", "fc2"))
    return [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")]


def records(setting: Setting, scatter: float = 1.0, every: int = 1000) -> list[Record]:
    """A loss that falls and scatters."""
    noise = torch.Generator().manual_seed(0)
    found = []
    for iteration in range(every, setting.iterations + 1, every):
        share = iteration / setting.iterations
        nll = 0.02 + 0.3 * math.exp(-6 * share)
        loss = nll if not setting.bayesian else nll + 0.05
        error = ERRORS[setting.data] * (1.3 + 4 * math.exp(-9 * share)) + 0.0005 * float(
            torch.rand((), generator=noise)
        )
        tau = {name: 0.05 + share * 0.1 * place for place, name in enumerate(tensors(setting))}
        rho = {name: -0.04 - share * 0.05 * place for place, name in enumerate(tensors(setting))}
        none: dict[str, float] = {}
        spread = scatter * (0.02 + 0.2 * nll)
        path = (tau, rho) if setting.bayesian else (none, none)
        found.append(Record(iteration, loss, spread, nll, spread, error, 0.01, *path, seconds=60 * share))
    return found


def evaluation(setting: Setting, seed: int, error: float, wrong: int = 5) -> dict[str, Any]:
    scores = {
        "examples_tested": 10_000,
        "error": error,
        "nll": 3 * error,
        "brier": 1.5 * error,
        "ece": 0.2 * error,
        "auroc_errors": 0.97,
    }
    if not setting.bayesian:
        return scores
    errors = round(10_000 * error)
    counts = {
        level: {
            "correct_certain": certain + seed,
            "correct_uncertain": 10_000 - errors - certain - seed,
            "wrong_certain": wrong,
            "wrong_uncertain": errors - wrong,
        }
        for level, certain in (("0.95", round(0.972 * (10_000 - errors))), ("0.99", round(0.95 * (10_000 - errors))))
    }
    posterior = [
        {"name": name, "K": 10, "tau": 0.05 * (1 + place), "rho": 0.0 if setting.family != "tridiagonal" else -0.2}
        for place, name in enumerate(tensors(setting))
    ]
    return {
        **scores,
        "samples": 200,
        "certain": counts,
        "mean_network_error": 1.1 * error,
        "posterior": posterior,
        "confidently_wrong": {"index": [*range(wrong)], "true": [4] * wrong, "predicted": [9] * wrong},
        "examples": {kind: example(kind, place) for place, kind in enumerate(("sure", "two-way", "hopeless"))},
    }


def example(kind: str, index: int) -> dict[str, Any]:
    """200 outputs that look as their name says."""
    noise = torch.Generator().manual_seed(index)
    sharp, centre = {"sure": (0.2, 12.0), "two-way": (1.5, 3.0), "hopeless": (1.5, 0.0)}[kind]
    logits = sharp * torch.randn(200, 10, generator=noise)
    logits[:, 4] += centre
    if kind == "two-way":
        logits[:, 9] += centre + 0.3
    outputs = (logits.softmax(-1) * OUTPUT_UNIT).round().int()
    predicted = int(outputs.sum(0).argmax())
    return {"index": index, "true": 4, "predicted": predicted, "outputs": outputs.tolist()}


def foreign(setting: Setting, seed: int) -> dict[str, Any]:
    if not setting.bayesian:
        return {"auroc_entropy": 0.96, "auroc_mutual_information": None, "certain_inside": {}, "certain_outside": {}}
    shares = {"0.95": 0.2 + 0.01 * seed, "0.99": 0.15}
    inside = {"0.95": 0.96, "0.99": 0.95}
    return {
        "auroc_entropy": 0.97,
        "auroc_mutual_information": 0.98,
        "certain_inside": inside,
        "certain_outside": shares,
    }
