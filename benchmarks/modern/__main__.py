"""What being Bayesian does to modern networks.

    python -m benchmarks.modern run --data cifar10 --network resnet18 --arm plain ours --seed 0 1 2 3 --epochs 30 \\
        --kl 0.0003 0.001 auto --to FOLDER --seconds 1400
    python -m benchmarks.modern table FOLDER             # of held-out images: choose settings by these
    python -m benchmarks.modern run ... --test           # then, once, with test, corrupted and foreign images
    python -m benchmarks.modern table FOLDER --test
    python -m benchmarks.modern tuned --data fashion --network lenet100 --epochs 30 --seeds 5 --to FOLDER --together 14
    python -m benchmarks.modern keep FOLDER              # its figures into benchmarks/results/modern
    python -m benchmarks.modern page [--check]           # docs/modern.md and README from what is kept; up to date?

Several values make several runs, seeds outermost; an option goes to every arm that has it. What is in FOLDER is not run
again; what would not fit into the seconds left is not begun; what fails is written down, and the queue goes on. `tuned`
gives every arm three trials of its own number and runs the best with all seeds (FOLDER/trials and FOLDER/runs).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import torch

from benchmarks.modern import sources
from benchmarks.modern.arms import ARMS
from benchmarks.modern.document import document, readme_block
from benchmarks.modern.keeping import keep, kept
from benchmarks.modern.networks import NETWORKS
from benchmarks.modern.runs import Broken, Queue, planned
from benchmarks.modern.table import table
from benchmarks.modern.task import number_or_word
from benchmarks.modern.tuned import tune_and_run
from benchmarks.store import ROOT
from pages.files import out_of_date, with_block, write_texts

PAGE = ROOT / "docs" / "modern.md"
README = ROOT / "README.md"
OPTIONS = sorted({name for arm in ARMS.values() for name in arm.options})


def main(words: Sequence[str] | None = None) -> None:
    words = sys.argv[1:] if words is None else list(words)
    arguments = _parser().parse_args(words)
    if arguments.command == "table":
        print(table(arguments.folder, arguments.test))
    elif arguments.command == "keep":
        print("\n".join(path.name for path in keep(arguments.folder)))
    elif arguments.command == "page":
        _page(arguments.check)
    elif arguments.command == "tuned":
        _tuned(arguments)
    else:
        _run(arguments, words)


def _page(check: bool) -> None:
    results = kept()
    texts = {PAGE: document(results), README: with_block(README.read_text("utf-8"), "modern", readme_block(results))}
    if not check:
        write_texts(texts)
    elif stale := out_of_date(texts):
        raise SystemExit(f"{stale[0].name} is not what the results say; run python -m benchmarks.modern page")


def _tuned(arguments: argparse.Namespace) -> None:
    usual = ["--data", arguments.data, "--network", arguments.network, "--epochs", str(arguments.epochs)]
    if arguments.device is not None:
        usual += ["--device", str(arguments.device)]
    if failed := tune_and_run(
        usual, arguments.network, arguments.arm, range(arguments.seeds), arguments.to, arguments.together
    ):
        raise SystemExit(f"{len(failed)} jobs failed; the first: {' '.join(failed[0])}")


def _run(arguments: argparse.Namespace, words: Sequence[str]) -> None:
    begin = perf_counter()
    device = arguments.device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # cuDNN may choose its kernels by the clock: a run is minutes long, and all arms may
    torch.backends.cudnn.benchmark = True
    base = {name: getattr(arguments, name) for name in ("data", "network", "epochs", "batch", "samples")}
    base |= {"lr": arguments.lr, "weight_decay": arguments.weight_decay}
    choices = {name: getattr(arguments, name) for name in OPTIONS if getattr(arguments, name)}
    plan = planned(base, arguments.arm, arguments.seed, choices)
    folder = arguments.data_dir or Path(os.environ.get("TRIBAYES_DATA", "."))
    study = sources.load(arguments.data, folder, device)
    queue = Queue(
        study,
        arguments.to,
        seconds=arguments.seconds - (perf_counter() - begin),
        test=arguments.test,
        retry=arguments.retry,
        say=lambda text: print(text, flush=True),
    )
    try:
        queue.run(plan)
    except Broken as error:
        print(f"the GPU has to be begun anew ({error}); going on in a fresh process", flush=True)
        again = [word for word in words if word != "--retry"] + ["--seconds", f"{queue.left():.0f}"]
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.modern", *again])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    shown = commands.add_parser("table", help="what a folder says")
    shown.add_argument("folder", type=Path)
    shown.add_argument("--test", action="store_true", help="of test images, instead of those held out")
    commands.add_parser("keep", help="its figures into the repository").add_argument("folder", type=Path)
    page = commands.add_parser("page", help="docs/modern.md and its part of README from what is kept")
    page.add_argument("--check", action="store_true", help="compare instead of writing")
    tuned = commands.add_parser("tuned", help="every arm: three trials of its own number, then the best with all seeds")
    tuned.add_argument("--data", required=True)
    tuned.add_argument("--network", required=True, choices=NETWORKS)
    tuned.add_argument("--arm", nargs="+", default=list(ARMS), choices=ARMS)
    tuned.add_argument("--seeds", type=int, default=5, help="how many")
    tuned.add_argument("--epochs", type=int, default=30)
    tuned.add_argument("--to", type=Path, required=True, help="folder for the results")
    tuned.add_argument("--together", type=int, default=1, help="processes at a time")
    tuned.add_argument("--device", type=torch.device, default=None)
    run = commands.add_parser("run", help="train, and judge on held-out images")
    run.add_argument("--data", required=True, help="cifar10, cifar100 or fashion")
    run.add_argument("--network", required=True, choices=NETWORKS)
    run.add_argument("--arm", nargs="+", required=True, choices=ARMS)
    run.add_argument("--seed", nargs="+", type=int, default=[0])
    run.add_argument("--epochs", type=int, default=30)
    run.add_argument("--batch", type=int, default=256)
    run.add_argument("--samples", type=int, default=32, help="sampled networks, to predict")
    run.add_argument("--lr", type=float, default=None, help="default: the network's")
    run.add_argument("--weight-decay", type=float, default=None, help="default: the network's")
    for name in OPTIONS:
        words = ["--kl", "--kl-weight"] if name == "kl" else [f"--{name}"]
        usual = ", ".join(f"{arm} {one.options[name]}" for arm, one in ARMS.items() if name in one.options)
        run.add_argument(*words, dest=name, nargs="+", type=number_or_word, default=[], help=f"default: {usual}")
    run.add_argument("--to", type=Path, required=True, help="folder for the results")
    run.add_argument("--seconds", type=float, default=float("inf"), help="the time there is")
    run.add_argument("--test", action="store_true", help="also look at test images: once, when all is chosen")
    run.add_argument("--retry", action="store_true", help="also what has failed before")
    run.add_argument("--data-dir", type=Path, default=None, help="default: $TRIBAYES_DATA")
    run.add_argument("--device", type=torch.device, default=None)
    return parser


if __name__ == "__main__":
    main()
