"""The α-divergence objective: between the evidence lower bound and the likelihood of the averaged network.

    L = −(1/α)(1/M) Σ_i ln (1/S) Σ_s p(y_i | x_i, w_s)^α  +  ν KL(q ‖ p),     w_1 … w_S ~ q

is the black-box α energy (Hernández-Lobato et al. 2016) in the form of Li and Gal (2017). For α → 0 it is the ELBO over
the same draws, for α = 1 its first term is −ln of the mean likelihood: what the posterior predictive is judged by. A
larger α prefers posteriors that cover what the data allow to those that sit on one explanation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tribayes._errors import check_whole, is_number, refusal, wrong_type
from tribayes.inference.likelihood import Likelihood
from tribayes.inference.objective import AUTO, ELBO, KLWeight
from tribayes.nn.answer import Output

_REMEDY = "0 is the ELBO, 1 the likelihood of the averaged network"


class AlphaELBO(ELBO):
    """`ELBO` with the likelihood term of an α-divergence, from a few draws of the weights; `terms.nll` is that term.

    Args:
        likelihood, data_size, kl_weight, estimator, output: as of `ELBO`.
        alpha: 0 for the ELBO, 1 for the likelihood of the averaged network, or between; more than 1 is allowed.
        samples: draws of the weights per step, at least 2: by a single one α makes no difference.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> elbo = AlphaELBO(tribayes.Categorical(), data_size=60, alpha=0.5, samples=4)
        >>> elbo(model, torch.randn(8, 4), torch.randint(3, (8,))).outputs.shape
        torch.Size([4, 8, 3])
    """

    def __init__(
        self,
        likelihood: Likelihood,
        *,
        data_size: int | None = None,
        alpha: float = 0.5,
        samples: int = 10,
        kl_weight: KLWeight = AUTO,
        estimator: str = "plain",
        output: Output = None,
    ) -> None:
        check_whole("samples", samples, "the expectation of a power needs several draws", least=2)
        if not is_number(alpha):
            raise wrong_type("alpha", alpha, "be a number", _REMEDY)
        if not 0 <= alpha < float("inf"):
            raise refusal("alpha", alpha, "be finite and not negative", _REMEDY)
        super().__init__(
            likelihood,
            data_size=data_size,
            kl_weight=kl_weight,
            samples=samples,
            estimator=estimator,
            output=output,
        )
        self.alpha = float(alpha)

    def data_term(self, outputs: Sequence[Any], targets: Tensor) -> Tensor:
        """The energy per example, averaged."""
        each = torch.stack([self.likelihood.each_nll(output, targets) for output in outputs])
        return alpha_energy(each, self.alpha).mean()

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:g}, {super().extra_repr()}"


def alpha_energy(nll: Tensor, alpha: float) -> Tensor:
    """−(1/α) ln mean exp(−α nll) over the first axis, (S, N) → (N,); for α = 0 the mean.

    Relative to the smallest nll, so that nothing overflows, and by expm1 and log1p, so that a small α loses no digits.

    Example:
        >>> nll = torch.tensor([[1.0], [3.0]])
        >>> [round(alpha_energy(nll, alpha).item(), 4) for alpha in (0.0, 1e-6, 1.0)]
        [2.0, 2.0, 1.5662]
    """
    if alpha == 0:
        return nll.mean(0)
    least = nll.detach().amin(0)
    return least - torch.expm1(-alpha * (nll - least)).mean(0).log1p() / alpha
