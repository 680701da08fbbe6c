"""Readers under coverage-guided fuzzing, by atheris (`pip install atheris`), which is no dependency of the tests.

    python -m tests.faults.guided --seconds 60    # every target so long; writes guided.json
    python -m tests.faults.guided --only csv

Each target is a process of its own: the fuzzer follows which lines of the package an input reaches, and changes those
that reach new ones. An error other than a refusal (`ValueError`, `OSError`) ends it, and the input is printed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

COUNTS = Path(__file__).with_name("guided.json")

Reader = Callable[[bytes], object]


def csv_table(folder: Path) -> tuple[Reader, list[bytes]]:
    """A table of one's own."""
    from tests.own.cases import rows_of, write_csv
    from tribayes.own.table_file import read_table

    path = folder / "t.csv"
    whole = write_csv(path, rows_of(8)).read_bytes()
    return lambda data: (path.write_bytes(data), read_table(path)), [whole, whole.replace(b",", b";")]


def archive(folder: Path) -> tuple[Reader, list[bytes]]:
    """A data set's archive: gzip around tar."""
    from tests.data.samples import cifar_sample, tar_bytes
    from tribayes.data.reading import read

    sample = cifar_sample()
    path = folder / str(sample.dataset.archive)
    found = dict.fromkeys(sample.dataset.members, path)
    return lambda data: (path.write_bytes(data), read(sample.dataset, found, False)), [tar_bytes(sample.contents)]


def records(folder: Path) -> tuple[Reader, list[bytes]]:
    """metrics.jsonl, whose lines have checksums."""
    from tests.faults.files import finished_run
    from tribayes.runs.records import read_records

    path = finished_run(folder).path("metrics.jsonl")
    whole = path.read_bytes()
    return lambda data: (path.write_bytes(data), read_records(path)), [whole]


def schema(folder: Path) -> tuple[Reader, list[bytes]]:
    """The columns of a run, as if its checksum were right."""
    from tests.own.cases import rows_of, write_csv
    from tribayes.own.prepared import prepare_table
    from tribayes.own.schema import Schema

    _, form = prepare_table(write_csv(folder / "t.csv", rows_of(60)), "price", (), None, 0)
    assert isinstance(form.inputs, Schema)
    return lambda data: Schema.from_list(json.loads(data)), [json.dumps(form.inputs.as_list()).encode()]


def model_facts(folder: Path) -> tuple[Reader, list[bytes]]:
    """What a file of tb.save says of itself, signed again, as by someone who knows the format."""
    from torch import nn

    import tribayes as tb
    from tribayes._tensor_files import read_tensors, write_tensors

    path, net = folder / "m.safetensors", nn.Linear(3, 2)
    tb.save(tb.to_bayesian(net), path, likelihood=tb.Categorical())
    tensors, facts = read_tensors(path, "")

    def reading(data: bytes) -> object:
        changed = json.loads(data)
        if not isinstance(changed, dict):
            return None
        write_tensors(path, tensors, changed)
        return tb.load(path, net)

    return reading, [json.dumps(facts).encode()]


TARGETS = {"csv": csv_table, "archive": archive, "records": records, "schema": schema, "model facts": model_facts}


def fuzz(name: str, flags: Sequence[str]) -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["tribayes"]):
        importlib.import_module("tribayes")
        folder = Path(tempfile.mkdtemp())
        read, wholes = TARGETS[name](folder)
    seeds = Path(tempfile.mkdtemp())
    for number, whole in enumerate(wholes):
        (seeds / str(number)).write_bytes(whole)

    def one(data: bytes) -> None:
        with suppress(ValueError, OSError):  # refused; json.JSONDecodeError is a ValueError
            read(data)

    atheris.Setup([sys.argv[0], *flags, f"-artifact_prefix={seeds}/", str(seeds)], one)
    atheris.Fuzz()


def section() -> str:
    """Of the page about reliability."""
    stored = json.loads(COUNTS.read_text())
    said = ", ".join(f"{each['tried']:,} ({name})" for name, each in stored["targets"].items())
    bad = [name for name, each in stored["targets"].items() if not each["held"]]
    found = f"; not held: {', '.join(bad)}" if bad else "; none met another error than a refusal"
    words = f"- Readers were also fuzzed with atheris {stored['atheris']}, which follows what lines an input reaches"
    return f"{words}\n  (`python -m tests.faults.guided`). Inputs: {said}{found}.\n"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--only", nargs="*", choices=list(TARGETS), default=list(TARGETS), metavar="TARGET")
    parser.add_argument("--inside", choices=list(TARGETS), help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    flags = [f"-max_total_time={given.seconds}", "-print_final_stats=1", "-timeout=10", "-rss_limit_mb=4096", "-seed=1"]
    if given.inside:
        fuzz(given.inside, flags)
    found: dict[str, Any] = json.loads(COUNTS.read_text())["targets"] if COUNTS.exists() else {}
    broken = False
    for name in given.only:
        command = [sys.executable, "-m", "tests.faults.guided", "--inside", name, "--seconds", str(given.seconds)]
        ended = subprocess.run(command, capture_output=True, text=True)
        count = re.search(r"number_of_executed_units: *(\d+)", ended.stderr)
        tried = int(count[1]) if count else 0
        found[name] = {"tried": tried, "held": ended.returncode == 0 and tried > 0}
        broken = broken or not found[name]["held"]
        print(f"{name}: {tried:,} inputs, {'held' if found[name]['held'] else 'NOT HELD'}", flush=True)
        if ended.returncode:
            print(ended.stdout[-3000:])  # the error, as Python tells it
    known = {name: found[name] for name in TARGETS if name in found}
    COUNTS.write_text(json.dumps({"atheris": version("atheris"), "targets": known}, indent=1) + "\n")
    sys.exit(broken)


if __name__ == "__main__":
    main()
