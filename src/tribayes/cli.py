"""The command line: `tribayes`, or `python -m tribayes`."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from tribayes._allocator import keep_freed_memory
from tribayes._errors import refusal
from tribayes._text import format_table, printable
from tribayes.distributed import Lost, joined_by_torchrun, processes
from tribayes.inference import NonFiniteLoss
from tribayes.own.answers import answer
from tribayes.own.fitting import OwnRequest, data_named, train_own
from tribayes.own.judging import compared, judge
from tribayes.own.own_run import OwnRun
from tribayes.own.page import write_page
from tribayes.own.setting import TABLE, changeable, is_own
from tribayes.prediction import ClassificationSummary
from tribayes.recipes.examples import load_examples
from tribayes.recipes.experiments import EXPERIMENTS
from tribayes.recipes.recipe_run import RecipeRun, Request, train_as_asked
from tribayes.recipes.setting import parse_changes
from tribayes.runs import Run, Stopped
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
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Of the CPU. Default: torch's choice.")]
Samples = Annotated[int, typer.Option(min=2, max=1_000_000, help="How many networks to draw.")]

Network = Annotated[
    str | None, typer.Option(metavar="MODULE:FUNCTION", help="Own data: your network, function(shape, outputs).")
]

_ANY_WORDS: Any = {"context_settings": {"allow_extra_args": True, "ignore_unknown_options": True}}


def main() -> None:
    """Run the command line."""
    run_commands(app)


def run_commands(commands: typer.Typer) -> None:
    """Run commands; what went wrong is said in a sentence."""
    warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")  # torch's compiler advises lower precision
    if isinstance(sys.stdout, TextIOWrapper):  # a name that is no text, of a file or a folder, must not cost the answer
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        keep_freed_memory()
        commands()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        print(f"error: {_sentence(error)}", file=sys.stderr)
        if "--traceback" in sys.argv[1:2]:
            raise
        sys.exit(1)


def _sentence(error: Exception) -> str:
    """What went wrong: our own words as they are; of an error nobody foresaw its kind, too, and how to see more."""
    text = printable(error, keep="\n")
    if isinstance(error, ValueError | OSError | ImportError | Lost | NonFiniteLoss) or (
        isinstance(error, TypeError) and text[:1] == "`"
    ):
        return text
    reason = text.splitlines()[0] if text else "no reason given"
    return f"{type(error).__name__}: {reason} (tribayes --traceback … shows where)"


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"tribayes {import_module('tribayes').__version__}")
        raise typer.Exit


@app.callback()
def common(
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error arose.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Bayesian networks with correlated weights: train one, judge it, ask it how sure it is."""
    del version, traceback  # `main` reads the latter, also where the arguments are wrong


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
        str | None,
        typer.Argument(
            metavar="NAME|DATA",
            help="Of `tribayes experiments` (default: digits); or your own table (.csv, .parquet) or folder of images.",
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Own table: the column to predict.")] = None,
    task: Annotated[str | None, typer.Option(help="Own table: classification or regression. Default: by it.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Own table: a column not to learn from.")] = None,
    network: Network = None,
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
    """Train an experiment, or on your own data. Ctrl-C ends it with a checkpoint; --resume continues it exactly.

    By `torchrun --nproc-per-node N -m -- tribayes fit …` N processes share every batch, with the result of one but for
    rounding.
    """
    data = data_named(name)
    own = data is not None or (resume and name is None and run is not None and is_own(Run.open(run).config))
    _check_options(
        own, target=target, task=task, ignore=ignore, network=network, validation=validation, data_dir=data_dir
    )
    wanted = parse_changes(changes or [], changeable() if own else None)
    for key, value in (("iterations", iterations), ("validation", validation)):
        if value is not None and wanted.setdefault(key, value) != value:
            raise refusal(f"--{key}", value, f"agree with --set {key}={wanted[key]}", "give one of the two")
    request: Request | OwnRequest = Request(name, run, seed, wanted, device, threads, data_dir)
    if own:
        request = OwnRequest(data, run, seed, wanted, device, threads, target, task, network, ignore or [])
    train: Any = train_own if own else train_as_asked
    again = f" --network {network}" if network else ""  # no file of the run says it for its user
    with joined_by_torchrun(on_gpu=device != "cpu" and torch.cuda.is_available()) as group:
        try:
            trained: OwnRun | RecipeRun = train(request, resume, checkpoint_seconds, tensorboard)
        except Stopped as stopped:
            if group.first:
                print(f"\n{stopped}; continue with:\n  tribayes fit --resume --run {printable(request.place)}{again}")
            raise typer.Exit(stopped.exit_code) from stopped
        except Lost as lost:  # said at once: torchrun ends the processes that are left, while they leave the group
            print(f"error: {lost}", file=sys.stderr, flush=True)
            raise typer.Exit(1) from lost
    if not group.first:
        return
    folder = printable(trained.folder) + again
    print(f"\nNext:\n  tribayes evaluate {folder}")
    if trained.setting.bayesian:
        print(f"  tribayes report {folder}")


@app.command()
def evaluate(
    run: RunArgument,
    data_dir: DataDir = None,
    device: Device = "auto",
    samples: Samples = 200,
    threads: Threads = None,
    network: Network = None,
) -> None:
    """Judge a run by its test images or rows: error, NLL, calibration, certain or not."""
    found, place = _opened(run, network=network, data_dir=data_dir), _device(device, threads)
    with _asking(found, place):
        if isinstance(found, OwnRun):
            _say(judge(found, found.network(place, network), samples, sys.stdout.isatty()))
        else:
            _, test = load_examples(found.setting, data_dir, place)
            scores = found.evaluate(found.network(place), test, samples=samples, progress=sys.stdout.isatty())
            _say(ClassificationSummary.from_dict(scores))
        _say(f"\nWritten to {printable(found.path('evaluation.json'))}")


@app.command()
def report(
    run: RunArgument,
    out: Annotated[Path | None, typer.Option(help="The file to write. Default: RUN/report.html.")] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    samples: Samples = 200,
    threads: Threads = None,
    network: Network = None,
) -> None:
    """Write the HTML page about a run."""
    found, place = _opened(run, network=network, data_dir=data_dir), _device(device, threads)
    path, progress = out or run / "report.html", sys.stdout.isatty()
    with _asking(found, place):
        if isinstance(found, OwnRun):
            _say(printable(write_page(found, path, found.network(place, network), samples, progress)))
        else:
            _say(printable(found.report(path, data_dir, place, samples, progress)))


@app.command()
def predict(
    run: RunArgument,
    images: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Image files; or of your own data, a table.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for boxplots; for own data the CSV file. Default: in RUN/predictions.")
    ] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    samples: Samples = 200,
    threads: Threads = None,
    network: Network = None,
) -> None:
    """Ask a run about image files: label, probability, interval, certain or not, and a boxplot.

    A run on your own data answers with a CSV file: prediction, interval, certain or not, entropies.

    Images are made grey or RGB and resized as the network needs it, and the answer says so. Light and dark are taken
    as they are: MNIST, Fashion-MNIST and the digits show light strokes on a dark ground.
    """
    found, place = _opened(run, network=network, data_dir=data_dir), _device(device, threads)
    with _asking(found, place):
        if isinstance(found, OwnRun):
            path, said = answer(found, images, out, found.network(place, network), samples, sys.stdout.isatty())
            _say("\n".join([*said, printable(path)]))
            return
        from tribayes.recipes.image_files import ask_about  # needs Pillow and matplotlib

        folder = run / "predictions" if out is None else out
        for verdict in ask_about(found, images, folder, data_dir, place, samples):
            print(verdict)


