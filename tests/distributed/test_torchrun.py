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


LEAVES = """
import os
import torch
import tribayes as tb
from torch.nn.parallel import DistributedDataParallel

def train(group):
    net = tb.to_bayesian(torch.nn.Linear(3, 3))
    elbo = tb.ELBO(tb.Categorical(), data_size=8)
    optimizer = torch.optim.SGD(tb.parameter_groups(net, lr=0.1))
    step = tb.TrainingStep(DistributedDataParallel(net), elbo, optimizer, generator=0)
    step(torch.randn(4, 3), torch.randint(3, (4,)))

with tb.distributed.joined_by_torchrun(on_gpu=False) as group:
    train(group)
names = [open(f"/proc/self/task/{thread}/comm").read().strip() for thread in os.listdir("/proc/self/task")]
assert not [name for name in names if "gloo" in name], names
os.write(1, f"process {group.rank} left\\n".encode())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted in /proc")
def test_a_process_that_leaves_its_group_keeps_no_thread_of_it(tmp_path: Path) -> None:
    """A thread that lives on meets the end of the interpreter, which then may abort (1 in 5 times it did)."""
    (tmp_path / "leaves.py").write_text(LEAVES)
    done = _torchrun(str(tmp_path / "leaves.py"))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["process 0 left", "process 1 left"]


def test_two_processes_of_torchrun_train_what_one_does(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    words = ["fit", "digits", "--iterations", str(ITERATIONS), "--run", str(tmp_path / "two"), "--device", "cpu"]
    done = _torchrun("-m", "--", "tribayes", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Done: ") == 1  # the first process speaks for both
    train_as_asked(
        Request("digits", tmp_path / "one", None, {"iterations": ITERATIONS}, "cpu", 1, None), False, 60, False
    )
    (one, _), (two, _) = (read_tensors(RecipeRun.open(tmp_path / name).final, "") for name in ("one", "two"))
    torch.testing.assert_close(two, one, rtol=1e-4, atol=1e-6)


def _torchrun(*words: str) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run([*launcher, *words], env=environment, capture_output=True, text=True, timeout=120)
