"""The table of cases that the law's tests run over, and how agreement is measured."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tribayes.posterior import TridiagonalNormal, parametrisation

SIZES = (1, 2, 3, 7, 64, 300)
GAMMAS = (-10.0, -3.0, -0.04000533, 0.04000533, 0.7, 10.0)  # ρ of both signs, near 0 and near its ends
DELTAS = (-4.600166, 0.3)
CASES = [(size, delta, gamma) for size in SIZES for delta in DELTAS for gamma in GAMMAS]


def means(size: int, seed: int = 0) -> npt.NDArray[np.float64]:
    """Means of mixed signs over four orders of magnitude."""
    rng = np.random.default_rng([seed, size])
    return rng.choice([-1.0, 1.0], size) * 10 ** rng.uniform(-3, 1, size)


def normals(size: int, seed: int = 1) -> npt.NDArray[np.float64]:
    return np.random.default_rng([seed, size]).standard_normal(size)


def leaf(value: npt.ArrayLike) -> Tensor:
    """A float64 tensor that collects a gradient."""
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def law_of(loc: Tensor, delta: Tensor, gamma: Tensor) -> TridiagonalNormal:
    """The law of raw parameters, differentiable in them."""
    return TridiagonalNormal(
        loc,
        parametrisation.tau_of(delta),
        parametrisation.rho_of(gamma),
        validate_args=False,
        coefficient=parametrisation.coefficient_of(gamma),
    )


def assert_agree(ours: Tensor | npt.ArrayLike, theirs: npt.ArrayLike, relative: float = 1e-9) -> None:
    """Equal to `relative`, measured against the size of the whole array (an entry may vanish).

    A whole result may vanish too (∂KL/∂γ of a single weight): rounding of order 1e-14 is then allowed.
    """
    a = ours.detach().numpy() if isinstance(ours, Tensor) else np.asarray(ours)
    b = np.asarray(theirs)
    assert a.shape == b.shape
    assert np.linalg.norm(a - b) <= relative * np.linalg.norm(b) + 1e-14