@app.command()
def serve(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A finished run. Default: the digits', trained on first use.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; others than this machine need the token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="TRIBAYES_TOKEN", help="What callers have to show. Default: made anew.")
    ] = None,
    name: Annotated[list[str] | None, typer.Option(help="Another name by which the server may be called.")] = None,
    data_dir: DataDir = None,
    network: Network = None,
    samples: Annotated[int, typer.Option(min=2, max=2000, help="How many networks to draw.")] = 200,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=3600, help="After which a body that has not come, or an answer, is given up.")
    ] = 10.0,
    threads: Threads = None,
) -> None:
    """Open a page on which to watch a network doubt: draw, distort, click; with a JSON interface beside it."""
    try:
        from tribayes.serve.server import serve as serve_until_told
    except ModuleNotFoundError as error:
        remedy = "install it with: pip install 'tribayes[serve]'"
        raise ImportError(f"the page is served with {error.name}, which is not installed; {remedy}") from error
    from tribayes.serve.home import embedded_run
    from tribayes.serve.limits import Limits
    from tribayes.serve.subject import Subject
    from tribayes.serve.table import TableSubject

    if threads is not None:
        torch.set_num_threads(threads)
    options = {"network": network, "data_dir": data_dir}
    if run is None:
        _check_options(own=False, **options)
    found = embedded_run() if run is None else _opened(run, **options)
    subject: Subject | TableSubject
    if isinstance(found, OwnRun) and found.setting.kind == TABLE:
        subject = TableSubject(found, samples, network)
    else:
        subject = Subject(found, data_dir, samples, network)
    serve_until_told(subject, host, port, token, tuple(name or ()), Limits(seconds=seconds))


