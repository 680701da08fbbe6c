"""`torchrun -m tribayes fit`: two processes of the command line train what one does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.distributed.processes import needs_gloo
from tests.libraries import library
from tests.own.cases import fit, rows_of, write_csv
from tests.patience import PATIENCE
from tests.recipes.small import tribayes
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


DIES = """
import os
import sys
from tests.recipes.killed import disturb
from tribayes.cli import main

if os.environ["RANK"] == "1":
    disturb("step", 30)
sys.argv = ["tribayes", *sys.argv[1:]]
main()
"""


def test_who_is_left_by_a_process_that_dies_says_so(tmp_path: Path) -> None:
    """Before torchrun ends it, too, which is a tenth of a second later."""
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    (tmp_path / "dies.py").write_text(DIES)
    words = ["fit", "digits", "--iterations", "2000", "--run", str(tmp_path / "run"), "--device", "cpu"]
    done = _torchrun("--", str(tmp_path / "dies.py"), *words, "--checkpoint-seconds", "0")
    assert done.returncode != 0
    assert "error: process 0 of 2 waited in vain for another one" in done.stderr
    assert f"the run in {tmp_path / 'run'} is cut short: the same program continues" in done.stderr
    assert RecipeRun.open(tmp_path / "run").checkpoint.is_file()


def test_two_processes_of_torchrun_answer_as_one_does(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="tables are read with pandas")
    table, run = write_csv(tmp_path / "people.csv", rows_of(80)), tmp_path / "run"
    assert fit(table, run, "--target", "price").code == 0
    for command in (["predict", run, table], ["evaluate", run]):
        assert tribayes(*command, "--samples", 5, "--threads", 1).code == 0
    kept = {path: path.read_bytes() for path in (run / "predictions" / "people.csv", run / "evaluation.json")}
    for command in (["predict", run, table], ["evaluate", run]):
        for path in kept:
            path.unlink(missing_ok=True)
        done = _torchrun("-m", "--", "tribayes", *map(str, command), "--samples", "5", "--threads", "1")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(str(run)) == 1  # the first process speaks for both
        (written,) = [path for path in kept if path.exists()]
        assert _timeless(written.read_bytes()) == _timeless(kept[written])


TRAINS = """
import os
from tests.libraries import library
transformers = library("transformers")

import torch
import tribayes as tb
from tribayes.integrations.transformers import TriBayesTrainer

torch.manual_seed(0)
rows = [{"input": x, "labels": 3 * x} for x in torch.randn(16, 2)]
elbo = tb.ELBO(tb.Gaussian(0.5 + float(os.environ["RANK"]), learned=True), data_size=16)  # the first one's counts
folder = os.path.dirname(__file__)
quiet = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no"}
args = transformers.TrainingArguments(folder, max_steps=3, per_device_train_batch_size=4, learning_rate=0.1, **quiet)
trainer = TriBayesTrainer(tb.to_bayesian(torch.nn.Linear(2, 2)), args, elbo=elbo, train_dataset=rows)
trainer.train()
os.write(1, f"noise {elbo.likelihood.noise.item()!r}\\n".encode())
os._exit(0)  # gloo's threads may abort an interpreter on its way out (pytorch/pytorch#179291)
"""


def test_the_trainer_of_transformers_learns_one_noise_in_two_processes(tmp_path: Path) -> None:
    for needed in ("transformers", "accelerate"):
        library(needed)
    (tmp_path / "trains.py").write_text(TRAINS)
    done = _torchrun(str(tmp_path / "trains.py"))
    assert done.returncode == 0, done.stderr
    one, other = (float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("noise"))
    assert one == other
    assert 0 < abs(one - 0.5) < 0.2


def _timeless(content: bytes) -> bytes:
    return re.sub(rb'"time": "[^"]*"', b"", content)


def _torchrun(*words: str) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    here = str(Path(__file__).parents[2])  # for what imports the tests
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    return subprocess.run([*launcher, *words], env=environment, capture_output=True, text=True, timeout=PATIENCE)
