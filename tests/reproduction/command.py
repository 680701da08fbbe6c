"""`python -m reproduction`, in this process."""

from __future__ import annotations

import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from unittest.mock import patch

import pytest

from reproduction.__main__ import main
from tests.recipes.small import Answer


def reproduction(*words: object) -> Answer:
    out, err = StringIO(), StringIO()
    with (
        patch.object(sys, "argv", ["reproduction", *map(str, words)]),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return Answer(int(ended.value.code or 0), out.getvalue(), err.getvalue())
