"""Draw what docs/understanding shows where no script runs: each movable figure at its first setting.

python docs/understanding_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure

import tribayes as tb

IMAGES = Path(__file__).parent / "images" / "understanding"
RHO, TAU = 0.35, 0.5


def covariance() -> Figure:
    means = torch.tensor([1, -0.6, 0.3, 0.9, -1, 0.5, 0.2, -0.8])
    matrix = tb.TridiagonalNormal(means, torch.tensor(TAU), torch.tensor(RHO)).covariance_matrix
    figure = Figure(figsize=(4.2, 3.2), layout="constrained")
    ax = figure.subplots()
    drawn = ax.imshow(matrix.numpy(), cmap="RdBu_r", vmin=-0.25, vmax=0.25)
    ax.set(title=f"covariance, ρ = {RHO}, τ = {TAU}", xlabel="weights, row by row")
    figure.colorbar(drawn)
    return figure


def moving_average() -> Figure:
    x = torch.randn(25, generator=torch.Generator().manual_seed(3))
    t = float(1 - (1 - 4 * RHO**2) ** 0.5) / (2 * RHO)
    noise = (x[1:] + t * x[:-1]) / (1 + t * t) ** 0.5
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.bar(range(25), x.tolist(), color="silver")
    below.bar([place + 0.5 for place in range(24)], noise.tolist(), color="#e8590c")
    above.set(title="independent normals x")
    below.set(title=f"noise of the weights, (xᵢ + {t:.2f} xᵢ₋₁) / {(1 + t * t) ** 0.5:.2f}")
    return figure


def convolution() -> Figure:
    rhos = torch.linspace(-0.49, 0.49, 99)
    figure = Figure(figsize=(6.4, 3), layout="constrained")
    ax = figure.subplots()
    for label, sign in (("smooth input", 1), ("rough input", -1)):
        ax.plot(
            rhos.tolist(), (1 + sign * 2 * rhos * 8 / 9).sqrt().tolist(), label=label
        )  # nine taps have eight neighbours
    ax.axhline(1, color="silver")
    ax.set(xlabel="ρ", ylabel="noise of the output, × that at ρ = 0")
    ax.legend()
    return figure


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, draw in (("covariance", covariance), ("moving-average", moving_average), ("convolution", convolution)):
        draw().savefig(IMAGES / f"{name}.svg")


if __name__ == "__main__":
    main()
