"""A conversion: what it was asked to do, and what it will do to a given network, before it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from torch import nn

from tribayes._errors import check_positive, is_number, refusal, wrong_type
from tribayes._text import format_table
from tribayes.nn.selection import Candidate, Where, per_tensor, select
from tribayes.posterior.family import Family, family_of
from tribayes.posterior.prior import Prior

DEFAULT_TAU = 0.05
DEFAULT_RHO = 0.0

Tau = float | Mapping[str, float]
Rho = float | Mapping[str, float]
Priors = Prior | Mapping[str, Prior] | None


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
