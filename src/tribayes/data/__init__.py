"""Real data sets as tensors: found on disk, else downloaded, and checked before use.

    from tribayes.data import load

    data = load("mnist").to("cuda")  # uint8 images (N, C, H, W), int64 labels (N,)

What a file must hold is in `catalogue`; `loading` finds it, `download` brings it, `reading` checks and parses it.
"""

from tribayes.data.loading import NAMES, class_names, load, load_digits
from tribayes.data.reading import Split

__all__ = ["NAMES", "Split", "class_names", "load", "load_digits"]
