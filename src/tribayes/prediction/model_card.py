"""A model card: what a model is, what it was made from and how far it can be trusted, as a page of Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tribayes._errors import check_characters, check_whole, wrong_type
from tribayes._files import path_of, store
from tribayes._text import figures, number
from tribayes.inference.likelihood import Likelihood
from tribayes.inference.memory import likelihood_of
from tribayes.nn.convert import bayesian_modules, to_deterministic
from tribayes.nn.module import BayesianModule
from tribayes.nn.twin import bare, plain_name
from tribayes.posterior.family import FAMILIES
from tribayes.posterior.prior import TensorPrior
from tribayes.prediction.calibration import calibrations_of
from tribayes.prediction.saved_form import bayesian_paths

_OPEN = "*To be filled in: `{}=` of `tribayes.model_card`.*"


def model_card(
    model: nn.Module,
    path: Path | str | None = None,
    *,
    title: str | None = None,
    description: str | None = None,
    intended_use: str | None = None,
    limitations: str | None = None,
    training_data: str | None = None,
    data_size: int | None = None,
    evaluation: object = None,
    likelihood: Likelihood | None = None,
) -> str:
    """A page about a model, in Markdown; written to `path` as well, where one is given.

    What can be read off the model is: its network, random tensors, priors and posterior, likelihood, calibrations and
    versions. What only you know are arguments, and where one is missing the page says so.

    Args:
        model: a Bayesian model, or any module that contains Bayesian ones.
        title: default, the class of the network.
        description, intended_use, limitations, training_data: Markdown.
        data_size: how many examples it was trained on.
        evaluation: how good it is: what `pred.summary(targets)` returned, a dict of numbers, or Markdown.
        likelihood: default, the one it was trained with.

    Example:
        >>> card = model_card(tribayes.to_bayesian(nn.Linear(4, 3)), title="Irises", data_size=120)
        >>> print(card[:8])
        # Irises
    """
    model = bare(model)
    bayesian_modules(model)
    told = {"title": title, "description": description, "intended_use": intended_use}
    told |= {"limitations": limitations, "training_data": training_data}
    for name, text in told.items():
        if text is not None and not isinstance(text, str):
            raise wrong_type(name, text, "be text", "pass Markdown")
        check_characters(name, text or "")
    if data_size is not None:
        check_whole("data_size", data_size, "it counts the examples of training", least=1)
    judged = _evaluation(evaluation)
    check_characters("evaluation", judged)
    likelihood = likelihood_of(model) if likelihood is None else likelihood
    network = type(to_deterministic(model)).__name__
    size = None if data_size is None else f"Examples: {number(data_size)}."
    sections = {
        "Intended use": intended_use or _OPEN.format("intended_use"),
        "Limitations": limitations or _OPEN.format("limitations"),
        "Training data": "\n\n".join(filter(None, [training_data or _OPEN.format("training_data"), size])),
        "Model": _model(model, network, likelihood),
        "Posterior": _posterior(model),
        "Calibration": _calibrations(model),
        "Evaluation": judged,
        "Versions": f"tribayes {import_module('tribayes').__version__}, torch {torch.__version__}.",
    }
    head = [f"# {title or network}", description or _OPEN.format("description")]
    page = "\n\n".join([*head, *(f"## {name}\n\n{text}" for name, text in sections.items())]) + "\n"
    if path is not None:
        store(path_of("path", path), page.encode())
    return page


def _model(model: nn.Module, network: str, likelihood: Likelihood | None) -> str:
    modules = bayesian_modules(model)
    named = {kind: name for name, kind in FAMILIES.items()}
    kinds = ", ".join(dict.fromkeys(named.get(type(m.family), type(m.family).__name__) for m in modules))
    random = sum(mean.numel() for module in modules for _, mean in module.means())
    tensors = sum(len(module.random_names) for module in modules)
    fixed = sum(parameter.numel() for parameter in to_deterministic(model).parameters()) - random
    said = "not known: `tribayes.predict` takes it for a classifier" if likelihood is None else f"`{likelihood}`"
    return "\n".join(
        [
            f"A Bayesian neural network: `{network}` with a distribution over its weights (family: {kinds}).",
            f"{number(random)} weights in {tensors} tensors are random, {number(fixed)} are not.",
            "Predictions are averages over sampled networks, whose differences say how sure it is.",
            f"Likelihood: {said}.",
        ]
    )


def _posterior(model: nn.Module) -> str:
    rows = ["| tensor | shape | weights | prior | τ | ρ |", "| --- | --- | --- | --- | --- | --- |"]
    for path, module in bayesian_paths(model):
        prefix = f"{plain_name(path)}." if path else ""
        for row, prior in zip(module.posterior(), _priors(module), strict=True):
            shape = "×".join(map(str, row.shape)) or "scalar"
            cells = [prefix + plain_name(row.name), shape, number(row.K), prior, f"{row.tau:.3g}", f"{row.rho:.3g}"]
            rows.append(f"| {' | '.join(cells)} |")
    words = "τ is the standard deviation relative to the weight, ρ the correlation between neighbours."
    return "\n".join([*rows, "", words])


def _priors(module: BayesianModule) -> list[str]:
    found = []
    for prior in module.priors:
        if isinstance(prior, TensorPrior):
            loc, scale = (f"{float(part):.3g}" if part.ndim == 0 else "tensor" for part in (prior.loc, prior.scale))
            found.append(f"N({loc}, {scale}²)")
        else:
            found.append("relative to the weight")
    return found


def _calibrations(model: nn.Module) -> str:
    lines = [
        f"- τ × {one['tau_factor']:.3g}, noise × {one['noise_factor']:.3g}, temperature {one['temperature']:.3g}: "
        f"negative log likelihood {one['before']:.4f} → {one['after']:.4f} on {number(int(one['examples']))} held-out "
        "examples"
        for one in calibrations_of(model)
    ]
    return "\n".join(lines) or "None after training."


def _evaluation(evaluation: object) -> str:
    if evaluation is None:
        return _OPEN.format("evaluation")
    if isinstance(evaluation, Mapping):
        cells: dict[str, Any] = {name: figures(v) if isinstance(v, float) else v for name, v in evaluation.items()}
        return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in cells.items())])
    return evaluation if isinstance(evaluation, str) else f"```\n{evaluation}\n```"
