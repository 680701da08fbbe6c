"""Several processes that act as one: who they are, and predictions that they share (docs/distributed.md)."""

from tribayes.distributed.processes import Lost, Processes, joined_by_torchrun, processes
from tribayes.distributed.shared import predict

__all__ = ["Lost", "Processes", "joined_by_torchrun", "predict", "processes"]
