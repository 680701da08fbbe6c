"""What is fixed and what can be chosen about training."""

from __future__ import annotations

from dataclasses import dataclass

SETS = ("concrete", "energy", "yacht")
FAMILIES = ("tridiagonal", "diagonal", "mean_field")
HIDDEN_UNITS = 50
SAMPLED_NETWORKS = 200
SEED = 0
LEVEL = 0.95  # of the intervals whose coverage is reported


@dataclass(frozen=True)
class Recipe:
    """Everything about training that is open."""

    steps: int = 4000
    batch_size: int = 0  # 0: all rows
    lr: float = 0.01  # of Adam, falling to 0 along half a cosine
    tau: float = 0.05  # start
    hidden_prior: float = 1.0  # ζ of the first layer
    output_prior: float = 1.0  # ζ of the second
    kl_weight: float = 1.0  # 1 is the evidence lower bound
    samples: int = 1  # draws of the weights per step
    noise: float = 0.3  # start, in standard deviations of the target
    noise_factor: float = 1.0  # the learned noise times this predicts: training rows make it look too small
    correlation_lr_multiplier: float = 1.0
