"""What the commands of the performance benchmarks have in common: options, and where results go."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import machine, peers, store


def parser(words: str) -> argparse.ArgumentParser:
    """Options that every command has; `words` is its docstring."""
    made = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--device", type=torch.device, default=None, help="cpu or cuda; default: what there is")
    made.add_argument("--threads", type=int, default=torch.get_num_threads())
    made.add_argument("--quick", action="store_true", help="small and short: does it run? Stored only with --into")
    made.add_argument("--into", type=Path, default=None, help="folder for the result file (benchmarks/results)")
    made.add_argument("--peers", type=Path, default=peers.SITE, help="folder that benchmarks.peers.install made")
    made.add_argument("--cudnn-benchmark", action="store_true", help="let cuDNN try its kernels, each arm by itself")
    return made


def parsed(made: argparse.ArgumentParser, words: Sequence[str] | None) -> argparse.Namespace:
    """Read the words, and set torch up as they say."""
    arguments = made.parse_args(words)
    arguments.device = arguments.device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if arguments.device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device here; leave --device out, or pass --device cpu")
    settle(arguments)
    return arguments


def settle(arguments: argparse.Namespace) -> None:
    """Set torch up; a fresh process has to do so again."""
    torch.set_num_threads(arguments.threads)
    torch.backends.cudnn.benchmark = arguments.cudnn_benchmark
    torch.manual_seed(0)


def kept(benchmark: str, arguments: argparse.Namespace) -> Mapping[str, Any]:
    """The figures that this machine, set up as now, left before; nothing of quick runs, or where it left none."""
    here = {"kind": machine.kind_of(arguments.device), "threads": arguments.threads, "torch": torch.__version__}
    here |= {"cudnn_benchmark": arguments.cudnn_benchmark}
    for one in store.stored(benchmark, arguments.into or store.RESULTS):
        if not (arguments.quick or one["quick"]) and here.items() <= one["machine"].items():
            return one["figures"]
    return {}


def keep(benchmark: str, figures: Mapping[str, Any], arguments: argparse.Namespace) -> None:
    """Store the figures; those of a quick run only where a folder is named."""
    if arguments.quick and arguments.into is None:
        return
    here = machine.describe(arguments.device, arguments.quick)
    path = store.save(benchmark, here, figures, arguments.into or store.RESULTS, arguments.quick)
    print(f"\nwritten: {path.name}")
