"""The figures of the paper's Tables I to VI, as printed, under the names of the experiments."""

from __future__ import annotations

from typing import NamedTuple

from tribayes.prediction.summary import Counts

# Tables I and IV: share of wrong predictions on the test set
ERRORS = {
    "mnist-lenet100-frequentist": 0.0084,
    "mnist-lenet100": 0.0070,
    "mnist-lenet250-frequentist": 0.0070,
    "mnist-lenet250": 0.0061,
    "cifar10-frequentist": 0.209,
    "cifar10": 0.2032,
}


class Layer(NamedTuple):
    """A row of Table II or V: weights, then biases."""

    title: str
    name: str  # of the module
    tau: float
    bias_tau: float
    rho: float
    bias_rho: float


# Tables II and V. Table II says 200 neurons where the text, and every other table, says 250.
POSTERIORS = {
    "mnist-lenet100": (
        Layer("Convolutional 1", "conv1", 0.04, 0.05, -0.44, -0.04),
        Layer("Convolutional 2", "conv2", 0.52, 0.05, -0.25, -0.01),
        Layer("Fully connected 1", "fc1", 0.86, 0.05, -0.15, 0.01),
        Layer("Fully connected 2", "fc2", 0.05, 0.04, -0.21, 0.01),
    ),
    "mnist-lenet250": (
        Layer("Convolutional 1", "conv1", 0.03, 0.05, -0.44, 0.03),
        Layer("Convolutional 2", "conv2", 0.35, 0.05, -0.21, -0.01),
        Layer("Fully connected 1", "fc1", 2.02, 0.06, -0.15, -0.01),
        Layer("Fully connected 2", "fc2", 0.06, 0.05, -0.18, 0.01),
    ),
    "cifar10": (
        Layer("Convolutional 1", "conv1", 0.04, 0.05, -0.47, 0.01),
        Layer("Convolutional 2", "conv2", 0.46, 0.05, -0.49, -0.01),
        Layer("Convolutional 3", "conv3", 0.37, 0.05, -0.41, 0.01),
        Layer("Fully connected", "fc", 0.14, 0.05, -0.29, 0.01),
    ),
}

# Tables III and VI: level → counts over the 10,000 test images
CERTAIN = {
    "mnist-lenet100": {"0.95": Counts(9668, 262, 14, 56)},
    "mnist-lenet250": {"0.95": Counts(9587, 352, 8, 53)},
    "cifar10": {"0.95": Counts(5894, 2074, 403, 1629), "0.99": Counts(5281, 2687, 250, 1782)},
}
