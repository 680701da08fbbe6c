"""bayesian-torch (Intel): mean field by reparameterization or flipout, converted by its own `dnn_to_bnn`."""

from __future__ import annotations

from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn, get_kl_loss
from torch import Tensor, nn

from benchmarks.learners import Variational

_PRIOR = {"prior_mu": 0.0, "prior_sigma": 1.0, "posterior_mu_init": 0.0, "posterior_rho_init": -3.0}
_START = {"moped_enable": True, "moped_delta": 0.05}  # means start at the network's weights


class Reparameterization(Variational):
    """One draw of the weights for the whole batch, as ours."""

    kind = "Reparameterization"

    def converted(self, network: nn.Module) -> nn.Module:
        dnn_to_bnn(network, {**_PRIOR, **_START, "type": self.kind})
        return network

    def divergence(self) -> Tensor:
        return get_kl_loss(self.model)


class Flipout(Reparameterization):
    """A pseudo-independent draw for every example."""

    kind = "Flipout"
