"""Starts of a run that are killed, each at another of its file operations:

    python -m tests.runs.killed_starts FOLDER

makes FOLDER/1, FOLDER/2, … as far as there are operations; the last one was not killed. Before every operation on a
file (to open one, to rename, to make a folder, to remove) Python raises an audit event, and there the process ends.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tribayes.runs import Run

OPERATIONS = ("open", "os.mkdir", "os.rename", "os.remove")


def start(folder: Path, kill_at: int) -> None:
    """Begin a run; SIGKILL just before its `kill_at`-th operation in the folder."""
    seen = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event in OPERATIONS and str(arguments[0]).startswith(str(folder)):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    Run.create(folder, {"width": 16}, 0, "cpu")
    os._exit(0)


def main(root: Path) -> None:
    for number in range(1, 100):
        child = os.fork()
        if child == 0:
            start(root / str(number), number)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            return
    raise SystemExit("a start with a hundred file operations?")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
