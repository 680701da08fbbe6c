"""What holds for every test."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from tests.offline import sitecustomize

OFFLINE = str(Path(sitecustomize.__file__).parent)

# The tests are small: a second thread gains nothing, and on a busy machine two that wait for each other lose minutes.
torch.set_num_threads(1)


os.environ.update(WANDB_MODE="offline", WANDB_ERROR_REPORTING="false")  # wandb reports its use from a thread of its own

# Processes that tests start, too, are refused the network.
os.environ["PYTHONPATH"] = os.pathsep.join([OFFLINE, *filter(None, [os.environ.get("PYTHONPATH")])])
