"""Files that would take all memory or all time: refused with little of either."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import resource
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from torch import nn

import tribayes as tb
from tests.data.samples import cifar_sample, idx_sample
from tests.faults.files import finished_run
from tests.faults.junk import JUNK, MEGA
from tests.faults.tally import Tally
from tribayes.data.reading import read
from tribayes.own.table_file import read_table
from tribayes.recipes.image_files import read_image
from tribayes.recipes.recipe_run import RecipeRun

SECONDS = 10.0  # of computing, to refuse
LOOK = 0.005  # seconds between looks at its memory
TIMES = 4  # the size of the file that memory may grow by, or
ALLOWANCE = 512 * MEGA  # this, which binds below 128 MB: for what is packed, for JSON, and for the libraries that read


def read_junk(count: int, rng: random.Random, folder: Path) -> Tally:
    """Each kind of junk in turn, of a random size up to 64 MB; in a child whose memory and time are measured."""
    tally = Tally()
    readers = dict(_readers(folder))
    kinds = [(reader, name) for reader, made in JUNK.items() for name in made]
    rng.shuffle(kinds)
    for number in range(count):
        reader, name = kinds[number % len(kinds)]
        path, reading = readers[reader]
        whole = path.read_bytes() if path.exists() else b""
        path.write_bytes(JUNK[reader][name](folder, rng.randrange(MEGA, (64 if count > len(kinds) else 8) * MEGA)))
        size = path.stat().st_size
        held, words = measured(reading, max(TIMES * size, ALLOWANCE))
        tally.note(held, f"{reader}, {name}, {size / MEGA:.1f} MB: {words}")
        path.write_bytes(whole)
    return tally


def _readers(folder: Path) -> Iterator[tuple[str, tuple[Path, Callable[[], object]]]]:
    """What reads each kind, and from where."""
    run, idx, cifar = finished_run(folder), idx_sample(), cifar_sample()
    model, table, parquet, image = (folder / name for name in ("m.safetensors", "t.csv", "t.parquet", "i.png"))
    yield "tensors", (model, lambda: tb.load(model, nn.Linear(2, 3)))
    yield "config", (run.path("config.json"), lambda: RecipeRun.open(run.folder))
    yield "records", (run.metrics, run.records)
    yield "csv", (table, lambda: read_table(table))
    yield "parquet", (parquet, lambda: read_table(parquet))
    yield "image", (image, lambda: read_image(image, "mnist"))
    idx.write(folder, ".gz")
    found = {member: folder / f"{member.name}.gz" for member in idx.dataset.members}
    packed, archive = found[idx.dataset.members[0]], folder / str(cifar.dataset.archive)
    yield "packed", (packed, lambda: read(idx.dataset, found, False))
    yield "archive", (archive, lambda: read(cifar.dataset, dict.fromkeys(cifar.dataset.members, archive), False))


def measured(reading: Callable[[], object], most: int) -> tuple[bool, str]:
    """Whether a child reads, or refuses in words, with so many bytes more and in time; and what came of it."""
    _give_back()
    into, out = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(into)
        _report(reading, out)
    os.close(out)
    words, watched = _watched(child, into)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != 0:
        return False, f"exit {code}{' (out of time)' * (code == -signal.SIGXCPU)} {words}"
    seconds, own, grown, outcome = words.split(" ", 3)
    most_grown = max(int(grown), watched - int(own))
    held = float(seconds) <= SECONDS and most_grown <= most and outcome.startswith("+")
    return held, f"{float(seconds):.1f} s, {most_grown / MEGA:.0f} MB, {outcome}"


def _give_back() -> None:
    """Before the fork: garbage that the child collected, or freed memory it used again, would hide what it grows by."""
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc's
        trim(0)


def _watched(child: int, into: int) -> tuple[str, int]:
    """What a child says, and the most memory of its own that it was seen to have.

    The kernel's own peak misses what grows while mapped files, such as torch's libraries, are put out of memory.
    """
    said, most = b"", 0
    with os.fdopen(into, "rb", buffering=0) as file:
        while True:
            most = max(most, _status("RssAnon", child))
            if select.select([file], [], [], LOOK)[0]:
                if not (more := file.read(4096)):
                    return said.decode(errors="replace"), most
                said += more


def _report(reading: Callable[[], object], out: int) -> None:
    """In the child: read, and write seconds of computing, memory before, what it grew by at most, and what was said."""
    used = sum(os.times()[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + 3 * SECONDS), resource.RLIM_INFINITY))
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    own, before = _status("RssAnon"), _status("VmHWM")
    try:
        reading()
        outcome = "+ read"
    except (ValueError, OSError) as error:
        outcome = f"+ {error}"
    except BaseException as error:
        outcome = f"- {type(error).__name__}: {error}"
    words = f"{sum(os.times()[:2]) - used} {own} {_status('VmHWM') - before} {outcome[:200]}"
    os.write(out, words.encode(errors="replace"))
    os._exit(0)


def _status(name: str, process: int | str = "self") -> int:
    """Bytes; none of a process that is ending."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return 1024 * next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)
