"""docs/reliability.md from the stored counts.

python -m tests.faults.page           # write it
python -m tests.faults.page --check   # is it up to date?
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pages.files import out_of_date, write_texts
from pages.markdown import markdown_table
from tests.faults import guided
from tests.faults.__main__ import COUNTS
from tests.statistics.section import section

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"

_HEAD = """# Reliability

What is promised when things go wrong, how it is tested, and what is not promised. `make faults` makes everything
below go wrong again and counts; this page is written from the stored counts by `python -m tests.faults.page`. Single
trials: `python -m tests.faults --only kills calls --scale 0.1`.

## What was tried

"""

_TAIL = """
A try counts as held where the promise was kept to the bit, or where the answer was an error in the library's own
words. A run of the suite that breaks any promise ends with an exit code of 1 and names the first five cases of each.

## How

- Kills are SIGKILLs: after random times, several in one run, and just before each operation on a file; once all have
  been met, before a second one while the run goes on. The run is then finished and compared, bit by bit, with one that
  nothing disturbed. A full disk is a limit on the size of files; in a folder that is read-only every change of a file
  fails as there.
- Damage is random: bits turned, bytes cut out and put in, ends missing; of JSON also values of other types, missing
  keys and changed numbers. A file is either refused, or what was read is what was written. Tables and images carry no
  checksum: of these something may be read, but no traceback and no warning comes out.
- Junk is large, or small and large once it is unpacked: headers that lie, JSON that is nested or endless, lines, cells
  and columns without end, archives and pictures that unpack to gigabytes. It is read in a process of its own, whose
  largest memory and time of computing are measured: no more than the larger of four times the file and 512 MB, and at
  most 10 seconds. Junk of up to 64 MB is tried, so it is the 512 MB that bind; JSON grows up to eightfold.
- Interrupts come at every bytecode of the package that a question, or a step, goes through, by `sys.settrace`.
- Calls are of every public function, class and method, by its signature: one or two odd arguments (NaN, infinity, wrong
  shapes and types, numbers beyond any range), chosen by what is annotated, beside legal ones. What is left out, and
  why, is listed by name in `tests/faults/legal.py`; a name that is neither fails a test. The classes of
  `tribayes.integrations` are called by other libraries alone: tests/integrations.
- Tests open no connection: `tests/conftest.py` refuses sockets other than those of the machine itself.
{guided}
A sample of most trials runs with the tests (`tests/test_faults.py`).

## What is not promised

- Two machines, or two versions of torch, to the same bits. A resumed run says what has changed.
- That an interrupt inside torch's own C++ code, or inside the optimizer's update, undoes what that step had begun.
  The parameters stay parameters, and a run has its checkpoint.
- Protection from someone who rewrites files together with their checksums. Checksums find accidents; see
  SECURITY.md in the repository.
- That numbers changed by hand in evaluation.json are noticed, if they are possible ones; evaluate again where there
  is doubt.
- More memory than there is: an image has at most 25 million pixels and an archive a bound, but a batch is as large as
  you ask for.
- That NaN in what a network answers is refused by a likelihood that is called by itself: it answers NaN. A training
  step and a prediction refuse it.
- Our words for what a network of yours is asked wrongly: a wrong number of columns is torch's error, and what
  scikit-learn checks of `X` and `y` is said in its words.
"""


def document(stored: Mapping[str, Any]) -> str:
    """The whole page."""
    rows = []
    for name, trial in stored["trials"].items():
        held = f"{trial['held']:,}" if trial["held"] == trial["tried"] else f"**{trial['held']:,}**"
        rows.append([name, trial["promise"], f"{trial['tried']:,}", held])
    origin = f"Python {stored['python']}, torch {stored['torch']}, {stored['platform']}, on a CPU"
    seeds = sorted({trial.get("seed", 0) for trial in stored["trials"].values()})
    share = f"seed {', '.join(map(str, seeds))}, {stored['date']}"
    broken = [f"- {name}: {words}" for name, trial in stored["trials"].items() for words in trial["broken"]]
    found = "\n".join(["", "Not held:", "", *broken, ""]) if broken else ""
    table = markdown_table(["trial", "promise", "tried", "held"], rows)
    tail = _TAIL.replace("{guided}", guided.section())
    return f"{_HEAD}{table}{found}\n{origin}; {share}.\n{tail}{section()}"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--counts", type=Path, default=COUNTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args(words)
    texts = {given.page: document(json.loads(given.counts.read_text()))}
    if not given.check:
        write_texts(texts)
    elif stale := out_of_date(texts):
        raise SystemExit(f"{stale[0].name} is not what the counts say; run python -m tests.faults.page")


if __name__ == "__main__":
    main()
