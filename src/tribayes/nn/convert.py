"""From a plain network to a Bayesian one and back."""

from __future__ import annotations

import copy
from typing import Literal, Unpack, overload

from torch import Tensor, nn

from tribayes._errors import check_module, refusal
from tribayes.nn.conversion import Options, Plan
from tribayes.nn.module import BayesianModule, plan_for
from tribayes.nn.sharded import check_unsharded
from tribayes.posterior.parametrisation import rule_of
from tribayes.posterior.streams import Randomness


@overload
def to_bayesian(
    net: nn.Module, *, generator: Randomness = None, dry_run: Literal[False] = False, **options: Unpack[Options]
) -> BayesianModule: ...


@overload
def to_bayesian(
    net: nn.Module, *, generator: Randomness = None, dry_run: Literal[True], **options: Unpack[Options]
) -> Plan: ...


def to_bayesian(
    net: nn.Module, *, generator: Randomness = None, dry_run: bool = False, **options: Unpack[Options]
) -> BayesianModule | Plan:
    """Make a network Bayesian: its parameters become the means of a posterior over weights.

    The network is wrapped, not copied. Means that are exactly zero are moved to ±1e-6, for the noise is proportional to
    the mean. Where a zero is meant (the B matrices of LoRA), the network starts that close to what it was, and almost
    without uncertainty there: it grows with the means in training.

    Args:
        net: any `torch.nn.Module`, pretrained or not.
        prior: `RelativePrior()` (the default), the paper's `Prior(...)`, or {name pattern: prior}.
        tau: initial standard deviation relative to |m| (default 0.05), or {name pattern: value}.
        rho: initial correlation between neighbours (0 where none is named), or {name pattern: value}. It asks for the
            tridiagonal family where no other is.
        family: "diagonal" (no correlation, the default), "tridiagonal" (the paper's, with one correlation per tensor),
            "mean_field" (a free standard deviation per weight), or a `tribayes.posterior.Family` of your own.
        where: which parameters become random: a name pattern ("fc*"), a list of them, or a function
            (name, parameter) -> bool. Default: all that require gradients, but those of normalisation layers: torch's,
            subclasses of them, and modules with a class or base class named like one (ending in Norm, Norm2d, NormAct,
            NormAct2d and so on).
        generator: randomness for the signs of means that start at zero.
        dry_run: print what would be converted and return that plan; the network is left alone.

    In a pattern dictionary the first pattern that matches a name counts; names without one get the default.

    Example:
        >>> net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        >>> to_bayesian(net, tau={"*bias": 0.01}, prior=tribayes.Prior(scale=0.5))
        BayesianModule(
          random: 4 tensors, 195 weights
          ...
    """
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        known = ", ".join(Options.__annotations__)
        raise TypeError(f"to_bayesian() has no option {unknown[0]!r}; choose among {known}, generator and dry_run.")
    if dry_run:
        plan = plan_for(net, options)
        print(plan)
        return plan
    return BayesianModule(net, generator=generator, **options)


def to_deterministic(model: nn.Module) -> nn.Module:
    """A copy of the plain network, with every random weight at its mean.

    Works on any module that contains Bayesian ones.

    Example:
        >>> to_deterministic(to_bayesian(nn.Linear(2, 1)))
        Linear(in_features=2, out_features=1, bias=True)
    """
    bayesian_modules(model)
    plain = copied(model)
    if isinstance(plain, BayesianModule):
        return plain.module
    for parent in list(plain.modules()):
        for name, child in parent._modules.items():  # named_children() gives a shared child only once
            if isinstance(child, BayesianModule):
                setattr(parent, name, child.module)
    return plain


def copied(network: nn.Module) -> nn.Module:
    """A deep copy, also where a pass has left what it computed as an attribute, as pruning and old weight_norm do.

    Torch refuses to copy such a tensor for its graph, which a copy has no use for.
    """
    check_unsharded(network)
    attributes = (value for module in network.modules() for value in vars(module).values())
    left = [value for value in attributes if isinstance(value, Tensor) and not value.is_leaf]
    return copy.deepcopy(network, {id(value): value.detach().clone() for value in left})


def bayesian_modules(model: nn.Module) -> list[BayesianModule]:
    """The Bayesian modules in `model`, itself included; an error where there is none."""
    check_module("model", model)
    found: list[BayesianModule] = []
    seen, waiting = set(), [model]  # as model.modules() goes, in a fifth of its time: every step asks
    while waiting:
        module = waiting.pop()
        if id(module) not in seen:
            seen.add(id(module))
            if isinstance(module, BayesianModule):
                found.append(module)
            waiting += [child for child in reversed(module._modules.values()) if child is not None]
    if not found:
        remedy = "convert it first: tribayes.to_bayesian(net)"
        raise refusal("model", type(model).__name__, "contain a BayesianModule", remedy)
    return found


def kl(model: nn.Module) -> Tensor:
    """KL(q ‖ p) in nats, summed over every Bayesian module in `model`.

    Example:
        >>> net = nn.Sequential(tribayes.nn.Linear(4, 8), nn.ReLU(), tribayes.nn.Linear(8, 2))
        >>> kl(net).shape
        torch.Size([])
    """
    terms = [module.kl() for module in bayesian_modules(model)]
    return sum(terms[1:], terms[0])


def stabilise_(model: nn.Module, rule: str = "closed_form", generator: Randomness = None) -> None:
    """Apply the numerical guards to every Bayesian module in `model`, in place.

    Call it before each training step, as the paper's pseudocode does.

    Args:
        rule: "closed_form" keeps |m| ≥ 1e-6, δ ≥ −10 (τ ≥ 4.5e-5) and |γ| ≤ 10. "paper" is the pseudocode's own list:
            also |γ| ≥ 0.04000533 (|ρ| ≥ 0.01) and δ ≥ −4.600166 (τ ≥ 0.01), with a coin for the sign of what was too
            close to zero.
        generator: randomness for those coins. In data-parallel training give every process the same, or their
            parameters drift apart.

    Example:
        >>> model = to_bayesian(nn.Linear(2, 1), prior=tribayes.Prior())  # which a mean of zero would be far from
        >>> with torch.no_grad():
        ...     model.module.bias.zero_()
        Parameter containing:
        tensor([0.], requires_grad=True)
        >>> stabilise_(model)
        >>> f"{model.module.bias.abs().item():.0e}"
        '1e-06'
    """
    bounds = rule_of(rule)
    for module in bayesian_modules(model):
        module.stabilise_(bounds, generator)
