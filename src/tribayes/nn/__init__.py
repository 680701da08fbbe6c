"""Networks with random weights: the wrapper, the conversion, and drop-in layers."""

from tribayes.nn.layers import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Embedding,
    Linear,
)
from tribayes.nn.module import BayesianModule

__all__ = [
    "BayesianModule",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Embedding",
    "Linear",
]
