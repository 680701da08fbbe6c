"""Writing a file whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from tribayes._errors import refusal


def write_whole(path: str | os.PathLike[str], text: str) -> Path:
    """Write `text` to `path`, making its folder; an error or a crash leaves what was there before.

    The text goes to a temporary file in the same folder, which then takes the name `path` in one step.
    """
    target = Path(path)
    if target.is_dir():
        raise refusal("path", str(target), "be a file, not a folder", "add a name, such as report.html")
    temporary = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, target)
    except OSError as error:
        raise OSError(
            f"`path` (={str(target)!r}) must be in a folder that can be written; "
            f"choose another or free it: {error.strerror or error}"
        ) from error
    finally:
        with suppress(OSError):  # there may be nothing to remove, nor a folder
            temporary.unlink()
    return target
