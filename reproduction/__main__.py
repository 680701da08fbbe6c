"""The command `python -m reproduction`: make the paper's experiments, and the pages about them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from reproduction.pages.build import Pages
from reproduction.pages.results_page import COMMAND
from reproduction.training.reproduce import Place, estimate
from reproduction.training.reproduce import reproduce as run_all
from reproduction.training.suites import entries_of, pending
from tribayes.cli import run_commands
from tribayes.runs import Stopped
from tribayes.runs.environment import choose_device, compute_repeatably

app = typer.Typer(
    name="reproduction",
    help=__doc__,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command."""
    run_commands(app)


@app.command()
def reproduce(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="digits, mnist, fashion, cifar10, trials or all.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data sets lie; also $TRIBAYES_DATA, then the user's cache.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of every experiment.")] = 3,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    side_by_side: Annotated[int | None, typer.Option(min=1, help="Runs at once. Default: 6 on a GPU, else 1.")] = None,
    iterations: Annotated[int | None, typer.Option(min=1, help="Shorten every run: does it work?")] = None,
    runs: Annotated[Path, typer.Option(help="Where run folders go.")] = Path("runs/reproduce"),
    results: Annotated[Path, typer.Option(help="Where result files go.")] = Path("results"),
    threads: Annotated[int | None, typer.Option(min=1, help="Of the CPU. Default: torch's choice.")] = None,
) -> None:
    """Make the paper's experiments: train, judge, write the result files. Runs that are done are not done again."""
    compute_repeatably(threads)
    place = Place(runs, results, choose_device(device), data_dir)
    entries = pending(entries_of(suite, seeds, iterations), results)
    if place.device.type == "cpu" and entries:
        print(estimate(entries, place))
    try:
        run_all(entries, place, side_by_side or (6 if place.device.type == "cuda" else 1))
    except Stopped as stopped:
        print(f"\n{stopped}; the same command continues.")
        raise typer.Exit(stopped.exit_code) from stopped
    print(f"\nAll results of {suite} are in {results}; `{COMMAND}` makes tables and figures of them.")


@app.command("results")
def make_pages(
    check: Annotated[bool, typer.Option("--check", help="Only say whether they are up to date.")] = False,
    root: Annotated[Path, typer.Option(help="The repository: results/, docs/ and README.md lie in it.")] = Path(),
) -> None:
    """Make docs/results.md, its figures and README's part from the result files."""
    pages = Pages(root)
    if not check:
        for path in pages.write():
            print(f"wrote {path}")
        return
    problems = pages.problems()
    for problem in problems:
        print(f"{problem}; run: {COMMAND}", file=sys.stderr)
    raise typer.Exit(1 if problems else 0)


if __name__ == "__main__":
    main()