@app.command()
def compare(runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of evaluated runs.")]) -> None:
    """Set evaluated runs beside each other."""
    print(compared([_opened(folder) for folder in runs]))


@app.command("results", help="Make the paper's tables and figures: in a clone of the repository.", **_ANY_WORDS)
@app.command("reproduce", help="Make the paper's experiments: in a clone of the repository.", **_ANY_WORDS)
def elsewhere(context: typer.Context) -> None:
    """Say where to make what only the repository can."""
    command = "reproduce all" if context.info_name == "reproduce" else context.info_name
    raise ValueError(
        "the paper's experiments are made where their results are kept: clone the repository of tribayes, and in it "
        f"run `python -m reproduction {command}` or `make {context.info_name}`."
    )


def _opened(folder: Path, **options: Any) -> RecipeRun | OwnRun:
    """The run in a folder, as what it is; options that are of the other kind are refused."""
    own = is_own(Run.open(folder).config)
    _check_options(own, **options)
    return OwnRun.open(folder) if own else RecipeRun.open(folder)


@contextmanager
def _asking(run: RecipeRun | OwnRun, place: torch.device) -> Iterator[None]:
    """What torchrun has started asks a run on one's own data together; those of the catalogue ask one process."""
    with joined_by_torchrun(on_gpu=place.type == "cuda") as group:
        if not (group.alone or isinstance(run, OwnRun)):
            requirement = "be asked by one process: only runs on your own data are shared out"
            raise refusal("RUN", str(run.folder), requirement, "leave torchrun out")
        yield


def _say(words: object) -> None:
    """Print, in the first of several processes."""
    if processes().first:
        print(words)


def _check_options(own: bool, **given: Any) -> None:
    """Refuse options of experiments for one's own data, and the other way round."""
    of_experiments = ("validation", "data_dir")
    for name, value in given.items():
        if value is not None and own == (name in of_experiments):
            requirement = f"be for {'experiments of the catalogue' if own else 'your own data, a table or a folder'}"
            said = str(value) if isinstance(value, Path) else value
            raise refusal(f"--{name.replace('_', '-')}", said, requirement, "leave it out")


def _device(word: str, threads: int | None) -> torch.device:
    compute_repeatably(threads)
    return choose_device(word)
