"""Parameter groups: what is learned, and how fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from tribayes._errors import check_decay, check_module, check_positive, check_rate, refusal
from tribayes.inference.rates import GIVEN
from tribayes.inference.steady import MARK, watch_for_steady_groups
from tribayes.nn.conversion import check_patterns, matches
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.sharded import reshard_
from tribayes.nn.stage import own_names

KAPPA = 50.0  # the paper's κ


def parameter_groups(
    model: nn.Module,
    lr: float | Mapping[str, float],
    correlation_lr_multiplier: float | None = None,
    scale_lr_multiplier: float | None = None,
    likelihood: nn.Module | None = None,
    *,
    weight_decay: float | None = None,
    scale_lr: float = 0.01,
) -> list[dict[str, Any]]:
    """Groups for any torch optimizer, so that the learning rate of the plain network will do.

    Means and ordinary parameters learn with `lr`. Scales (δ) and correlations (γ), of which there are a few per tensor,
    move by about `scale_lr` per step whatever the size of their tensor: for SGD their gradients are divided by their
    running size before each step, and have no momentum; Adam and its kin do that by themselves (steady.py).

    Args:
        lr: learning rate of the means, as for the plain network; or {name pattern: rate}, of which the first that
            matches a parameter's name counts. A likelihood's parameters are called "likelihood.…".
        correlation_lr_multiplier: the paper's way instead: κ = 50 times `lr` for γ, plain gradients. With one of the
            two multipliers the other is the paper's.
        scale_lr_multiplier: the same for δ; 1 in the paper.
        likelihood: a likelihood with parameters of its own, such as a learned noise.
        weight_decay: of the means of random weights, and of nothing else. `RelativePrior` leaves their size to it.
            Default: the optimizer's own, for means and ordinary parameters alike, as in a plain network: the better way
            where there is normalisation (docs/modern.md).
        scale_lr: learning rate of δ and γ; a schedule of the optimizer scales it with the others.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3), family="tridiagonal")
        >>> groups = parameter_groups(model, lr=0.1, weight_decay=5e-4)
        >>> [(group["name"], group["lr"], group["weight_decay"]) for group in groups]
        [('means', 0.1, 0.0005), ('scales', 0.01, 0.0), ('correlations', 0.01, 0.0)]
        >>> optimizer = torch.optim.SGD(groups, momentum=0.9, fused=True)
        >>> paper = parameter_groups(model, lr=0.1, correlation_lr_multiplier=50)
        >>> [(group["name"], group["lr"]) for group in paper]
        [('means', 0.1), ('scales', 0.1), ('correlations', 5.0)]
        >>> by_name = parameter_groups(model, lr={"bias": 0.2, "*": 0.1})
        >>> [(group["name"], group["lr"]) for group in by_name]
        [('means bias', 0.2), ('means *', 0.1), ('scales', 0.01), ('correlations', 0.01)]
    """
    check_module("model", model)
    if likelihood is not None:
        check_module("likelihood", likelihood, "pass e.g. tb.Gaussian(learned=True)")
    reshard_(model)
    for module in bayesian_modules(model):
        module.warn_of_zeros()  # a loop of one's own has nobody else to say it before its loss is infinite
    check_rate("scale_lr", scale_lr, "it is a learning rate, such as 0.01")
    multipliers = {"scales": (scale_lr_multiplier, 1.0), "correlations": (correlation_lr_multiplier, KAPPA)}
    given = {name: pair[0] for name, pair in multipliers.items() if pair[0] is not None}
    for name, multiplier in given.items():
        check_positive(f"{name[:-1]}_lr_multiplier", multiplier, "it multiplies the learning rate")
    groups = _ordinary(model, lr, likelihood, weight_decay)
    for name, parameters in _raw(model).items():
        if given:
            rate = _one_rate(lr) * given.get(name, multipliers[name][1])
            check_rate(f"lr * {name[:-1]}_lr_multiplier", rate, "it is a learning rate")
            groups.append({"name": name, "params": parameters, "lr": rate})
        else:
            watch_for_steady_groups()
            own = {MARK: True, "momentum": 0.0, "dampening": 0.0, "nesterov": False}
            groups.append({"name": name, "params": parameters, "lr": scale_lr, **own})
        groups[-1]["weight_decay"] = 0.0  # zero means nothing to them
    return _that_learn(groups, model)


def _that_learn(groups: list[dict[str, Any]], model: nn.Module) -> list[dict[str, Any]]:
    """The groups without what is frozen, each with a note of its rate (rates.py)."""
    trainable = [group | {"params": [p for p in group["params"] if p.requires_grad]} for group in groups]
    found = [group | {GIVEN: group["lr"]} for group in trainable if group["params"]]
    if not found:
        remedy = "unfreeze what shall learn: parameter.requires_grad_(True)"
        raise refusal("model", type(model).__name__, "have parameters that learn, but all are frozen", remedy)
    return found


def _raw(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    families = [module.family for module in bayesian_modules(model)]
    return {
        "scales": [p for family in families for p in family.scale_parameters()],
        "correlations": [p for family in families for p in family.correlation_parameters()],
    }


def _ordinary(
    model: nn.Module, lr: float | Mapping[str, float], likelihood: nn.Module | None, weight_decay: float | None
) -> list[dict[str, Any]]:
    """The means and what is not random, by their rates; in one group each, or apart where only the means decay.

    What a likelihood learns, such as a noise, never decays: its zero means nothing.
    """
    raw = {p for parameters in _raw(model).values() for p in parameters}
    rest = {p: name for p, name in own_names(model).items() if p not in raw}
    named = [] if likelihood is None else likelihood.named_parameters()
    noise = {p: f"likelihood.{name}" for name, p in named if p not in rest}
    by_rate = _by_rate(lr, rest | noise)
    still = {"weight_decay": 0.0}
    kinds: tuple[tuple[str, dict[str, float], Callable[[nn.Parameter], bool]], ...]
    if weight_decay is None:
        kinds = (("means", {}, lambda p: p not in noise), ("likelihood", still, noise.__contains__))
    else:
        check_decay("weight_decay", weight_decay, "pass e.g. 5e-4")
        means = {mean for module in bayesian_modules(model) for _, mean in module.means()}
        decaying = {"weight_decay": float(weight_decay)}
        kinds = (("means", decaying, means.__contains__), ("others", still, lambda p: p not in means))
    return [
        {"name": f"{kind}{mark}", "params": [p for p in params if chosen(p)], "lr": rate, **decay}
        for kind, decay, chosen in kinds
        for mark, rate, params in by_rate
    ]


def _by_rate(
    lr: float | Mapping[str, float], names: dict[nn.Parameter, str]
) -> list[tuple[str, float, list[nn.Parameter]]]:
    """Parameters with one rate together: (what to add to a group's name, rate, parameters)."""
    if not isinstance(lr, Mapping):
        return [("", _one_rate(lr), list(names))]
    check_patterns("lr", lr, list(names.values()), "a parameter")
    groups: dict[str, list[nn.Parameter]] = {pattern: [] for pattern in lr}
    for parameter, name in names.items():
        pattern = next((pattern for pattern in lr if matches([name], pattern)), None)
        if pattern is None:
            raise refusal("lr", dict(lr), f"have a rate for {name!r}", "add a last pattern for the rest: '*'")
        groups[pattern].append(parameter)
    for rate in lr.values():
        check_rate("lr", rate, "it is a learning rate")
    return [(f" {pattern}", rate, groups[pattern]) for pattern, rate in lr.items()]


def _one_rate(lr: float | Mapping[str, float]) -> float:
    if isinstance(lr, Mapping):
        requirement = "be one number where a multiplier of it is asked for: δ and γ have entries of all tensors"
        raise refusal("lr", dict(lr), requirement, "leave the multipliers out: `scale_lr` is the rate of δ and γ")
    check_rate("lr", lr, "it is a learning rate")
    return lr
