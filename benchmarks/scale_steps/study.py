"""What is trained, and where the results go."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from benchmarks.scale_steps.problem import FIRST_TAU, TAU, chance_of, problem_of, slopes_of
from benchmarks.scale_steps.rules import RATE, WIDE_RATE, Arm, Means, Raw, all_arms, default_arm
from benchmarks.store import RESULTS as FOLDER
from tribayes._files import store
from tribayes.posterior.parametrisation import delta_of, rho_of, tau_of

RESULTS = FOLDER / "scale-steps.json"
FAMILIES = ("diagonal", "tridiagonal")
STEPS = (300, 1000, 3000)
SEEDS = range(3)
FRESH = range(100, 120)  # for the closest three, where three seeds cannot tell
CLOSEST = ("steady", "adam", "natural_wide")
NOISES = (10.0, 100.0)
SMALLEST, FULL = 10, 10_000  # the whole grid up to here, a part of it beyond


@dataclass(frozen=True)
class Unit:
    """One tensor trained with all arms at once."""

    family: str
    size: int
    steps: int
    noise: float
    seeds: range = SEEDS

    @property
    def name(self) -> str:
        fresh = "" if self.seeds == SEEDS else f", seeds {self.seeds[0]} to {self.seeds[-1]}"
        return f"{self.family}, K {self.size}, {self.steps} steps, noise {self.noise:g}{fresh}"


def sizes_to(largest: int) -> list[int]:
    """10, 100, … up to this one."""
    return [10**power for power in range(1, int(math.log10(largest) + 1e-9) + 1)]


def units(largest: int) -> Iterator[Unit]:
    """Small ones first. Beyond 10⁴ weights fewer steps, beyond 10⁵ one family; the larger noise not beyond 10⁴."""
    for noise in NOISES:
        for size in sizes_to(largest):
            for family in FAMILIES if size <= 10 * FULL else FAMILIES[1:]:
                limit = 3000 if size <= FULL else 1000 if size <= 10 * FULL else 300
                if noise == NOISES[0] or size <= FULL:
                    yield from (Unit(family, size, steps, noise) for steps in STEPS if steps <= limit)
    yield from fresh_units(largest)


def fresh_units(largest: int) -> Iterator[Unit]:
    """Small tensors with fresh seeds."""
    sizes = [size for size in sizes_to(largest) if size <= FULL // 10]
    for noise in NOISES:
        yield from (Unit("tridiagonal", size, steps, noise, FRESH) for size in sizes for steps in STEPS)


def arms_of(unit: Unit) -> list[Arm]:
    """All arms for small tensors; for large ones one rate of the means, and for the largest SGD alone."""
    arms = all_arms()
    if unit.seeds == FRESH:
        return [default_arm(rule) for rule in CLOSEST]
    if unit.size > FULL or unit.noise != NOISES[0]:
        arms = [arm for arm in arms if arm.lr == 1e-2]
    if unit.size > FULL:
        arms = [arm for arm in arms if arm.rate in (RATE, WIDE_RATE) and arm.optimizer != "AdamW"]
    if unit.size > 10 * FULL:
        arms = [arm for arm in arms if arm.optimizer == "SGD"]
    return sorted(arms, key=lambda arm: arm.optimizer == "SGD")  # Adam's first


def trained(
    unit: Unit, arms: Sequence[Arm], nu: float, device: torch.device, advance: Callable[..., None]
) -> list[dict[str, Any]]:
    """Train these arms; for each its τ, its ρ and the size of its means in the end, a number per seed."""
    groups = (
        [[seed] for seed in unit.seeds] if unit.size > 10 * FULL else [list(unit.seeds)]
    )  # large ones in turn: memory
    parts = [_ends(unit, arms, nu, group, device, advance) for group in groups]
    ends = {name: torch.cat([part[name] for part in parts], -1).tolist() for name in parts[0]}
    return [
        asdict(arm) | {name: [float(f"{value:.5g}") for value in rows[place]] for name, rows in ends.items()}
        for place, arm in enumerate(arms)
    ]


def _ends(
    unit: Unit, arms: Sequence[Arm], nu: float, seeds: Sequence[int], device: torch.device, advance: Callable[..., None]
) -> dict[str, Tensor]:
    """Numbers in the end as (arms, seeds), with a cosine schedule on every rate."""
    problem = problem_of(unit.size, nu, unit.family == "tridiagonal", unit.noise, seeds, device)
    means, raw = Means(arms, problem), Raw(arms, problem, first_raw().to(device))
    source = torch.Generator(device).manual_seed(unit.size + unit.steps + seeds[0])
    for number in range(1, unit.steps + 1):
        share = 0.5 * (1 + math.cos(math.pi * (number - 1) / unit.steps))
        slopes = slopes_of(problem, means.values, *raw.tau_and_t(), chance_of(problem, source))
        means.step(slopes.mean, share, number)
        raw.step(slopes, share, number)
        advance(_work(unit, arms) * len(seeds) / len(unit.seeds))
    size = means.values.norm(dim=-1) / problem.best.norm(dim=-1)
    return {"tau": tau_of(raw.values[0]), "rho": rho_of(raw.values[1]), "size": size}


def first_raw() -> Tensor:
    """δ and γ at the start, as (2, 1, 1)."""
    tau = torch.tensor(FIRST_TAU, dtype=torch.float64)
    return torch.stack([delta_of(tau), torch.zeros_like(tau)])[:, None, None]


def _work(unit: Unit, arms: Sequence[Arm]) -> float:
    """What a step costs, roughly."""
    return unit.size * len(arms) * len(unit.seeds) / len(SEEDS) + 3e4


class Results:
    """The result file, rewritten after each unit."""

    def __init__(self, path: Path = RESULTS) -> None:
        self.path = path
        self.content: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}

    @property
    def largest(self) -> int:
        return int(self.content["largest"])

    def prepare(self, largest: int, device: torch.device) -> None:
        """A file made for another network is not gone on with: its ν is another."""
        if self.content and self.largest != largest:
            raise SystemExit(
                f"{self.path.name} has tensors of up to {self.largest}; pass --largest or another --results"
            )
        machine = f"{device.type}, one thread, torch {torch.__version__}, Python {platform.python_version()}"
        self.content = self.content or {"largest": largest, "seeds": len(SEEDS), "machine": machine, "units": {}}

    def missing(self) -> list[tuple[Unit, list[Arm]]]:
        """What was not run yet; random numbers do not depend on which arms are run together."""
        found = [(unit, [arm for arm in arms_of(unit) if not self.find(unit, arm)]) for unit in units(self.largest)]
        return [(unit, arms) for unit, arms in found if arms]

    def add(self, unit: Unit, arms: Sequence[Mapping[str, Any]], seconds: float) -> None:
        there = self.content["units"].setdefault(unit.name, {"seconds": 0.0, "arms": []})
        there["seconds"] = round(there["seconds"] + seconds, 1)
        there["arms"].extend(arms)
        store(self.path, (_text(self.content) + "\n").encode())

    def find(self, unit: Unit, arm: Arm) -> dict[str, list[float]] | None:
        """What was measured of an arm, if it was."""
        for one in self.content["units"].get(unit.name, {"arms": []})["arms"]:
            if all(one[key] == value for key, value in asdict(arm).items()):
                return {"tau": one["tau"], "rho": one["rho"], "size": one["size"]}
        return None

    def seconds(self) -> float:
        return float(sum(unit["seconds"] for unit in self.content["units"].values()))


def _text(content: Mapping[str, Any]) -> str:
    """JSON with a line for each arm: readable, and short enough."""
    head = {key: value for key, value in content.items() if key != "units"}
    parts = []
    for name, unit in content["units"].items():
        lines = ",\n".join(f"   {json.dumps(arm)}" for arm in unit["arms"])
        parts.append(f'  {json.dumps(name)}: {{"seconds": {unit["seconds"]}, "arms": [\n{lines}]}}')
    return json.dumps(head, indent=1)[:-2] + ',\n "units": {\n' + ",\n".join(parts) + "\n }\n}"


def run(results: Results, device: torch.device, bar: Callable[..., Any]) -> None:
    """Train what is missing."""
    missing = results.missing()
    total = sum(unit.steps * _work(unit, arms) for unit, arms in missing)
    nu = 0.1 / sum(sizes_to(results.largest))
    with bar("training", total) as advance:
        for unit, arms in missing:
            advance(0, unit.name)
            begin = perf_counter()
            rows = trained(unit, arms, nu, device, advance)
            results.add(unit, rows, perf_counter() - begin)


def errors(found: Mapping[str, list[float]], rho: float) -> tuple[list[float], list[float]]:
    """(|ln τ/τ*|, |ρ − ρ*|) for each seed."""
    return [abs(math.log(tau / TAU)) for tau in found["tau"]], [abs(one - rho) for one in found["rho"]]
