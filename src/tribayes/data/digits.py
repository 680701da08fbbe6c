"""The data set that comes along: scikit-learn's handwritten digits, 1,797 real images of 8×8 pixels."""

from __future__ import annotations

import torch

from tribayes.data.split import Split

CLASSES = tuple("0123456789")

_TEST_EVERY = 5  # every fifth image is a test image: 1,437 to train on, 360 to test


def load_digits() -> Split:
    """The handwritten digits, split the same way every time (in file order, every fifth image tests).

    Images are float32 in [0, 1]: the pixels are counts from 0 to 16, which 255 grey values do not hold exactly.
    """
    try:
        from sklearn.datasets import load_digits as load
    except ImportError as error:
        raise ImportError(
            "the handwritten digits are inside scikit-learn, which is not installed; "
            "install it with: pip install 'tribayes[demo]'"
        ) from error
    bunch = load()
    images = torch.tensor(bunch.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(bunch.target)
    test = torch.arange(len(labels)) % _TEST_EVERY == 0
    return Split(images[~test], labels[~test], images[test], labels[test])
