"""What an optimizer has to hold: everything that asks for a gradient. What it lacks would silently stay as it is."""

from __future__ import annotations

import inspect

import torch
from torch import nn

from tribayes._errors import refusal
from tribayes.nn.module import BayesianModule
from tribayes.nn.stage import own_names

_NOISE = "parameters of the likelihood"
_SHOWN = 3  # names of one kind in an error


def check_complete(model: nn.Module, objective: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Refuse an optimizer that lacks parameters of the model or the objective which are not frozen.

    Training in parts goes by freezing the others: `parameter.requires_grad_(False)`.
    """
    held = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    missing = {
        kind: [name for name, parameter in named if parameter.requires_grad and parameter not in held]
        for kind, named in _kinds(model, objective).items()
    }
    missing = {kind: names for kind, names in missing.items() if names}
    if not missing:
        return
    words = "; ".join(f"{kind} ({_few(names)})" for kind, names in missing.items())
    likelihood = ", likelihood=elbo.likelihood" if _NOISE in missing else ""
    remedy = (
        f"make it of tb.parameter_groups(model, lr=...{likelihood}), "
        "or freeze what shall stay as it is: parameter.requires_grad_(False)"
    )
    requirement = f"hold everything that learns, but lacks {words}"
    raise refusal("optimizer", type(optimizer).__name__, requirement, remedy)


def check_steps(optimizer: torch.optim.Optimizer) -> None:
    """Refuse an optimizer that computes the loss itself, several times per step: each time would be another draw."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        remedy = "use SGD, Adam or another that takes a step by one gradient"
        raise refusal("optimizer", type(optimizer).__name__, "make a step without a closure", remedy)


def _kinds(model: nn.Module, objective: nn.Module) -> dict[str, list[tuple[str, nn.Parameter]]]:
    """(name, parameter) by what the parameter is."""
    names = own_names(model)
    modules = [module for module in model.modules() if isinstance(module, BayesianModule)]
    means = {mean for module in modules for _, mean in module.means()}
    scales = {p for module in modules for p in module.family.scale_parameters()}
    correlations = {p for module in modules for p in module.family.correlation_parameters()}
    special = means | scales | correlations
    return {
        "means": [(name, p) for p, name in names.items() if p in means],
        "scales δ": [(name, p) for p, name in names.items() if p in scales],
        "correlations γ": [(name, p) for p, name in names.items() if p in correlations],
        "ordinary parameters": [(name, p) for p, name in names.items() if p not in special],
        _NOISE: [(name.removeprefix("likelihood."), p) for name, p in objective.named_parameters() if p not in names],
    }


def _few(names: list[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
