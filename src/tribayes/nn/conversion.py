"""A conversion: what it was asked to do, and what it will do to a given network, before it is done."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypedDict, TypeVar

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from tribayes._errors import check_positive, is_number, refusal, wrong_type
from tribayes._text import format_table
from tribayes.posterior.family import Family, family_of
from tribayes.posterior.prior import Prior

DEFAULT_TAU = 0.05
DEFAULT_RHO = 0.0

Tau = float | Mapping[str, float]
Rho = float | Mapping[str, float]
Priors = Prior | Mapping[str, Prior] | None
Value = TypeVar("Value")
Predicate = Callable[[str, nn.Parameter], bool]
Where = str | Sequence[str] | Predicate | None

_NORMALISATION = re.compile(r"(Norm|Norm\dd)$")  # BatchNorm2d, LayerNorm, RMSNorm, other libraries' LlamaRMSNorm


class Options(TypedDict, total=False):
    """The keywords of `tribayes.to_bayesian` that say what becomes random and from where it starts."""

    prior: Priors
    tau: Tau
    rho: Rho
    family: str | type[Family]
    where: Where


@dataclass(frozen=True)
class Conversion:
    """What is asked for; `tribayes.to_bayesian` explains the fields."""

    prior: Priors = None
    tau: Tau = DEFAULT_TAU
    rho: Rho = DEFAULT_RHO
    family: str | type[Family] = "tridiagonal"
    where: Where = None

    def plan(self, net: nn.Module) -> Plan:
        """Check everything against a network, changing nothing."""
        if not isinstance(net, nn.Module):
            raise wrong_type("net", net, "be a torch.nn.Module", "pass the network itself")
        kind = family_of(self.family)
        candidates = select(net, self.where)
        chosen = [candidate for candidate in candidates if candidate.random]
        taus = per_tensor("tau", self.tau, chosen, DEFAULT_TAU)
        rhos = per_tensor("rho", self.rho, chosen, DEFAULT_RHO)
        priors = per_tensor("prior", Prior() if self.prior is None else self.prior, chosen, Prior())
        _check_start(taus, rhos, priors, kind)
        return Plan(kind, tuple(candidates), tuple(map(float, taus)), tuple(map(float, rhos)), tuple(priors))


@dataclass(frozen=True)
class Plan:
    """A checked conversion: which parameters become random, and from which values they start.

    Prints as a table of every parameter of the network.
    """

    family: type[Family]
    candidates: tuple[Candidate, ...]
    tau: tuple[float, ...]
    rho: tuple[float, ...]
    priors: tuple[Prior, ...]

    @property
    def chosen(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.random]

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """name → shape, whether it becomes random, why, and its initial values if so."""
        rows: dict[str, dict[str, Any]] = {}
        start = iter(zip(self.tau, self.rho, self.priors, strict=True))
        for candidate in self.candidates:
            row: dict[str, Any] = {
                "shape": tuple(candidate.parameter.shape),
                "K": candidate.parameter.numel(),
                "random": candidate.random,
                "reason": candidate.reason,
            }
            if candidate.random:
                row["tau"], row["rho"], row["prior"] = next(start)
            rows[candidate.name] = row
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


def _check_start(taus: Sequence[float], rhos: Sequence[float], priors: Sequence[Prior], kind: type[Family]) -> None:
    for tau in taus:
        check_positive("tau", tau, "it is the standard deviation relative to |m|, such as 0.05")
    for rho in rhos:
        if not is_number(rho):
            raise wrong_type("rho", rho, "be a number", "pass e.g. 0.0")
        if not abs(rho) < 0.5:
            raise refusal("rho", rho, "lie strictly between -0.5 and 0.5", "choose a smaller correlation")
        if rho and not kind.correlated:
            raise refusal(
                "rho",
                rho,
                f"be 0 for the family {kind.__name__}, which has no correlation",
                'leave it out, or use family="tridiagonal"',
            )
    for prior in priors:
        if not isinstance(prior, Prior):
            raise wrong_type("prior", prior, "be a tribayes.Prior", "pass e.g. tb.Prior(loc=0.0, scale=1.0)")


def _prior_text(prior: Prior) -> str:
    loc, scale = (_short(value) for value in (prior.loc, prior.scale))
    return f"N({loc}, {scale}²)"


def _short(value: object) -> str:
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, int | float) else "tensor"


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

    def matches(self, pattern: str) -> bool:
        """Whether any of its names fits the pattern."""
        return any(fnmatchcase(name, pattern) for name in self.names)


def select(module: nn.Module, where: Where) -> list[Candidate]:
    """Every parameter of `module`, marked random or not, with the reason."""
    named = list(_named(module))
    if not named:
        raise refusal("net", type(module).__name__, "have parameters", "there is nothing to make random in it")
    if where is None:
        candidates = [_default(module, names, parameter) for names, parameter in named]
    elif callable(where):
        candidates = [_by_predicate(where, names, parameter) for names, parameter in named]
    else:
        candidates = _by_patterns(_pattern_list(where), named)
    _check(candidates, where)
    return candidates


def per_tensor(
    argument: str, values: Value | Mapping[str, Value], chosen: Sequence[Candidate], default: Value
) -> list[Value]:
    """A value for each tensor: one for all, or by the first pattern that matches a name of it, else `default`."""
    if not isinstance(values, Mapping):
        return [values] * len(chosen)
    for pattern in values:
        if not any(candidate.matches(pattern) for candidate in chosen):
            names = [candidate.name for candidate in chosen]
            raise refusal(argument, pattern, "match a random parameter", f"choose among {_listing(names)}")
    return [
        next((value for pattern, value in values.items() if candidate.matches(pattern)), default)
        for candidate in chosen
    ]


def _named(module: nn.Module) -> Iterator[tuple[tuple[str, ...], nn.Parameter]]:
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    for parameter, aliases in names.items():
        yield tuple(aliases), parameter


def _default(module: nn.Module, names: tuple[str, ...], parameter: nn.Parameter) -> Candidate:
    owners = [type(module.get_submodule(name.rpartition(".")[0])).__name__ for name in names]
    if not parameter.requires_grad:
        return Candidate(names, parameter, False, "frozen")
    if any(_NORMALISATION.search(owner) for owner in owners):
        return Candidate(names, parameter, False, "normalisation")
    return Candidate(names, parameter, True, "default")


def _by_predicate(where: Predicate, names: tuple[str, ...], parameter: nn.Parameter) -> Candidate:
    chosen = any(where(name, parameter) for name in names)
    return Candidate(names, parameter, chosen, "predicate")


def _by_patterns(patterns: list[str], named: list[tuple[tuple[str, ...], nn.Parameter]]) -> list[Candidate]:
    everything = [name for names, _ in named for name in names]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in everything):
            raise refusal("where", pattern, "match a parameter", f"choose among {_listing(everything)}")
    candidates = []
    for names, parameter in named:
        matching = [p for p in patterns if any(fnmatchcase(name, p) for name in names)]
        reason = f"matches {matching[0]!r}" if matching else "no pattern matches"
        candidates.append(Candidate(names, parameter, bool(matching), reason))
    return candidates


def _pattern_list(where: object) -> list[str]:
    patterns = [where] if isinstance(where, str) else where
    if not isinstance(patterns, Sequence) or not all(isinstance(p, str) for p in patterns):
        raise wrong_type(
            "where",
            where,
            "be a name pattern, a list of them, a function (name, parameter) -> bool or None",
            "pass e.g. where='fc*'",
        )
    return [p for p in patterns if isinstance(p, str)]


def _check(candidates: list[Candidate], where: Where) -> None:
    chosen = [c for c in candidates if c.random]
    if not chosen:
        reasons = ", ".join(f"{c.name} ({c.reason})" for c in candidates[:8])
        raise refusal("where", where, "choose at least one parameter", f"these were passed over: {reasons}")
    for candidate in chosen:
        _check_parameter(candidate.name, candidate.parameter)


def _check_parameter(name: str, parameter: nn.Parameter) -> None:
    if isinstance(parameter, UninitializedParameter):
        raise refusal("net", name, "be initialised", "run one forward pass through the lazy module first")
    if not parameter.is_floating_point():
        raise wrong_type("net", name, f"be real, but is {parameter.dtype}", "leave it out with `where`")
    if parameter.numel() == 0:
        raise refusal("net", name, "have at least one entry", "leave it out with `where`")
    if not torch.isfinite(parameter).all():
        raise refusal("net", name, "be finite, but holds NaN or infinity", "repair the weights before converting")


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown}, … ({len(names)} in all)"
