"""A conversion: what it was asked to do, and what it will do to a given network, before it is done."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypedDict, TypeVar

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from tribayes._errors import check_spread, is_number, refusal, wrong_type
from tribayes._text import format_table
from tribayes.nn.places import some_of
from tribayes.posterior.family import Family, family_of
from tribayes.posterior.prior import AnyPrior, RelativePrior

DEFAULT_TAU = 0.05
DEFAULT_RHO = 0.0
DEFAULT_FAMILY = "diagonal"  # as measured (docs/understanding/what-it-buys.md), the correlation is not worth its price
CORRELATED_FAMILY = "tridiagonal"  # the paper's: who names a ρ has asked for it

Numbers = float | Mapping[str, float]
Priors = AnyPrior | Mapping[str, AnyPrior] | None
Value = TypeVar("Value")
Predicate = Callable[[str, nn.Parameter], bool]
Where = str | Sequence[str] | Predicate | None
Chooser = Callable[[Sequence[str], nn.Parameter], tuple[bool, str]]

# torch's own, known by what they are; _NormBase is the base of batch and instance normalisation
_NORMALISATIONS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.LocalResponseNorm)
# other libraries', by name: LlamaRMSNorm, FrozenBatchNorm2d, LayerNormAct2d, EvoNorm2dS0, RmsNormFp32, RMSNormGated
_NORMALISATION = re.compile(r"Norm(\dd)?(Act|Tlu|Gated|[BS]\da?)?(\dd)?(Fp32)?$")

_COMPUTED = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


class Options(TypedDict, total=False):
    """The keywords of `tribayes.to_bayesian` that say what becomes random and from where it starts."""

    prior: Priors
    tau: Numbers
    rho: Numbers | None
    family: str | type[Family] | None
    where: Where


def plan_conversion(
    net: nn.Module,
    *,
    prior: Priors = None,
    tau: Numbers = DEFAULT_TAU,
    rho: Numbers | None = None,
    family: str | type[Family] | None = None,
    where: Where = None,
) -> Plan:
    """Check everything against a network, changing nothing; `tribayes.to_bayesian` explains the options."""
    usual = DEFAULT_FAMILY if rho is None else CORRELATED_FAMILY
    kind = family_of(usual if family is None else family)
    candidates = select(net, where)
    chosen = [candidate for candidate in candidates if candidate.random]
    taus = per_tensor("tau", tau, chosen, DEFAULT_TAU)
    rhos = per_tensor("rho", DEFAULT_RHO if rho is None else rho, chosen, DEFAULT_RHO)
    default: AnyPrior = RelativePrior()
    priors = per_tensor("prior", default if prior is None else prior, chosen, default)
    _check_start(taus, rhos, priors, kind)
    return Plan(kind, tuple(candidates), tuple(map(float, taus)), tuple(map(float, rhos)), tuple(priors))


@dataclass(frozen=True)
class Plan:
    """A checked conversion: what becomes random, and from which values it starts. Prints as a table."""

    family: type[Family]
    candidates: tuple[Candidate, ...]
    tau: tuple[float, ...]
    rho: tuple[float, ...]
    priors: tuple[AnyPrior, ...]

    @property
    def chosen(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.random]

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """name → shape, whether it becomes random, why, and its initial values if so."""
        rows: dict[str, dict[str, Any]] = {}
        for one in self.candidates:
            shape, size = tuple(one.parameter.shape), one.parameter.numel()
            rows[one.name] = {"shape": shape, "K": size, "random": one.random, "reason": one.reason}
        for one, tau, rho, prior in zip(self.chosen, self.tau, self.rho, self.priors, strict=True):
            rows[one.name] |= {"tau": tau, "rho": rho, "prior": prior}
        return rows

    def __str__(self) -> str:
        rows = []
        for name, row in self.as_dict().items():
            shape = "×".join(map(str, row["shape"])) or "scalar"
            becomes = "random" if row["random"] else "fixed"
            prior = _prior_text(row["prior"]) if row["random"] else ""
            rows.append([name, shape, row["K"], becomes, row["reason"], row.get("tau"), row.get("rho"), prior])
        table = format_table(["parameter", "shape", "K", "becomes", "because", "tau", "rho", "prior"], rows)
        weights = sum(c.parameter.numel() for c in self.chosen)
        return f"{table}\n{len(self.chosen)} tensors with {weights:,} weights become random."


def _check_start(taus: Sequence[float], rhos: Sequence[float], priors: Sequence[AnyPrior], kind: type[Family]) -> None:
    for tau in taus:
        check_spread("tau", tau, "it is the standard deviation relative to |m|, such as 0.05")
    for rho in rhos:
        if not is_number(rho):
            raise wrong_type("rho", rho, "be a number", "pass e.g. 0.0")
        if not abs(rho) < 0.5:
            raise refusal("rho", rho, "lie strictly between -0.5 and 0.5", "choose a smaller correlation")
        if rho and not kind.correlated:
            requirement = f"be 0 for the family {kind.__name__}, which has no correlation"
            raise refusal("rho", rho, requirement, 'leave it out, or use family="tridiagonal"')
    check_priors(priors)


def check_priors(priors: Iterable[object]) -> None:
    """Refuse what is no prior."""
    for prior in priors:
        if not isinstance(prior, AnyPrior):
            requirement, remedy = "be a tribayes.Prior or RelativePrior", "pass e.g. tb.Prior(loc=0.0, scale=1.0)"
            raise wrong_type("prior", prior, requirement, remedy)


def _prior_text(prior: AnyPrior) -> str:
    if isinstance(prior, RelativePrior):
        return "relative"
    loc, scale = (
        value if isinstance(value, str) else "tensor" if isinstance(value, torch.Tensor) else f"{value:g}"
        for value in (prior.loc, prior.scale)
    )
    return f"N({loc}, {scale}²)"


@dataclass(frozen=True)
class Candidate:
    """One parameter of a module, with all names it goes by (tied weights have several)."""

    names: tuple[str, ...]
    parameter: nn.Parameter
    random: bool
    reason: str

    @property
    def name(self) -> str:
        return self.names[0]


def select(module: nn.Module, where: Where) -> list[Candidate]:
    """Every parameter of `module`, marked random or not, with the reason."""
    _check_modules(module)
    named: dict[nn.Parameter, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if isinstance(parameter, UninitializedParameter):  # random or not: a pass would make it on a copy
            raise refusal("net", name, "be initialised", "run one forward pass through the lazy module first")
        named.setdefault(parameter, []).append(name)
    if not named:
        raise refusal("net", type(module).__name__, "have parameters", "there is nothing to make random in it")
    choose = _chooser(module, where, [name for names in named.values() for name in names])
    candidates = [Candidate(tuple(names), one, *choose(names, one)) for one, names in named.items()]
    if not any(candidate.random for candidate in candidates):
        reasons = ", ".join(f"{c.name} ({c.reason})" for c in candidates[:8])
        raise refusal("where", where, "choose at least one parameter", f"these were passed over: {reasons}")
    for candidate in candidates:
        if candidate.random:
            _check_parameter(candidate.name, candidate.parameter)
            _check_owners(module, candidate)
    return candidates


def _check_modules(net: nn.Module) -> None:
    """Refuse what torch has put around a network, or made of its code."""
    if isinstance(net, nn.DataParallel | nn.parallel.DistributedDataParallel):
        remedy = "convert net.module, and wrap the model afterwards"
        raise refusal("net", type(net).__name__, "be the network itself, not what spreads it over devices", remedy)
    for name, module in net.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            requirement = f"be made of Python modules, but {f'its part {name!r}' if name else 'it'} is TorchScript"
            remedy = "convert the module that it was made of, and export what was trained: docs/serving.md"
            raise refusal("net", type(net).__name__, requirement, remedy)


def _check_owners(net: nn.Module, candidate: Candidate) -> None:
    """Refuse a random table of vectors that asks for sparse gradients: a draw has dense ones."""
    for name in candidate.names:
        owner = net.get_submodule(name.rpartition(".")[0])
        if isinstance(owner, nn.Embedding | nn.EmbeddingBag) and owner.sparse:
            remedy = "build the layer with sparse=False, or leave it out with `where`"
            raise refusal("net", name, "have dense gradients to be random, but its layer says sparse=True", remedy)


def _chooser(module: nn.Module, where: Where, everything: list[str]) -> Chooser:
    """(names, parameter) → whether it becomes random, and why."""
    if where is None:
        return partial(_by_default, module)
    if callable(where) and not isinstance(where, type):
        return lambda names, parameter: (any(where(name, parameter) for name in names), "predicate")
    kinds = "be a name pattern, a list of them, a function (name, parameter) -> bool or None"
    patterns = pattern_list(where, kinds, "pass e.g. where='fc*'")
    check_patterns("where", patterns, everything, "a parameter")
    return partial(_by_patterns, patterns)


def _by_default(module: nn.Module, names: Sequence[str], parameter: nn.Parameter) -> tuple[bool, str]:
    owners = [module.get_submodule(name.rpartition(".")[0]) for name in names]
    if not parameter.requires_grad:
        return False, "frozen"
    return (False, "normalisation") if any(map(_normalises, owners)) else (True, "default")


def _normalises(module: nn.Module) -> bool:
    kinds = type(module).__mro__
    return isinstance(module, _NORMALISATIONS) or any(_NORMALISATION.search(kind.__name__) for kind in kinds)


def _by_patterns(patterns: Sequence[str], names: Sequence[str], _: nn.Parameter) -> tuple[bool, str]:
    first = next((pattern for pattern in patterns if matches(names, pattern)), None)
    return (False, "no pattern matches") if first is None else (True, f"matches {first!r}")


def matches(names: Iterable[str], pattern: str) -> bool:
    """Whether any of the names fits the pattern."""
    return any(fnmatchcase(name, pattern) for name in names)


def pattern_list(where: object, requirement: str, remedy: str) -> list[str]:
    """One pattern or several as a list; an error for anything else."""
    patterns = [where] if isinstance(where, str) else where
    if not isinstance(patterns, Sequence) or not all(isinstance(pattern, str) for pattern in patterns):
        raise wrong_type("where", where, requirement, remedy)
    return list(patterns)


def check_patterns(argument: str, patterns: Iterable[str], names: Sequence[str], what: str) -> None:
    """Refuse a pattern that none of the names fits."""
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise wrong_type(argument, pattern, "have names or name patterns as keys", 'pass e.g. {"*bias": 0.01}')
        if not matches(names, pattern):
            raise refusal(argument, pattern, f"match {what}", f"choose among {some_of(names)}")


def per_tensor(
    argument: str, values: Value | Mapping[str, Value], chosen: Sequence[Candidate], default: Value
) -> list[Value]:
    """A value for each tensor: one for all, or by the first pattern that matches a name of it, else `default`."""
    if not isinstance(values, Mapping):
        return [values] * len(chosen)
    check_patterns(argument, values, [name for candidate in chosen for name in candidate.names], "a random parameter")
    return [
        next((value for pattern, value in values.items() if matches(candidate.names, pattern)), default)
        for candidate in chosen
    ]


def _check_parameter(name: str, parameter: nn.Parameter) -> None:
    if not parameter.is_floating_point():
        raise wrong_type("net", name, f"be real, but is {parameter.dtype}", "leave it out with `where`")
    if parameter.dtype not in _COMPUTED:
        requirement = f"be of a dtype that torch computes in, but is {parameter.dtype}"
        raise wrong_type("net", name, requirement, "convert it first, e.g. net.to(torch.bfloat16)")
    if parameter.is_meta:
        remedy = "fill it first: net.to_empty(device='cpu'), then load_state_dict"
        raise refusal("net", name, "have numbers, but is on the meta device", remedy)
    if parameter.is_inference():
        remedy = "build or load the network outside of it"
        raise refusal("net", name, "be able to learn, but was made in torch.inference_mode()", remedy)
    if parameter.numel() == 0:
        raise refusal("net", name, "have at least one entry", "leave it out with `where`")
    if not torch.isfinite(parameter).all():
        raise refusal("net", name, "be finite, but holds NaN or infinity", "repair the weights before converting")
