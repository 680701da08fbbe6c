"""Learning: likelihoods, the objective, parameter groups, one training step and a loop of it."""

from tribayes.inference.fit import History, fit
from tribayes.inference.likelihood import Bernoulli, Categorical, Gaussian, Likelihood
from tribayes.inference.objective import ELBO, ELBOTerms, MaximumLikelihood
from tribayes.inference.optim import parameter_groups
from tribayes.inference.step import TrainingStep

__all__ = [
    "ELBO",
    "Bernoulli",
    "Categorical",
    "ELBOTerms",
    "Gaussian",
    "History",
    "Likelihood",
    "MaximumLikelihood",
    "TrainingStep",
    "fit",
    "parameter_groups",
]
