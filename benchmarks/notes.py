"""The measured parts of docs/estimators.md, docs/design.md, docs/serving.md and docs/playground.md from the stored
results.

    python -m benchmarks.notes           # write them
    python -m benchmarks.notes --check   # are they up to date?

The text around them is written by hand; figures in it can be read off the tables.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.performance.markdown import by_name, number
from benchmarks.serve_page import load_text, speed_text
from benchmarks.store import RESULTS, ROOT, stored
from pages.files import out_of_date, with_block, write_texts
from pages.markdown import markdown_table

COMMAND = "python -m benchmarks.notes"
DOCS = ROOT / "docs"

_GROUPS = {"scales": "all δ", "correlations": "all γ"}
_NETWORKS = {
    "mnist-lenet100": "LeNet-100",
    "mnist-lenet250": "LeNet-250",
    "mnist-lenet100-frequentist": "the plain LeNet-100",
    "cifar10": "CIFAR10_full",
}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder with the result files")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder with the pages")
    arguments = parser.parse_args(words)
    found = texts(arguments.results, arguments.docs)
    if not arguments.check:
        write_texts(found)
    elif stale := out_of_date(found):
        raise SystemExit(f"{stale[0].name} is not what the results say; run {COMMAND}")


def texts(results: Path, docs: Path) -> dict[Path, str]:
    """The pages with their measured parts put in."""
    names = ("estimators", "moments", "allocator-cpu", "ensemble-cpu")
    estimators, moments, allocator, ensemble = (json.loads((results / f"{name}.json").read_text()) for name in names)
    parts = {
        "estimators.md": {
            "variance": variance_table(estimators),
            "moments": moments_table(moments),
            "half": half_sentence(moments),
        },
        "design.md": {"allocator": allocator_sentence(allocator)},
        "serving.md": {"ensemble": ensemble_table(ensemble)},
        "playground.md": {
            "speed": speed_text(next(stored("serve", results), None)),
            "load": load_text(next(stored("serve_load", results), None)),
        },
    }
    found = {}
    for name, blocks in parts.items():
        text = (docs / name).read_text("utf-8")
        for block, content in blocks.items():
            text = with_block(text, block, content)
        found[docs / name] = text
    return found


def variance_table(measured: Mapping[str, Any]) -> str:
    """Gradient variances and times of the estimators, relative to one plain draw's."""
    groups = list(measured["subjects"][0]["rows"][0]["variance"])
    body = []
    for subject in measured["subjects"]:
        after = subject["subject"].partition(", ")[2].removeprefix("run of ")
        base = next(row for row in subject["rows"] if (row["estimator"], row["samples"]) == ("plain", 1))
        for row in subject["rows"]:
            ratios = [f"{row['variance'][group] / base['variance'][group]:.2f}" for group in groups]
            nll = f"{row['nll']:.4f} ± {row['nll_error']:.4f}"
            time = f"{row['milliseconds'] / base['milliseconds']:.2f}" if row["milliseconds"] else "-"
            body.append([after, row["estimator"], str(row["samples"]), nll, *ratios, time])
    titles = [_GROUPS.get(group, group) for group in groups]
    return markdown_table(["after", "estimator", "samples", "NLL", *titles, "time"], body)


def moments_table(measured: Mapping[str, Any]) -> str:
    """Moments and 200 samples beside 10,000 samples."""
    body = []
    for name, result in zip(_numbered(measured["results"]), measured["results"], strict=True):
        for way, errors in result["errors"].items():
            shares = [f"{100 * errors[key]:.1f} %" for key in ("label", "certain", "too_sure")]
            spread = [f"{100 * errors['std']:.1f} %", f"{errors['std_ratio']:.3f}"]
            seconds = number(result["seconds"][way]) if result["seconds"] else "-"
            body.append(
                [name, way, f"{errors['mean']:.5f}", f"{errors['largest_mean']:.3f}", *spread, *shares, seconds]
            )
    header = ["network", "way", "mean", "largest", "std", "std, ratio of sums", "same label"]
    return markdown_table([*header, 'same "quite certain"', "wrongly certain", "seconds"], body)


def half_sentence(measured: Mapping[str, Any]) -> str:
    """What half precision changes, over all networks."""
    halves = [result["half"] for result in measured["results"]]
    means = [half["mean"] for half in halves]
    largest, spread = max(half["largest_mean"] for half in halves), max(half["std"] for half in halves)
    same = [min(half[key] for half in halves) for key in ("label", "certain")]
    return (
        f"Class probabilities differ by {min(means):.6f} to {max(means):.6f} in the mean and by {largest:.4f} at most, "
        f"standard deviations by {100 * spread:.1f} % or less.\nFor every network "
        f"{100 * same[0]:.1f} % or more of the labels agree, and "
        f'{100 * same[1]:.1f} % or more of the answers to "quite certain?".\n'
    )


def allocator_sentence(measured: Mapping[str, Any]) -> str:
    """The time of a step with freed memory kept, relative to without; indented, for it is part of a list."""
    words = []
    for case in measured["figures"]["cases"]:
        lower, middle, upper = by_name(case["timings"])["kept"]["ratio"]
        words.append(f"{_NETWORKS[case['experiment']]} {middle:.2f} ({lower:.2f} to {upper:.2f})")
    return f"Kept, a step takes this share of the time, median and quartiles: {', '.join(words)}.\n"


def ensemble_table(stored: Mapping[str, Any]) -> str:
    """Ways to ask S networks about one example, beside one network that is asked about S."""
    body = []
    for network, figures in stored["figures"].items():
        for one in figures["timings"]:
            lower, middle, upper = map(number, one["ratio"])
            body.append([network, one["name"], number(1e3 * one["seconds"][1]), f"{middle} ({lower}–{upper})"])
    return markdown_table(["network", "asked", "milliseconds", "relative"], body)


def _numbered(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the networks; runs of the same experiment are counted."""
    names = [result["subject"].partition(",")[0] for result in results]
    total, seen = Counter(names), Counter[str]()
    titles = []
    for name in names:
        seen[name] += 1
        title = _NETWORKS.get(name, name)
        titles.append(f"{title}, run {seen[name]}" if total[name] > 1 else title)
    return titles


if __name__ == "__main__":
    main()
