"""Do the 95 % intervals and sets of `tribayes fit table.csv` hold, with no option given?

    python -m benchmarks.own_data --seeds 10

Scikit-learn's tables, written to CSV; each seed is another division into rows that train, calibrate and judge. A single
division judges by 36 to 114 rows, so shares are over all of them. Writes benchmarks/results/own-data.json.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tribayes._files import store_json
from tribayes._progress import progress_bar
from tribayes._text import format_table, percent
from tribayes.own.fitting import OwnRequest, train_own
from tribayes.own.judging import judge

RESULTS = Path(__file__).parent / "results" / "own-data.json"
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
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
