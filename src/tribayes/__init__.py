"""tribayes: Bayesian deep learning with correlated weights.

    import tribayes as tb

    model = tb.to_bayesian(net)                                   # any nn.Module
    elbo = tb.ELBO(tb.Categorical(), data_size=len(train_set))    # the objective
    opt = torch.optim.SGD(tb.parameter_groups(model, lr=0.01), momentum=0.9)

Raw parameters → law → draws → network → ELBO → history; a folder imports only from those before it:
`posterior`, `nn`, `inference`, `prediction`.
"""

from tribayes import nn
from tribayes.inference import (
    ELBO,
    Bernoulli,
    Categorical,
    ELBOTerms,
    Gaussian,
    History,
    Likelihood,
    fit,
    parameter_groups,
    training_step,
)
from tribayes.nn.convert import kl, stabilise_, to_bayesian, to_deterministic
from tribayes.nn.module import BayesianModule
from tribayes.posterior import Prior, TridiagonalNormal

__version__ = "0.1.0"

__all__ = [
    "ELBO",
    "BayesianModule",
    "Bernoulli",
    "Categorical",
    "ELBOTerms",
    "Gaussian",
    "History",
    "Likelihood",
    "Prior",
    "TridiagonalNormal",
    "fit",
    "kl",
    "nn",
    "parameter_groups",
    "stabilise_",
    "to_bayesian",
    "to_deterministic",
    "training_step",
]
