"""Which parameters of a module become random, and which value each of them is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from tribayes._errors import refusal, wrong_type

Value = TypeVar("Value")
Predicate = Callable[[str, nn.Parameter], bool]
Where = str | Sequence[str] | Predicate | None

_NORMALISATION = re.compile(r"(Norm|Norm\dd)$")  # BatchNorm2d, LayerNorm, RMSNorm, other libraries' LlamaRMSNorm


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
