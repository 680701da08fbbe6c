"""The plan of the house: who may import whom, what an import costs, and that public names explain themselves."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from runpy import run_path

import pytest

import tribayes

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tribayes"
ROOMS = [
    "posterior",
    "nn",
    "inference",
    "prediction",
    "distributed",
    "tables",
    "sklearn",
    "integrations",
    "plots",
    "report",
    "data",
    "runs",
    "recipes",
    "own",
    "serve",
]  # in their order
ON_TOP = {"cli.py", "__main__.py", "__init__.py"}  # may import every room
KNOWN = {  # rooms that know less than their place would allow
    "data": {"data"},  # nothing of networks
    "runs": {
        "posterior",
        "nn",
        "inference",
        "prediction",
        "distributed",
        "integrations",  # whose curves they write
        "runs",
    },  # nothing of pictures, data sets or recipes
}
BESIDE = {"reproduction", "benchmarks", "pages"}  # in the repository, not in the wheel
AT_ONCE = {  # beside torch
    "posterior": {"triton"},  # of the two files that a GPU's draw imports when it runs; it comes with torch
    "sklearn": {"sklearn", "numpy"},
    "integrations": {"lightning", "transformers", "safetensors"},
    "plots": {"matplotlib", "numpy"},
    "report": {"matplotlib"},
    "serve": {"fastapi", "starlette", "uvicorn", "pydantic", "PIL"},
    "cli.py": {"typer"},
}
REPRODUCTION = ["paper", "results", "training", "pages"]  # its rooms, in their order

WHEEL = sorted(PACKAGE.rglob("*.py"))
INSIDE = [path for path in WHEEL if path.parent != PACKAGE]
SHARED = [path for path in PACKAGE.glob("_*.py") if not path.name.startswith("__")]
REPRODUCING = sorted((ROOT / "reproduction").glob("*/*.py"))


def imports_of(path: Path) -> Iterator[str]:
    """Full names of the modules a file imports, wherever in it; relative imports are not used here."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write the full name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_used(path: Path, package: str = "tribayes") -> set[str]:
    """The parts of a package that a file imports."""
    names = (module.split(".") for module in imports_of(path))
    return {parts[1] for parts in names if parts[0] == package and len(parts) > 1}


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_file_has_its_place() -> None:
    assert {path.relative_to(PACKAGE).parts[0] for path in INSIDE} == set(ROOMS)
    alone = {path.name for path in PACKAGE.glob("*.py")}
    assert alone == {*ON_TOP, *(path.name for path in SHARED)}
    assert {path.parent.name for path in REPRODUCING} == set(REPRODUCTION)
    assert all((ROOT / name).is_dir() for name in BESIDE)


@pytest.mark.parametrize("path", INSIDE, ids=label)
def test_a_room_imports_only_from_those_before_it(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0]
    allowed = KNOWN.get(room, set(ROOMS[: ROOMS.index(room) + 1]))
    assert rooms_used(path) <= {*allowed, *(shared.stem for shared in SHARED)}


@pytest.mark.parametrize("path", SHARED, ids=label)
def test_what_all_rooms_share_imports_none_of_them(path: Path) -> None:
    assert rooms_used(path) <= {shared.stem for shared in SHARED}


@pytest.mark.parametrize("path", WHEEL, ids=label)
def test_the_wheel_needs_nothing_beside_it(path: Path) -> None:
    assert {module.split(".")[0] for module in imports_of(path)} & BESIDE == set()


@pytest.mark.parametrize("path", REPRODUCING, ids=label)
def test_the_reproduction_has_an_order_too(path: Path) -> None:
    allowed = REPRODUCTION[: REPRODUCTION.index(path.parent.name) + 1]
    assert rooms_used(path, "reproduction") <= set(allowed)
    assert not rooms_used(path, "benchmarks")  # some of which time what it does


@pytest.mark.parametrize("path", sorted((ROOT / "pages").glob("*.py")), ids=label)
def test_pages_know_nothing_of_what_they_show(path: Path) -> None:
    assert {module.split(".")[0] for module in imports_of(path)} & {"reproduction", "benchmarks"} == set()


@pytest.mark.parametrize("room", ROOMS)
def test_the_files_of_a_room_do_not_go_in_circles(room: str) -> None:
    """Imports at the top of files; one inside a function waits until it is called."""
    edges = {_module(path): _needed_at_once(path) for path in sorted((PACKAGE / room).rglob("*.py"))}
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " → ".join((*way, module))
        if module not in done:
            for needed in edges[module] & edges.keys():
                visit(needed, (*way, module))
            done.add(module)

    for module in edges:
        visit(module, ())


