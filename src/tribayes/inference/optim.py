"""Parameter groups: the correlations learn κ times faster, as in the paper."""

from __future__ import annotations

from typing import Any

from torch import nn

from tribayes._errors import check_positive
from tribayes.nn.convert import bayesian_modules


def parameter_groups(
    model: nn.Module,
    lr: float,
    correlation_lr_multiplier: float = 50.0,
    scale_lr_multiplier: float = 1.0,
    likelihood: nn.Module | None = None,
) -> list[dict[str, Any]]:
    """Groups for any torch optimizer: means and ordinary parameters, scales (δ), correlations (γ).

    The paper finds the gradients of γ small and multiplies them by κ = 50. For SGD, with or without momentum, a
    larger learning rate is the same thing; an optimizer that rescales gradients (Adam) wants a multiplier near 1.
    Weight decay is off for δ and γ, for which zero means nothing; for the means the prior does its work.

    Args:
        lr: learning rate of the means.
        correlation_lr_multiplier: κ.
        scale_lr_multiplier: the same for the scales.
        likelihood: a likelihood with parameters of its own, such as a learned noise.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> groups = parameter_groups(model, lr=0.01)
        >>> [(group["name"], group["lr"]) for group in groups]
        [('means', 0.01), ('scales', 0.01), ('correlations', 0.5)]
        >>> optimizer = torch.optim.SGD(groups, momentum=0.9, fused=True)
    """
    check_positive("lr", lr, "it is a learning rate")
    check_positive("correlation_lr_multiplier", correlation_lr_multiplier, "it multiplies the learning rate")
    check_positive("scale_lr_multiplier", scale_lr_multiplier, "it multiplies the learning rate")
    families = [module.family for module in bayesian_modules(model)]
    scales = [p for family in families for p in family.scale_parameters()]
    correlations = [p for family in families for p in family.correlation_parameters()]
    raw = set(scales) | set(correlations)
    rest = [p for p in model.parameters() if p not in raw]
    rest += list(likelihood.parameters()) if likelihood is not None else []
    rates = {"means": lr, "scales": lr * scale_lr_multiplier, "correlations": lr * correlation_lr_multiplier}
    groups: list[dict[str, Any]] = []
    for (name, rate), parameters in zip(rates.items(), (rest, scales, correlations), strict=True):
        decay = {} if name == "means" else {"weight_decay": 0.0}
        groups.append({"name": name, "params": [p for p in parameters if p.requires_grad], "lr": rate, **decay})
    return [group for group in groups if group["params"]]
