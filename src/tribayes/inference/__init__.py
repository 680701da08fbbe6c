"""Learning: likelihoods, the objective, parameter groups, one training step and a loop of it."""

from tribayes.inference.alpha import AlphaELBO
from tribayes.inference.callbacks import Callback, FitState
from tribayes.inference.finite import NonFiniteLoss
from tribayes.inference.fit import fit
from tribayes.inference.history import History, ValidationRecord
from tribayes.inference.likelihood import Bernoulli, Categorical, Gaussian, Likelihood, MultiLabel
from tribayes.inference.noise import Noise, NormalNoise
from tribayes.inference.objective import ELBO, ELBOTerms, MaximumLikelihood
from tribayes.inference.optim import parameter_groups
from tribayes.inference.step import TrainingStep
from tribayes.inference.values import HeteroscedasticGaussian, Poisson, StudentT

__all__ = [
    "ELBO",
    "AlphaELBO",
    "Bernoulli",
    "Callback",
    "Categorical",
    "ELBOTerms",
    "FitState",
    "Gaussian",
    "HeteroscedasticGaussian",
    "History",
    "Likelihood",
    "MaximumLikelihood",
    "MultiLabel",
    "Noise",
    "NonFiniteLoss",
    "NormalNoise",
    "Poisson",
    "StudentT",
    "TrainingStep",
    "ValidationRecord",
    "fit",
    "parameter_groups",
]