def _module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _needed_at_once(path: Path) -> set[str]:
    """Modules that importing a file imports; of `from package import name` the submodule, where it is one."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = PACKAGE.parent / Path(*node.module.split("."), alias.name)
                is_module = inner.with_suffix(".py").exists() or inner.is_dir()
                found.add(f"{node.module}.{alias.name}" if is_module else node.module)
    return found - {_module(path)}


def test_no_room_is_entered_by_the_front_door() -> None:
    # `import tribayes` inside the package would run the whole of it, and hide a wrong order
    used = {label(path) for path in INSIDE if {"tribayes", "tribayes.__version__"} & set(imports_of(path))}
    assert used <= {"src/tribayes/runs/environment.py"}  # which writes the version down


def test_cuda_graphs_are_recorded_in_one_place() -> None:
    folders = ("src", "reproduction", "benchmarks", "pages", "examples")
    code = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    recording = re.compile(r"CUDAGraph\(|cuda\.graph\(|make_graphed_callables")
    assert [label(path) for path in code if recording.search(path.read_text())] == ["src/tribayes/_graphs.py"]


def test_files_named_in_the_design_exist() -> None:
    page = (ROOT / "docs" / "design.md").read_text()
    named = set(re.findall(r"`([\w/]+\.py)`", page)) | set(re.findall(r"`(\w+/(?:\w+/)?)`", page))
    missing = [name for name in named if not any((place / name).exists() for place in (PACKAGE, ROOT))]
    assert missing == []
    assert len(named) > 30


PICTURE = run_path(str(ROOT / "docs" / "design_picture.py"))


def test_the_picture_of_the_design_is_what_its_program_draws() -> None:
    assert PICTURE["PICTURE"].read_text() == PICTURE["picture"](), "draw it anew: python docs/design_picture.py"


def test_the_picture_and_the_pages_have_every_room() -> None:
    assert list(PICTURE["ROOMS"]) == [*ROOMS, "cli"]
    listed = re.findall(r"^      (\w+)(?:/|\.py) {2,}", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert listed == [*ROOMS, "cli"]
    design = (ROOT / "docs" / "design.md").read_text()
    assert [room for room in ROOMS if f"`{room}/" not in design] == []


@pytest.mark.parametrize("journey", PICTURE["JOURNEYS"])
def test_a_journey_of_the_picture_is_that_of_its_table(journey: str) -> None:
    """Every stop is a file; what stands in the table of the journey stands there in the order of the picture."""
    stops = PICTURE["JOURNEYS"][journey]
    assert [stop for stop in stops if not (PACKAGE / stop).exists()] == []
    page = (ROOT / "docs" / "design.md").read_text()
    assert [stop for stop in stops if f"`{stop}`" not in page] == []
    table = page.partition(f"**{journey}.**")[2].partition("\n\n| hop")[2].partition("\n\n")[0]
    hops = re.findall(r"^\| \d+ \| (.*?) \|", table, re.MULTILINE)
    places = [
        next(number for number, files in enumerate(hops) if f"`{stop}`" in files) for stop in stops if stop in table
    ]
    assert len(set(places)) > 3
    assert places == sorted(places)


def test_importing_the_library_brings_in_torch_alone() -> None:
    script = "import sys, torch; before = set(sys.modules); import tribayes; new = set(sys.modules) - before; "
    script += "print(*(name for name in new if name.split('.')[0] not in sys.stdlib_module_names))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    new = run.stdout.split()
    assert {name.split(".")[0] for name in new} <= {"tribayes", "torch"}
    assert [
        name for name in new if name.startswith(("torch._dynamo", "torch._inductor"))
    ] == []  # seconds, and rarely used


def test_the_core_needs_only_what_a_bare_user_needs() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [re.split(r"\W", one)[0] for one in needed] == ["torch", "rich", "typer", "safetensors", "numpy"]


def test_the_design_says_what_every_extra_is_for() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    design = (ROOT / "docs" / "design.md").read_text()
    assert [name for name in extras if f"extra `{name}`" not in design] == []


@pytest.mark.parametrize("path", WHEEL, ids=label)
def test_extras_are_imported_at_once_only_in_rooms_that_are_about_them(path: Path) -> None:
    """Elsewhere inside the function that needs them, so that the rest works without."""
    room = path.relative_to(PACKAGE).parts[0]
    found = {module.split(".")[0] for module in _needed_at_once(path)} - set(sys.stdlib_module_names)
    assert found <= {"tribayes", "torch", *AT_ONCE.get(room, set())}


@pytest.mark.parametrize("name", tribayes.__all__)
def test_a_public_name_says_what_it_is(name: str) -> None:
    text = getattr(tribayes, name).__doc__  # its own: inspect.getdoc would take a base class's
    assert text
    assert text.splitlines()[0].strip()


def test_a_public_name_is_real_and_listed_once() -> None:
    assert len(set(tribayes.__all__)) == len(tribayes.__all__)
    assert all(hasattr(tribayes, name) for name in tribayes.__all__)
    places: dict[int, list[str]] = {}
    for room in ROOMS:
        try:
            module = import_module(f"tribayes.{room}")
        except ModuleNotFoundError as error:
            if error.name in AT_ONCE.get(room, set()):  # an extra that is not installed
                continue
            raise
        names = getattr(module, "__all__", [])
        assert len(set(names)) == len(names), room
        for name in names:
            places.setdefault(id(getattr(module, name)), []).append(f"{room}.{name}")
    assert [rooms for rooms in places.values() if len(rooms) > 1] == []
    assert len(places) > 70


def test_the_front_door_says_what_is_behind_it() -> None:
    assert tribayes.__doc__
    said = re.findall(r"`(\w+)`", tribayes.__doc__.partition("only from those before it")[2])
    assert said == ROOMS
    assert (
        {"distributed", "tables", "sklearn", "plots", "report", "data", "runs"}
        <= set(tribayes._ON_DEMAND)
        <= set(ROOMS)
    )
