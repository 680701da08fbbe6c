"""Other libraries of Bayesian deep learning, each made to take part by an adapter of its own.

`python -m benchmarks.peers.install` puts them into a folder of their own; nothing of them is in this repository.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.learners import Learner

SITE = Path(__file__).resolve().parent / "site"

# name in the tables → what is imported, adapter, its class
PEERS = {
    "bayesian-torch, reparameterization": ("bayesian_torch", "bayesian_torch", "Reparameterization"),
    "bayesian-torch, flipout": ("bayesian_torch", "bayesian_torch", "Flipout"),
    "BLiTZ": ("blitz", "blitz", "Blitz"),
    "torchbnn": ("torchbnn", "torchbnn", "TorchBnn"),
    "torch_blue": ("torch_blue", "torch_blue", "TorchBlue"),
    "IVON": ("ivon", "ivon", "Ivon"),
}


class NotInstalled(Exception):
    """A peer that is not in the folder."""


def learner(name: str, site: Path = SITE) -> type[Learner]:
    """The peer's learner; NotInstalled where its package cannot be found."""
    package, adapter, made = PEERS[name]
    find(package, site)
    return getattr(import_module(f"benchmarks.peers.{adapter}"), made)


def find(package: str, site: Path = SITE) -> None:
    """Make a package of the folder importable; NotInstalled where it is not there."""
    _look_into(site)
    if find_spec(package) is None:
        raise NotInstalled("not installed: python -m benchmarks.peers.install")


def _look_into(site: Path) -> None:
    """Behind everything else, so that the same torch is used by all."""
    if site.is_dir() and str(site) not in sys.path:
        sys.path.append(str(site))
