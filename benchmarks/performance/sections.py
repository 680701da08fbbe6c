"""The sections of the document, one for each benchmark, with a part for every machine that has run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import draw, prediction
from benchmarks.contenders import NAMES
from benchmarks.large_networks import TASKS
from benchmarks.learners import COMPILED, DETERMINISTIC, OURS
from benchmarks.performance import floors
from benchmarks.performance.markdown import MISSING, by_name, mebibytes, micro, milli, notes, number, ratio
from pages.markdown import markdown_table

Stored = Mapping[str, Any]


def draw_part(result: Stored) -> str:
    header = ["K", "copy", "ours, forward", "ours, both", "floor", "ours / floor", f"ours in {draw.PIECES} tensors"]
    header += ["ours with KL", "mean field eager", "mean field compiled", "ours / compiled"]
    figures, machine = result["figures"], result["machine"]
    rows = []
    for row in figures["sizes"]:
        times = by_name(row["timings"])
        ours, floor = times[draw.OURS_BOTH]["seconds"], floors.draw_floor(row["size"], figures, machine)
        compiled = times.get(draw.COMPILED_BOTH)
        rows.append(
            [
                f"{row['size']:,}",
                micro(times[draw.COPY]["seconds"]),
                micro(times[draw.OURS]["seconds"]),
                f"**{micro(ours)}** ({micro([0, ours[0], 0])}–{micro([0, ours[2], 0])})",
                number(1e6 * floor),
                number(ours[1] / floor),
                micro(times[draw.OURS_PIECES]["seconds"]),
                micro(times[draw.OURS_KL]["seconds"]),
                micro(times[draw.EAGER_BOTH]["seconds"]),
                micro(compiled["seconds"]) if compiled else MISSING,
                number(ours[1] / compiled["seconds"][1]) if compiled else MISSING,
            ]
        )
    largest = figures["sizes"][-1]
    ours = by_name(largest["timings"])[draw.OURS_BOTH]["seconds"][1]
    left = ours - floors.draw_floor(largest["size"], figures, machine)
    return (
        f'Microseconds, drawn by "{figures["sampler"]}"; "both" and mean field are forward + backward.\n\n'
        + markdown_table(header, rows)
        + f"\nLeft above the floor at K = {largest['size']:,}: {number(1e6 * left)} µs, "
        f"{number(100 * left / ours)} % of the time.\n"
    )


def step_part(result: Stored) -> str:
    return "\n".join(_network_steps(row, result["machine"]) for row in result["figures"]["networks"])


def _network_steps(row: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
    times = by_name(row["timings"])
    plain, ours = (times[name]["seconds"][1] for name in (DETERMINISTIC, OURS))
    floor = floors.step_floor(row, machine, plain)
    rows = []
    for name in (*NAMES, *(name for name in COMPILED if name in times)):
        if name in times:
            cells = [milli(times[name]["seconds"]), ratio(times[name]["ratio"]), times[name]["how"]]
            rows.append([f"**{name}**" if name == OURS else name, *cells])
        else:
            rows.append([name, MISSING, MISSING, by_name(row["absent"])[name]["reason"]])
    precision = "bf16, channels_last" if row["half"] else "float32"
    return (
        f"**{row['title']}**, batch {row['batch']}, {precision}, {row['random_weights']:,} random weights of "
        f"{row['weights']:,}.\n\n"
        + markdown_table(["contender", "ms", "× deterministic (quartiles)", "how"], rows)
        + f"\nFloor: {floors.step_bytes(row['half'])} bytes per random weight more than the plain step, "
        f"{number(1e6 * (floor - plain))} µs at the speed of a copy: {floor / plain:.3f} × deterministic. "
        f"Left above it: {number(1e6 * (ours - floor))} µs, {(ours - floor) / plain:.3f} × deterministic.\n"
        + notes(row["notes"])
    )


def training_part(result: Stored) -> str:
    rows = []
    for one in result["figures"]["runs"]:
        lower, middle, upper = one["window_seconds"]
        spread = f"{number(middle)} ({number(lower)}–{number(upper)})"
        rows.append([one["name"], f"{one['iterations']:,}", number(one["seconds"]), number(one["whole"]), spread])
    header = ["run", "iterations", "seconds", "seconds for 100,000", "seconds for 1,000 (quartiles)"]
    return markdown_table(header, rows)


def large_part(result: Stored) -> str:
    return "\n".join(_large_steps(row) for row in result["figures"]["networks"])


def _large_steps(row: Mapping[str, Any]) -> str:
    rows = []
    for one in row["timings"]:
        name = f"**{one['name']}**" if one["name"] == OURS else one["name"]
        rows.append([name, milli(one["seconds"]), ratio(one["ratio"]), one["how"]])
    plain, ours = (row["peaks"][name] for name in (DETERMINISTIC, OURS))
    peak = f" Peak: {mebibytes(ours)} MiB, {ours / plain:.3f} × the plain {mebibytes(plain)}." if plain else ""
    return (
        f"**{row['title']}**, batch {row['batch']}, {row['random_weights']:,} random weights of {row['weights']:,}.\n\n"
        + markdown_table(["step", "ms", "× deterministic (quartiles)", "how"], rows)
        + f"\nUnder DDP {row['ddp_ratio']:.3f} × the plain network under it.{peak}\n"
    )


def prediction_part(result: Stored) -> str:
    figures = result["figures"]
    rows = []
    for one in figures["timings"]:
        name = f"**{one['name']}**" if one["name"].startswith(prediction.PREDICT) else one["name"]
        rows.append([name, number(one["seconds"][1]), ratio(one["ratio"])])
    rows += [[one["name"], MISSING, one["reason"]] for one in figures["absent"]]
    bounds = floors.prediction_floor(figures, result["machine"])
    ways = [one["seconds"][1] for one in figures["timings"] if one["name"].startswith(prediction.PREDICT)]
    return (
        f"{figures['network']}, {figures['draws']} draws × {figures['images']:,} images.\n\n"
        + markdown_table(["contender", "seconds", "× deterministic (quartiles)"], rows)
        + f"\nFloor: {number(bounds['operations'])} s by operations "
        f"({number(figures['flops_per_image'] / 1e6)} million per image), {number(bounds['bytes'])} s by what the "
        f"layers read and write ({number(figures['bytes_per_image'] / 1024)} KiB per image). Left above the larger: "
        f"{number(min(ways) - max(bounds.values()))} s.\n" + notes(figures["notes"])
    )


def growth_part(result: Stored) -> str:
    figures = result["figures"]
    weights = []
    for row in figures["weights"]:
        plain, ours = row["timings"]
        weights.append([f"{row['size']:,}", milli(plain["seconds"]), milli(ours["seconds"]), ratio(ours["ratio"])])
    samples = [
        [str(row["samples"]), milli(row["timing"]["seconds"]), ratio(row["timing"]["ratio"])]
        for row in figures["samples"]
    ]
    exponents = [[name, f"{value:.2f}"] for name, value in figures["exponents"].items()]
    return (
        markdown_table(["weights", "deterministic, ms", "ours, ms", "ratio (quartiles)"], weights)
        + "\n"
        + markdown_table(["draws per step, LeNet-100", "ours, ms", "× one draw (quartiles)"], samples)
        + "\n"
        + markdown_table(["time grows with", "exponent"], exponents)
        + "\nFloor: exponent 1 in both, where bytes and operations and not launches decide.\n"
    )


def distributed_part(result: Stored) -> str:
    figures = result["figures"]
    parts = []
    for row in figures["networks"]:
        rows = [[one["name"], milli(one["seconds"]), ratio(one["ratio"])] for one in row["timings"]]
        title = f"**{row['title']}**, batch {row['batch']}, shared by {figures['processes']} processes, "
        title += f"{row['random_weights']:,} random weights.\n\n"
        parts.append(title + markdown_table(["under DDP", "ms", "× deterministic (quartiles)"], rows))
    return "\n".join(parts)


def memory_part(result: Stored) -> str:
    return "\n".join(_network_memory(row) for row in result["figures"]["networks"])


def _network_memory(row: Mapping[str, Any]) -> str:
    found = by_name(row["contenders"])
    plain = found[DETERMINISTIC]
    rows = []
    for name in NAMES:
        if name not in found:
            rows.append([name, *[MISSING] * 4, by_name(row["absent"])[name]["reason"]])
            continue
        one = found[name]
        peak = [mebibytes(one["peak"]), f"{one['peak'] / plain['peak']:.3f}"] if one["peak"] else [MISSING] * 2
        kept = [mebibytes(one["kept"]), f"{one['kept'] / plain['kept']:.3f}"]
        label = f"**{name}**" if name == OURS else name
        rows.append([label, *kept, *peak, f"{one['kept_with_buffers'] / plain['kept_with_buffers']:.3f}"])
    header = ["contender", "kept, MiB", "× deterministic", "peak, MiB", "× deterministic", "kept with buffers, ×"]
    return (
        f"**{row['title']}**, batch {row['batch']}. A draw of ours is {mebibytes(found[OURS]['draw'])} MiB, and so are "
        "its gradients in the backward pass.\n\n" + markdown_table(header, rows)
    )


INTRODUCTIONS = {
    "draw": "One draw of K weights and its backward pass. The floor is two and a half copies of K numbers: forward the "
    "means are read and the draw written; backward means and gradients are read and gradients written.",
    "step": "Forward, loss with its divergence, backward and SGD with momentum in one fused update. Ours is "
    "`tribayes.TrainingStep` as a user calls it, guards included, with the tridiagonal family, which costs more than "
    "the default; on a GPU everyone's step is recorded, and its batch copied in. Compiled (`--compiled`): by "
    "`torch.compile`, whose own time is not counted. The floor is the plain step and the bytes beyond it.",
    "large": f"A step of a large transformer, {' and '.join(task.title for task in TASKS)}: in bf16 by autocast, with "
    "AdamW (fused). As CUDA graphs, or as they are where one cannot be; the two under DistributedDataParallel, in one "
    "process, never. Peaks are of steps without a graph.",
    "training": "LeNet-100 by the trainer of `tribayes fit`, on made-up images of MNIST's size and number. Warm-up and "
    "capture are in the seconds; so is compiling (`--compiled`), with an empty cache.",
    "prediction": "Draws and passes until every probability is there. `tribayes.predict` also brings them to the host. "
    "Compiled: by `torch.compile`, whose own time is not counted; in bfloat16 with the error of docs/estimators.md. "
    "The floor is the larger of two: operations at the speed of a matrix product (TF32 on a GPU), and bytes at the "
    "speed of a copy.",
    "growth": "The time of a training step: of four square linear layers, batch 64, with the number of weights, and of "
    "LeNet-100 with the number of draws per step.",
    "distributed": "A training step in several processes at once, by DistributedDataParallel, beside the plain network "
    "under it: each has all weights and its share of the batch, and gradients are averaged, by gloo on a CPU. Ours "
    "draws other weights in each process, or by `same_draw=True` the same in all. Never as CUDA graphs.",
    "memory": "Kept: parameters and optimizer state. Peak: what torch's allocator had handed out at most in an eager "
    "step, which it tells for a GPU only; on a CPU a small batch makes the state.",
}
TITLES = {
    "draw": "The draw",
    "step": "Training step",
    "large": "Large transformers",
    "training": "A whole training",
    "prediction": "Prediction",
    "growth": "Growth",
    "distributed": "Several processes",
    "memory": "Memory",
}
PARTS: dict[str, Callable[[Stored], str]] = {
    "draw": draw_part,
    "step": step_part,
    "large": large_part,
    "training": training_part,
    "prediction": prediction_part,
    "growth": growth_part,
    "distributed": distributed_part,
    "memory": memory_part,
}
