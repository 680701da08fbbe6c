"""What the command `tribayes` starts: a Ctrl-C while torch is being imported ends it at once, and shows no traceback.

A module of its own, for importing anything of the package imports torch first.
"""

from __future__ import annotations

import signal


def main() -> None:
    """Import the command line, then run it."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the system's way: nothing has been begun that must be ended
    from tribayes.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()
