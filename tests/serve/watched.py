"""The command `tribayes` in a process that writes down every address it connects to or looks up.

python -m tests.serve.watched FILE serve ...
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def main() -> None:
    record = Path(sys.argv.pop(1))

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.getaddrinfo"):
            with record.open("a") as file:
                file.write(f"{event} {arguments[1] if event == 'socket.connect' else arguments[0]}\n")

    sys.addaudithook(watch)
    from tribayes.cli import main as run

    run()


if __name__ == "__main__":
    main()
