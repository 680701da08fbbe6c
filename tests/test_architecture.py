"""The shape of the package: who may import whom, what an import costs, and that public names explain themselves."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tribayes

PACKAGE = Path(tribayes.__file__).parent
ORDER = ["posterior", "nn", "inference", "prediction", "plots", "report"]  # a folder imports from those before it
FILES = sorted(PACKAGE.rglob("*.py"))

# The command line, the demo and whatever else sits on top of these folders may import all of them.
INSIDE = [path for path in FILES if path.relative_to(PACKAGE).parts[0] in ORDER]
SHARED = [path for path in PACKAGE.glob("_*.py") if not path.name.startswith("__")]


def imports_of(path: Path) -> Iterator[str]:
    """Full names of the modules a file imports, wherever in it; relative imports are not used here."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write the full name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(module: str) -> str | None:
    """The part of the package that a module belongs to; None for other packages."""
    parts = module.split(".")
    return parts[1] if parts[0] == "tribayes" and len(parts) > 1 else None


def label(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def test_the_files_are_found() -> None:
    assert {path.relative_to(PACKAGE).parts[0] for path in INSIDE} >= {"posterior", "nn", "inference"}
    assert {path.stem for path in SHARED} >= {"_errors", "_text", "_progress"}


@pytest.mark.parametrize("path", INSIDE, ids=label)
def test_a_folder_imports_only_from_those_before_it(path: Path) -> None:
    here = ORDER.index(path.relative_to(PACKAGE).parts[0])
    allowed = {*ORDER[: here + 1], *(shared.stem for shared in SHARED)}
    used = {part for module in imports_of(path) if (part := part_of(module))}
    assert used <= allowed


@pytest.mark.parametrize("path", sorted((PACKAGE / "data").rglob("*.py")), ids=label)
def test_data_sets_know_nothing_of_networks(path: Path) -> None:
    used = {part for module in imports_of(path) if (part := part_of(module))}
    assert used <= {"data", *(shared.stem for shared in SHARED)}


@pytest.mark.parametrize("path", SHARED, ids=label)
def test_what_all_folders_share_imports_none_of_them(path: Path) -> None:
    used = {part for module in imports_of(path) if (part := part_of(module))}
    assert used <= {shared.stem for shared in SHARED}


def test_a_folder_is_entered_by_the_package_not_by_its_parent() -> None:
    # `import tribayes` inside the package would run the whole of it, and hide a wrong order
    assert [label(path) for path in INSIDE if "tribayes" in imports_of(path)] == []


def test_importing_the_library_brings_in_nothing_optional() -> None:
    optional = ["sklearn", "matplotlib", "torchmetrics", "rich", "typer", "scipy", "pandas"]
    optional += ["safetensors", "PIL", "tensorboard"]
    script = f"import sys, tribayes; print([name for name in {optional} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("name", tribayes.__all__)
def test_a_public_name_says_what_it_is(name: str) -> None:
    text = getattr(tribayes, name).__doc__  # its own: inspect.getdoc would take a base class's
    assert text
    assert text.splitlines()[0].strip()


def test_a_public_name_is_real_and_listed_once() -> None:
    assert len(set(tribayes.__all__)) == len(tribayes.__all__)
    assert all(hasattr(tribayes, name) for name in tribayes.__all__)
