"""Do the 95 % intervals and sets of `tribayes fit table.csv` hold, with no option given?

    python -m benchmarks.own_data --seeds 10   # benchmarks/results/own-data.json, then the part of docs/own-data.md
    python -m benchmarks.own_data --page       # that part alone, from what is stored
    python -m benchmarks.own_data --check      # is it what the file says?

Scikit-learn's tables, written to CSV; each seed is another division into rows that train, calibrate and judge. A single
division judges by 36 to 114 rows, so shares are over all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.performance.markdown import number
from benchmarks.store import ROOT
from pages.files import out_of_date, with_block, write_texts
from pages.markdown import markdown_table
from tribayes._files import store_json
from tribayes._progress import progress_bar
from tribayes._text import format_table, percent
from tribayes.own.fitting import OwnRequest, train_own
from tribayes.own.judging import judge

RESULTS = Path(__file__).parent / "results" / "own-data.json"
PAGE = ROOT / "docs" / "own-data.md"
TABLES = ("diabetes", "wine", "breast_cancer")


def written(name: str, folder: Path) -> Path:
    """One of scikit-learn's tables as a CSV file."""
    from sklearn import datasets

    path = folder / f"{name}.csv"
    getattr(datasets, f"load_{name}")(as_frame=True).frame.to_csv(path, index=False)
    return path


def judged(table: Path, seed: int) -> dict[str, Any]:
    """The evaluation of a run with nothing but its target said."""
    folder = table.parent / f"{table.stem}-{seed}"
    request = OwnRequest(table, folder, seed, {}, "cpu", 1, "target", None, None, ())
    with contextlib.redirect_stdout(io.StringIO()):
        run = train_own(request, resume=False, checkpoint_seconds=1e9, tensorboard=False)
        judge(run, run.network(torch.device("cpu")))
    return run.evaluation()


def summary(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Shares over the test rows of all divisions."""
    held = [each["conformal"] for each in found]
    rows = sum(each["examples"] for each in held)
    own = {"error": [each["error"] for each in found]} if "error" in found[0] else {"rmse": [e["rmse"] for e in found]}
    return {
        "seeds": len(found),
        "test_rows": rows,
        "covered": sum(each["covered"] * each["examples"] for each in held) / rows,
        "by_seed": [each["covered"] for each in held],
        "size": [each["size"] for each in held],
        **own,
    }


def block(results: Mapping[str, Any]) -> str:
    """The table of docs/own-data.md, a line for each table that was run, and what one division can say."""
    header = [
        "table",
        "divisions",
        "rows that judged",
        "truth in the 95 % intervals or sets",
        "by division",
        "how large",
    ]
    rows = [_line(name, each) for name, each in results.items()]
    sizes = [each["test_rows"] // each["seeds"] for each in results.values()]
    some = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else str(sizes[0])
    return f"{markdown_table(header, rows)}\nOne division judges by {some} rows, so it says little by itself.\n"


def _line(name: str, found: Mapping[str, Any]) -> list[str]:
    """One table: what holds values is as wide as it is, and a set has so many classes; both are means of divisions."""
    classes, shares = "error" in found, found["by_seed"]
    size = sum(found["size"]) / len(found["size"])
    return [
        f"{name.replace('_', ' ')} ({'classes' if classes else 'values'})",
        str(found["seeds"]),
        f"{found['test_rows']:,}",
        percent(found["covered"], 1),
        f"{100 * min(shares):.1f} to {percent(max(shares), 1)}",
        f"{size:.2f} classes" if classes else f"width {number(size)}, RMSE {number(sum(found['rmse']) / len(shares))}",
    ]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--page", action="store_true", help="write the page from what is stored, and run nothing")
    parser.add_argument("--check", action="store_true", help="compare the page with what is stored, and run nothing")
    arguments = parser.parse_args(words)
    if not (arguments.page or arguments.check):
        _run(arguments.seeds)
    texts = {PAGE: with_block(PAGE.read_text("utf-8"), "own-data", block(json.loads(RESULTS.read_text("utf-8"))))}
    if not arguments.check:
        write_texts(texts)
    elif out_of_date(texts):
        raise SystemExit(f"{PAGE.name} is not what the results say; run python -m benchmarks.own_data --page")


def _run(seeds: int) -> None:
    """All tables anew; each is stored as soon as it is done."""
    results = {}
    with tempfile.TemporaryDirectory() as folder, progress_bar("runs", len(TABLES) * seeds) as advance:
        for name in TABLES:
            found = []
            table = written(name, Path(folder))
            for seed in range(seeds):
                found.append(judged(table, seed))
                advance()
            results[name] = summary(found)
            store_json(RESULTS, results)
    header = ["table", "divisions", "test rows", "held by 95 % intervals or sets"]
    rows = [[name, each["seeds"], each["test_rows"], percent(each["covered"], 1)] for name, each in results.items()]
    print(format_table(header, rows))


if __name__ == "__main__":
    main()
