"""The command line: `tribayes`, or `python -m tribayes`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from tribayes._allocator import keep_freed_memory
from tribayes._errors import refusal
from tribayes._text import format_table
from tribayes.prediction import ClassificationSummary
from tribayes.recipes.examples import load_examples
from tribayes.recipes.experiments import EXPERIMENTS
from tribayes.recipes.recipe_run import RecipeRun, Request, train_as_asked
from tribayes.recipes.setting import parse_changes
from tribayes.runs import Stopped, comparison
from tribayes.runs.environment import choose_device, compute_repeatably

app = typer.Typer(
    name="tribayes",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
DataDir = Annotated[Path | None, typer.Option(help="Where data sets lie; also $TRIBAYES_DATA, then the user's cache.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Of the CPU. Default: torch's choice.")]
Samples = Annotated[int, typer.Option(min=1, help="How many networks to draw.")]

_ANY_WORDS: Any = {"context_settings": {"allow_extra_args": True, "ignore_unknown_options": True}}


def main() -> None:
    """Run the command line."""
    run_commands(app)


def run_commands(commands: typer.Typer) -> None:
    """Run commands; what went wrong is said in a sentence."""
    warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")  # torch's compiler advises lower precision
    keep_freed_memory()
    try:
        commands()
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        if "--traceback" in sys.argv[1:2]:
            raise
        sys.exit(1)


@app.callback()
def common(traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error arose.")] = False) -> None:
    """Bayesian networks with correlated weights: train one, judge it, ask it how sure it is."""
    del traceback  # `main` reads it, also where the arguments are wrong


@app.command()
def experiments() -> None:
    """List the experiments that `fit` knows."""
    header = ["experiment", "data", "network", "family", "iterations", "batch", "rate"]
    rows = [
        [s.name, s.data, s.network, s.family, s.iterations, s.batch, f"{s.learning_rate:g}"]
        for s in EXPERIMENTS.values()
    ]
    print(format_table(header, rows))


@app.command()
def fit(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Of `tribayes experiments`. Default: digits.")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="The run's folder. Default: runs/NAME-seedN.")] = None,
    data_dir: DataDir = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Determines the result. Default: 0.")] = None,
    device: Device = "auto",
    iterations: Annotated[int | None, typer.Option(help="Short for --set iterations=N.")] = None,
    validation: Annotated[int | None, typer.Option(help="Hold out so many training images, and test on them.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change the setting.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    threads: Threads = None,
    checkpoint_seconds: Annotated[float, typer.Option(min=0, help="Between two checkpoints.")] = 60.0,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write events for TensorBoard.")] = False,
) -> None:
    """Train an experiment. Ctrl-C ends it with a checkpoint; --resume continues to the very same result."""
    wanted = parse_changes(changes or [])
    for key, value in (("iterations", iterations), ("validation", validation)):
        if value is not None and wanted.setdefault(key, value) != value:
            raise refusal(f"--{key}", value, f"agree with --set {key}={wanted[key]}", "give one of the two")
    request = Request(name, run, seed, wanted, device, threads, data_dir)
    try:
        trained = train_as_asked(request, resume, checkpoint_seconds, tensorboard)
    except Stopped as stopped:
        print(f"\n{stopped}; continue with:\n  tribayes fit --resume --run {request.place}")
        raise typer.Exit(stopped.exit_code) from stopped
    print(f"\nNext:\n  tribayes evaluate {trained.folder}")
    if trained.setting.bayesian:
        print(f"  tribayes report {trained.folder}")


@app.command()
def evaluate(
    run: RunArgument, data_dir: DataDir = None, device: Device = "auto", samples: Samples = 200, threads: Threads = None
) -> None:
    """Judge a run by its test images: error, NLL, calibration, certain or not."""
    found, place = RecipeRun.open(run), _device(device, threads)
    _, test = load_examples(found.setting, data_dir, place)
    scores = found.evaluate(found.network(place), test, samples=samples, progress=sys.stdout.isatty())
    print(ClassificationSummary.from_dict(scores))
    print(f"\nWritten to {found.path('evaluation.json')}")


@app.command()
def report(
    run: RunArgument,
    out: Annotated[Path | None, typer.Option(help="The file to write. Default: RUN/report.html.")] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    samples: Samples = 200,
    threads: Threads = None,
) -> None:
    """Write the HTML page about a run."""
    found, path = RecipeRun.open(run), out or run / "report.html"
    print(found.report(path, data_dir, _device(device, threads), samples, progress=sys.stdout.isatty()))


@app.command()
def predict(
    run: RunArgument,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE…", help="Image files.")],
    out: Annotated[Path | None, typer.Option(help="Folder for boxplots. Default: RUN/predictions.")] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    samples: Samples = 200,
    threads: Threads = None,
) -> None:
    """Ask a run about image files: label, probability, interval, certain or not, and a boxplot.

    Images are made grey or RGB and resized as the network needs it, and the answer says so. Light and dark are taken
    as they are: MNIST, Fashion-MNIST and the digits show light strokes on a dark ground.
    """
    from tribayes.recipes.image_files import ask_about  # needs Pillow and matplotlib

    folder = run / "predictions" if out is None else out
    for answer in ask_about(RecipeRun.open(run), images, folder, data_dir, _device(device, threads), samples):
        print(answer)


@app.command()
def compare(runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of evaluated runs.")]) -> None:
    """Set evaluated runs beside each other."""
    print(comparison([RecipeRun.open(folder) for folder in runs]))


@app.command("results", help="Make the paper's tables and figures: in a clone of the repository.", **_ANY_WORDS)
@app.command("reproduce", help="Make the paper's experiments: in a clone of the repository.", **_ANY_WORDS)
def elsewhere(context: typer.Context) -> None:
    """Say where to make what only the repository can."""
    command = "reproduce all" if context.info_name == "reproduce" else context.info_name
    raise ValueError(
        "the paper's experiments are made where their results are kept: clone the repository of tribayes, and in it "
        f"run `python -m reproduction {command}` or `make {context.info_name}`."
    )


def _device(word: str, threads: int | None) -> torch.device:
    compute_repeatably(threads)
    return choose_device(word)
