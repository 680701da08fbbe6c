"""Who may import whom: the reproduction's rooms in their order, and the wheel none of what lies beside it."""

from pathlib import Path

import pytest

from tests.test_architecture import imports_of

ROOT = Path(__file__).parents[2]
ROOMS = ["paper", "results", "training", "pages"]  # a room imports from those before it
ENGINE = {"posterior", "nn", "inference", "prediction", "runs"}  # what the engine of runs is made of

REPRODUCTION = [path for room in ROOMS for path in sorted((ROOT / "reproduction" / room).glob("*.py"))]
WHEEL = sorted((ROOT / "src" / "tribayes").rglob("*.py"))
RUNS = sorted((ROOT / "src" / "tribayes" / "runs").glob("*.py"))


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", REPRODUCTION, ids=label)
def test_a_room_imports_only_from_those_before_it(path: Path) -> None:
    allowed = ROOMS[: ROOMS.index(path.parent.name) + 1]
    used = {module.split(".")[1] for module in imports_of(path) if module.startswith("reproduction.")}
    assert used <= set(allowed)


def test_the_rooms_are_found() -> None:
    assert len(REPRODUCTION) > 20
    assert {path.parent.name for path in REPRODUCTION} == set(ROOMS)
    assert {path.parent.name for path in (ROOT / "reproduction").glob("*/*.py")} == set(ROOMS)


@pytest.mark.parametrize("path", sorted((ROOT / "pages").glob("*.py")), ids=label)
def test_pages_know_nothing_of_what_they_show(path: Path) -> None:
    assert {module.split(".")[0] for module in imports_of(path)} & {"reproduction", "benchmarks"} == set()


@pytest.mark.parametrize("path", WHEEL, ids=label)
def test_the_wheel_needs_nothing_beside_it(path: Path) -> None:
    assert {module.split(".")[0] for module in imports_of(path)} & {"reproduction", "benchmarks", "pages"} == set()


@pytest.mark.parametrize("path", RUNS, ids=label)
def test_the_engine_of_runs_knows_nothing_of_recipes_or_data_sets(path: Path) -> None:
    parts = {module.split(".")[1] for module in imports_of(path) if module.startswith("tribayes.")}
    assert {part for part in parts if not part.startswith("_")} <= ENGINE
