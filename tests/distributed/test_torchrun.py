"""`torchrun -m tribayes fit`: two processes of the command line train what one does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.distributed.processes import needs_gloo
from tribayes.recipes.recipe_run import RecipeRun, Request, train_as_asked
from tribayes.runs.folder import read_tensors

pytestmark = needs_gloo

ITERATIONS = 20


def test_two_processes_of_torchrun_train_what_one_does(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    words = ["fit", "digits", "--iterations", str(ITERATIONS), "--run", str(tmp_path / "two"), "--device", "cpu"]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--"]
    done = subprocess.run(
        [*launcher, "tribayes", *words],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Done: ") == 1  # the first process speaks for both
    train_as_asked(
        Request("digits", tmp_path / "one", None, {"iterations": ITERATIONS}, "cpu", 1, None), False, 60, False
    )
    (one, _), (two, _) = (read_tensors(RecipeRun.open(tmp_path / name).final, "") for name in ("one", "two"))
    torch.testing.assert_close(two, one, rtol=1e-4, atol=1e-6)
