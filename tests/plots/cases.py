"""Small predictions made by hand, so that what a picture must show is known."""

from __future__ import annotations

import torch
from torch import Tensor

from tribayes.prediction import ClassPredictive, RegressionPredictive
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import Kept, Reduced

NETWORKS = 40


def classes(samples: Tensor) -> ClassPredictive:
    """A prediction from what each network says, (S, N, C)."""
    return ClassPredictive(Kept(samples), Drawn(0, tuple(range(len(samples)))))


def random_classes(examples: int = 60, number: int = 4, sharpness: float = 3.0, seed: int = 0) -> ClassPredictive:
    """Networks that agree about an example up to noise; some examples are clear, some not."""
    generator = torch.Generator().manual_seed(seed)
    common = sharpness * torch.randn(examples, number, generator=generator)
    noise = 0.6 * torch.randn(NETWORKS, examples, number, generator=generator)
    return classes((common + noise).softmax(-1))


def noisy_targets(pred: ClassPredictive, every: int = 7) -> Tensor:
    """True classes that differ from the label at every so many examples."""
    targets = pred.label.clone()
    targets[::every] = (targets[::every] + 1) % pred.mean.shape[1]
    return targets


def constant_classes(means: list[list[float]]) -> ClassPredictive:
    """Networks that all say the same, so every interval is a point and every prediction quite certain."""
    return classes(torch.tensor(means, dtype=torch.float64).expand(NETWORKS, -1, -1))


def without_samples(pred: ClassPredictive) -> ClassPredictive:
    """The same prediction as from `keep_samples=False`."""
    return ClassPredictive(Reduced.of(pred.samples, (0.95, 0.99)), pred.origin)


def images_for(count: int, channels: int = 1, side: int = 5) -> Tensor:
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(1))


def line(examples: int = 25, noise: float = 0.2) -> tuple[Tensor, RegressionPredictive]:
    """x in a mixed order, and a regression at these places."""
    generator = torch.Generator().manual_seed(2)
    x = torch.linspace(-1, 1, examples)[torch.randperm(examples, generator=generator)]
    slopes = 1 + 0.3 * torch.randn(NETWORKS, 1, 1, generator=generator)
    return x, RegressionPredictive(Kept(slopes * x[:, None]), Drawn(0, tuple(range(NETWORKS))), noise)
