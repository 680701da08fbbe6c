"""Showing one image in axes of its own."""

from __future__ import annotations

from matplotlib.axes import Axes
from torch import Tensor

from tribayes.plots.style import GREY


def show_image(ax: Axes, image: Tensor) -> None:
    """Draw (1, H, W) in grey or (3, H, W) in colour, values in [0, 1], without ticks."""
    if image.shape[0] == 1:
        ax.imshow(image[0].numpy(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    else:
        ax.imshow(image.movedim(0, -1).numpy(), interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set(color=GREY, linewidth=0.6)
