"""Drop-in Bayesian layers: torch's own, wrapped. The mechanism is BayesianModule's; only the names are here."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import nn

from tribayes.nn.module import BayesianModule
from tribayes.nn.plan import DEFAULT_RHO, DEFAULT_TAU, Priors, Rho, Tau
from tribayes.nn.selection import Where
from tribayes.posterior.family import Family


class _BayesianLayer(BayesianModule):
    """Takes the arguments of the torch layer, and the keywords of `tribayes.to_bayesian`."""

    layer: ClassVar[type[nn.Module]]

    def __init__(
        self,
        *args: Any,
        prior: Priors = None,
        tau: Tau = DEFAULT_TAU,
        rho: Rho = DEFAULT_RHO,
        family: str | type[Family] = "tridiagonal",
        where: Where = None,
        **kwargs: Any,
    ) -> None:
        module = self.layer(*args, **kwargs)
        super().__init__(module, prior=prior, tau=tau, rho=rho, family=family, where=where)


class Linear(_BayesianLayer):
    """`torch.nn.Linear` with random weights.

    Example:
        >>> Linear(784, 100, tau=0.1)(torch.randn(2, 784)).shape
        torch.Size([2, 100])
    """

    layer = nn.Linear


class Conv1d(_BayesianLayer):
    """`torch.nn.Conv1d` with random weights."""

    layer = nn.Conv1d


class Conv2d(_BayesianLayer):
    """`torch.nn.Conv2d` with random weights."""

    layer = nn.Conv2d


class Conv3d(_BayesianLayer):
    """`torch.nn.Conv3d` with random weights."""

    layer = nn.Conv3d


class ConvTranspose1d(_BayesianLayer):
    """`torch.nn.ConvTranspose1d` with random weights."""

    layer = nn.ConvTranspose1d


class ConvTranspose2d(_BayesianLayer):
    """`torch.nn.ConvTranspose2d` with random weights."""

    layer = nn.ConvTranspose2d


class ConvTranspose3d(_BayesianLayer):
    """`torch.nn.ConvTranspose3d` with random weights."""

    layer = nn.ConvTranspose3d


class Embedding(_BayesianLayer):
    """`torch.nn.Embedding` with random vectors."""

    layer = nn.Embedding
