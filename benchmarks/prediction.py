"""What predicting costs: many draws of LeNet-100 for 10,000 images, beside as many passes of the plain network.

    python -m benchmarks.prediction [--device cpu|cuda] [--draws N] [--images N] [--quick]

Ways of ours: `tribayes.predict`, which also keeps every probability and brings it to the host; a loop of draws and
passes; and stacks of draws through one pass by vmap. Predicting also comes compiled, as does the plain network, and on
a GPU in bfloat16; a compiled network is then recorded by `predict` itself. Compiling is not in the time, and --quick
leaves it out. Each pass sees a batch of images large enough to be more than its launches, so nothing else is recorded.
200 draws are the default; on a CPU, where time goes with their number, 10.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import tribayes as tb
from benchmarks import command
from benchmarks.contenders import contenders
from benchmarks.learners import DETERMINISTIC, OURS, Learner
from benchmarks.networks import TASKS, Task
from benchmarks.racing import Absence, plain_candidate, race
from tribayes._text import format_table

NETWORK = "lenet-100"
DRAWS = {"cuda": 200, "cpu": 10}
BATCH = {"cuda": 10_000, "cpu": 1_000}  # images per pass
STACK = {"cuda": (8, 5_000), "cpu": (2, 500)}  # draws and images per stacked pass: its hidden layers need memory
PREDICT, LOOP, STACKED = "ours, tribayes.predict", "ours, loop", "ours, stacked"
COMPILED, HALF = "compiled", "bfloat16"
REDUCED = "keep_samples=False"  # means, entropies and intervals alone come to the host
SECONDS = 20.0


def main(words: Sequence[str] | None = None) -> None:
    parser = command.parser(__doc__)
    parser.add_argument("--draws", type=int, default=None)
    parser.add_argument("--images", type=int, default=10_000)
    arguments = command.parsed(parser, words)
    figures = _measured(arguments, TASKS[NETWORK])
    print(_table(figures))
    command.keep("prediction", figures, arguments)


@torch.no_grad()
def _measured(arguments: argparse.Namespace, task: Task) -> dict[str, Any]:
    device = arguments.device
    draws = 2 if arguments.quick else arguments.draws or DRAWS[device.type]
    images, _ = task.examples(device, 8 if arguments.quick else arguments.images)
    runs: dict[str, Callable[[], object]] = {}
    absent, notes = [], {}
    for name, one in _field(task, arguments):
        if isinstance(one, Absence):
            absent.append(asdict(one))
            continue
        one.model.eval()
        runs |= _ways(one, images, draws) if name == OURS else {name: partial(_loop, one.outputs, images, draws)}
        if not arguments.quick:
            compiled = {DETERMINISTIC: _compiled_plain, OURS: _compiled_ways}
            runs |= compiled[name](one, images, draws) if name in compiled else {}
        notes |= {name: one.note} if one.note else {}
    field = [plain_candidate(name, run) for name, run in runs.items()]
    timings = race(field, device, SECONDS / (100 if arguments.quick else 1), base=DETERMINISTIC)
    return {
        "network": task.title,
        "draws": draws,
        "images": len(images),
        **_work(task, device),
        "timings": [asdict(one) for one in timings],
        "notes": notes,
        "absent": absent,
    }


def _field(task: Task, arguments: argparse.Namespace) -> Iterator[tuple[str, Learner | Absence]]:
    with torch.enable_grad():  # correctness is checked with gradients
        yield from contenders(task, arguments.device, arguments.peers)


def _ways(ours: Learner, images: Tensor, draws: int) -> dict[str, Callable[[], object]]:
    """Ours, after the stacked has been compared with the loop."""
    model = ours.model
    _check_stack(model, images[:16])
    predict = _predict_of(images, draws)
    ways: dict[str, Callable[[], object]] = {PREDICT: partial(predict, model)}
    ways[LOOP] = partial(_loop_of_ours, model, images, draws)
    ways[STACKED] = partial(_stacked, model, images, draws)
    return ways


def _compiled_ways(ours: Learner, images: Tensor, draws: int) -> dict[str, Callable[[], object]]:
    """Ours compiled, after it has been compared with the loop; what else a GPU can do goes with that."""
    compiled = torch.compile(ours.model, dynamic=False)
    _check_compiled(compiled, ours.model, images[:16])
    predict = partial(_predict_of(images, draws), compiled)
    ways: dict[str, Callable[[], object]] = {_words(COMPILED): predict}
    if images.is_cuda:
        half = partial(predict, precision=torch.bfloat16)
        ways |= {_words(COMPILED, HALF): half, _words(COMPILED, HALF, REDUCED): partial(half, keep_samples=False)}
    return ways


def _predict_of(images: Tensor, draws: int) -> Callable[..., object]:
    batch = BATCH[images.device.type]
    return partial(tb.predict, inputs=images, samples=draws, progress=False, batch_size=batch)


def _words(*options: str) -> str:
    return ", ".join([PREDICT, *options])


def _compiled_plain(plain: Learner, images: Tensor, draws: int) -> dict[str, Callable[[], object]]:
    """The plain network compiled, too: compiling is not ours alone."""
    outputs = torch.compile(plain.model, dynamic=False)

    def half() -> list[Tensor]:
        with torch.autocast(images.device.type, torch.bfloat16):
            return _loop(outputs, images, draws)

    ways: dict[str, Callable[[], object]] = {COMPILED: partial(_loop, outputs, images, draws)}
    ways |= {f"{COMPILED}, {HALF}": half} if images.is_cuda else {}
    return {f"{DETERMINISTIC}, {words}": run for words, run in ways.items()}


def _loop(outputs: Callable[[Tensor], Tensor], images: Tensor, draws: int) -> list[Tensor]:
    """A pass for every draw and batch; a peer draws anew in each, which is what it does."""
    batches = images.split(BATCH[images.device.type])
    return [torch.cat([outputs(batch).softmax(-1) for batch in batches]) for _ in range(draws)]


def _loop_of_ours(model: tb.BayesianModule, images: Tensor, draws: int) -> list[Tensor]:
    batches = images.split(BATCH[images.device.type])
    answers = []
    for _ in range(draws):
        weights = model.sample_weights()
        answers.append(torch.cat([model.apply_weights(weights, batch).softmax(-1) for batch in batches]))
    return answers


def _stacked(model: tb.BayesianModule, images: Tensor, draws: int) -> list[Tensor]:
    height, width = STACK[images.device.type]
    passes = torch.func.vmap(model.apply_weights, in_dims=(0, None))
    answers = []
    for first in range(0, draws, height):
        stack = model.sample_weights(min(height, draws - first))
        answers.append(torch.cat([passes(stack, batch).softmax(-1) for batch in images.split(width)], 1))
    return answers


def _check_stack(model: tb.BayesianModule, images: Tensor) -> None:
    stack = model.sample_weights(3, generator=1)
    together = torch.func.vmap(model.apply_weights, in_dims=(0, None))(stack, images)
    for number, ours in enumerate(together):
        alone = model.apply_weights({name: value[number] for name, value in stack.items()}, images)
        if not torch.allclose(ours, alone, rtol=1e-2, atol=1e-2):  # TF32 keeps ten bits
            raise SystemExit("a stack of draws gives other outputs than its draws one by one; nothing was timed")


def _check_compiled(compiled: torch.nn.Module, model: tb.BayesianModule, images: Tensor) -> None:
    ways = [(model, None), (compiled, None), *([(compiled, torch.bfloat16)] if images.is_cuda else [])]
    plain, *others = (tb.predict(way, images, 3, progress=False, precision=half).samples for way, half in ways)
    if any((other - plain).abs().max() > 1e-2 for other in others):  # of probabilities; bfloat16 keeps eight bits
        raise SystemExit("a compiled network gives other probabilities than the network; nothing was timed")


def _work(task: Task, device: torch.device) -> dict[str, float]:
    """Operations and bytes of one image's pass: what its layers read and write, weights left out."""
    network = task.network().to(device).eval()
    image, _ = task.examples(device, 1)
    moved = 0

    def count(_: object, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal moved
        moved += sum(value.nbytes for value in (*inputs, output))

    layers = [module for module in network.modules() if any(True for _ in module.parameters(recurse=False))]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    with FlopCounterMode(display=False) as counter:
        network(image)
    for hook in hooks:
        hook.remove()
    return {"flops_per_image": counter.get_total_flops(), "bytes_per_image": moved}


def _table(figures: Mapping[str, Any]) -> str:
    lines = []
    for one in figures["timings"]:
        lower, middle, upper = one["ratio"]
        lines.append([one["name"], one["seconds"][1], middle, f"{lower:.3f}-{upper:.3f}"])
    lines += [[one["name"], None, None, one["reason"]] for one in figures["absent"]]
    title = f"{figures['network']}, {figures['draws']} draws × {figures['images']:,} images"
    return f"{title}\n\n" + format_table(["contender", "seconds", "× deterministic", "quartiles"], lines)


if __name__ == "__main__":
    main()
