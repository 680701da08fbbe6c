"""Learning: likelihoods, the objective, parameter groups, the training loop."""

from tribayes.inference.allocator import keep_freed_memory
from tribayes.inference.captured import CapturedStep
from tribayes.inference.likelihood import Bernoulli, Categorical, Gaussian, Likelihood
from tribayes.inference.objective import ELBO, ELBOTerms
from tribayes.inference.optim import parameter_groups
from tribayes.inference.training import History, fit, training_step

__all__ = [
    "ELBO",
    "Bernoulli",
    "CapturedStep",
    "Categorical",
    "ELBOTerms",
    "Gaussian",
    "History",
    "Likelihood",
    "fit",
    "keep_freed_memory",
    "parameter_groups",
    "training_step",
]
