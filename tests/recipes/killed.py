"""The command line in a process of its own that kills itself:

    python -m tests.recipes.killed WHERE COUNT fit …

ends by SIGKILL just before the COUNT-th call of WHERE. "slow 50" kills nothing, but takes 50 ms more for every step.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from tribayes.cli import main
from tribayes.runs.trainer import Trainer

PLACES: dict[str, tuple[Any, str]] = {"step": (Trainer, "step"), "slow": (Trainer, "step"), "rename": (os, "replace")}


def disturb(where: str, count: int) -> None:
    owner, name = PLACES[where]
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def disturbed(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if where == "slow":
            time.sleep(count / 1000)
        elif calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)

    setattr(owner, name, disturbed)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have ignored it
    disturb(sys.argv[1], int(sys.argv[2]))
    sys.argv = ["tribayes", *sys.argv[3:]]
    main()
