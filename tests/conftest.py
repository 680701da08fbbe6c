"""What holds for every test."""

from __future__ import annotations

import torch

# The tests are small: a second thread gains nothing, and on a busy machine two that wait for each other lose minutes.
torch.set_num_threads(1)
