"""A finished run judged by its test images, and set beside others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tribayes._text import format_table
from tribayes.experiments.evaluation import evaluate
from tribayes.experiments.examples import load_examples
from tribayes.experiments.run import Run

_LEVEL = "0.95"  # of the counts in a comparison


def evaluate_run(run: Run, data_dir: Path | None, device: torch.device, samples: int, progress: bool) -> dict[str, Any]:
    """Judge a run by its test images, and keep the figures in its folder."""
    model = run.load_model(device)
    _, test = load_examples(run.setting, data_dir, device)
    result = evaluate(model, run.setting, test, run.seed, samples, progress)
    run.save_evaluation(result, device)
    return result


def summary(result: dict[str, Any]) -> str:
    """The figures of one run, as text."""
    wrong = round(result["error"] * result["examples_tested"])
    auroc = result["auroc_errors"]
    scores: list[list[object]] = [
        ["test error", f"{100 * result['error']:.2f} % ({wrong:,} of {result['examples_tested']:,})"],
        ["negative log likelihood", f"{result['nll']:.4f} nats"],
        ["Brier score", f"{result['brier']:.4f}"],
        ["expected calibration error", f"{100 * result['ece']:.2f} %"],
        ["AUROC of errors by entropy", "-" if auroc is None else f"{auroc:.4f}"],
    ]
    table = format_table(["quantity", "value"], scores)
    if "certain" not in result:
        return table
    rows: list[list[object]] = [
        [f"{100 * float(level):g} %", kind, counts[f"{kind}_certain"], counts[f"{kind}_uncertain"]]
        for level, counts in result["certain"].items()
        for kind in ("correct", "wrong")
    ]
    return table + "\n\n" + format_table(["level", "prediction", "quite certain", "uncertain"], rows)


def comparison(runs: Sequence[Run]) -> str:
    """The figures of several runs as a table."""
    header = ["run", "experiment", "seed", "error", "NLL", "Brier", "ECE"]
    counts = ["right certain", "right unsure", "wrong certain", "wrong unsure"]
    return format_table([*header, *counts], [_row(run) for run in runs])


def _row(run: Run) -> list[object]:
    found = run.evaluation()
    counts = found.get("certain", {}).get(_LEVEL, {})
    percentages = [f"{100 * found['error']:.2f} %", found["nll"], found["brier"], f"{100 * found['ece']:.2f} %"]
    kinds = ("correct_certain", "correct_uncertain", "wrong_certain", "wrong_uncertain")
    return [str(run.folder), found["name"], found["seed"], *percentages, *(counts.get(kind) for kind in kinds)]
