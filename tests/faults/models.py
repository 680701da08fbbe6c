"""Models that are asked by many, interrupted anywhere, or asked for ever: as they were, and as quick to forget."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, product
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

import tribayes as tb
from tests.faults.processes import ended, in_a_child
from tests.faults.tally import PACKAGE, Tally
from tribayes.posterior import Stream

THREADS = 4
EACH = 1000  # predictions and steps between two looks at memory
SLACK = 16 * 2**20  # bytes by which memory may grow without being a leak: allocators round up


def network() -> tb.BayesianModule:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    return tb.to_bayesian(net, tau=0.3)


def inputs(count: int = 6) -> Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(1))


def ask(model: nn.Module, seed: int = 0) -> Tensor:
    return tb.predict(model, inputs(), 3, seed=seed, progress=False).samples


def state(model: nn.Module) -> list[Any]:
    """Everything a question must leave alone."""
    tensors = [value.clone() for value in model.state_dict().values()]
    kinds = [(id(each), type(each), each.requires_grad) for each in model.parameters()]
    modes = [module.training for module in model.modules()]
    return [tensors, kinds, modes, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_rng_state()]


def unchanged(one: list[Any], other: list[Any]) -> bool:
    same = all(torch.equal(a, b) for a, b in zip(one[0], other[0], strict=True))
    return same and one[1:-1] == other[1:-1] and torch.equal(one[-1], other[-1])


def name_streams(count: int, rng: random.Random, folder: Path) -> Tally:
    """Streams of random numbers, named by seed, sample and module: no two begin with the same 63 bits."""
    del rng, folder
    names = islice(product(range(100), range(1000), range(10)), count)
    found = {Stream((seed,)).child(sample, module).number for seed, sample, module in names}
    return Tally(count, len(found), [] if len(found) == count else [f"{count - len(found)} streams are another's"])


def ask_in_threads(count: int, rng: random.Random, folder: Path) -> Tally:
    """Several threads ask one model, in every way there is, while another draws from torch's generator or calls it."""
    del folder
    tally, model = Tally(), network().eval()
    kept, x = tb.Ensemble(model, 3), inputs()
    ways: list[Callable[[int], Tensor]] = [
        lambda seed: ask(model, seed),
        lambda seed: model.apply_weights(model.sample_weights(generator=seed), x),
        lambda seed: _using(model, seed),
        lambda _: kept.predict(x).samples,
    ]
    asked = [(way, seed) for way in range(len(ways)) for seed in range(8)]
    before = state(model)
    alone = {(way, seed): ways[way](seed) for way, seed in asked}
    with ThreadPoolExecutor(THREADS + 1) as pool:
        for number in range(count):
            chosen = rng.sample(asked, THREADS)
            torch.manual_seed(number)
            beside = pool.submit(_noise, None) if number % 2 else pool.submit(model, x)
            answers = list(pool.map(lambda each: ways[each[0]](each[1]), chosen))
            right = all(torch.equal(answer, alone[each]) for answer, each in zip(answers, chosen, strict=True))
            if number % 2:  # whose noise nobody else took, and it took nobody's
                right &= torch.equal(beside.result(), _noise(torch.Generator().manual_seed(number)))
            right &= bool(beside.result().isfinite().all())
            torch.set_rng_state(before[-1])
            tally.note(right and unchanged(state(model), before), f"ways and seeds {chosen}")
    return tally


def _using(model: tb.BayesianModule, seed: int) -> Tensor:
    with model.using(model.sample_weights(generator=seed)):
        return model(inputs())


def _noise(generator: torch.Generator | None) -> Tensor:
    """A hundred normals, one at a time."""
    return torch.cat([torch.randn(1, generator=generator) for _ in range(100)])


def ask_after_a_fork(count: int, rng: random.Random, folder: Path) -> Tally:
    """A child that was forked gives its parent's answers."""
    del folder
    tally, model = Tally(), network()

    def compare(seed: int, expected: Tensor) -> None:
        if not torch.equal(ask(model, seed), expected):
            raise ValueError("another answer")

    for _ in range(count):
        seed = rng.randrange(2**70)
        expected = ask(model, seed)
        tally.note(ended(in_a_child(lambda s=seed, e=expected: compare(s, e))) == 0, f"seed {seed}")
    return tally


def interrupted(at: int, run: Callable[[], object]) -> tuple[int, bool]:
    """Run, with an interrupt at the bytecode of this number among those of tribayes.

    Returns:
        How many were passed, and whether the interrupt came out.
    """
    passed = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal passed
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            passed += 1
            if passed == at:
                raise KeyboardInterrupt
        return trace

    gc.disable()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt:
        return passed, True
    finally:
        sys.settrace(before)
        gc.enable()
    return passed, False


def interrupt_questions(count: int, rng: random.Random, folder: Path) -> Tally:
    """An interrupt at any bytecode of `predict`: the model, its mode and torch's state are as they were."""
    del folder
    tally, model = Tally(), network().train()
    before = state(model)  # before any question: the first may already change something
    expected = ask(model)
    length, _ = interrupted(0, lambda: ask(model))
    for at in rng.sample(range(1, length + 1), min(count, length)):
        _, raised = interrupted(at, lambda: ask(model))
        tally.note(raised and unchanged(state(model), before), f"bytecode {at} of {length}")
    tally.note(torch.equal(ask(model), expected), "the answer afterwards")
    return tally


def interrupt_steps(count: int, rng: random.Random, folder: Path) -> Tally:
    """An interrupt at any bytecode of a training step: parameters stay parameters, finite, and training goes on."""
    del folder
    tally = Tally()

    def begun() -> tuple[tb.BayesianModule, Callable[[], object]]:
        model = network().train()
        optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.01), momentum=0.9)
        step = tb.TrainingStep(model, tb.ELBO(tb.Categorical(), data_size=6), optimizer, generator=0)
        return model, lambda: step(inputs(), torch.arange(6) % 3)

    model, step = begun()
    step()
    length, _ = interrupted(0, step)
    for at in rng.sample(range(1, length + 1), min(count, length)):
        model, step = begun()
        before = state(model)
        _, raised = interrupted(at, step)
        after = state(model)
        whole = raised and after[1:5] == before[1:5] and all(value.isfinite().all() for value in model.parameters())
        loss = float(step().loss)
        tally.note(whole and loss == loss, f"bytecode {at} of {length}")
    return tally


def ask_for_ever(count: int, rng: random.Random, folder: Path) -> Tally:
    """Resident memory over many predictions and steps of a small network, looked at every thousand of both."""
    del folder, rng
    torch.manual_seed(0)
    tally, model, x = Tally(), tb.to_bayesian(nn.Linear(4, 3)), inputs()
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=1e-4))
    step = tb.TrainingStep(model, tb.ELBO(tb.Categorical(), data_size=6), optimizer)
    first = None
    for number in range(count):
        for seed in range(EACH):
            tb.predict(model, x, 2, seed=seed, progress=False)
            step(x, torch.arange(6) % 3)
        held = _resident()
        first = held if first is None else first
        tally.note(held - first < SLACK, f"{(held - first) / 2**20:.1f} MiB more after {EACH * (number + 1):,} of both")
    return tally


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
