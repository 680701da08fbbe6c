"""What is installed: every bound has been run at its lowest, and everything a developer gets is pinned."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
TOOLS = {"build", "httpx2", "mkdocs-material", "mkdocstrings", "mypy", "peft", "pytest", "pytest-timeout"}
TOOLS |= {"pytest-xdist", "ruff", "selenium", "timm", "twine"}  # of developers, or run by hand


def pins(name: str) -> dict[str, Version]:
    """The versions of a file of constraints; an error for any other kind of line."""
    found = {}
    for line in (ROOT / name).read_text().splitlines():
        if line and not line.startswith("#"):
            package, version = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)", line).groups()
            found[canonicalize_name(package)] = Version(version)
    return found


def declared() -> list[Requirement]:
    """All requirements of pyproject.toml but those for extras of its own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    return [each for each in map(Requirement, lines) if each.name != "tribayes"]


def test_every_lower_bound_is_one_that_was_run() -> None:
    lowest, bounds = pins("constraints-lowest.txt"), {}
    for each in declared():
        (bound,) = each.specifier
        assert bound.operator == ">=", each
        bounds.setdefault(canonicalize_name(each.name), set()).add(Version(bound.version))
    assert [name for name, versions in bounds.items() if len(versions) > 1] == []
    run = {name: min(versions) for name, versions in bounds.items() if name not in {"torch", *TOOLS}}
    assert lowest == run


def needed(requirement: Requirement, seen: set[tuple[str, str]]) -> Iterator[str]:
    """Names of what a requirement brings along in this environment, and theirs."""
    for extra in ("", *requirement.extras):
        if (requirement.name, extra) in seen:
            continue
        seen.add((requirement.name, extra))
        try:
            lines = requires(requirement.name) or []
        except PackageNotFoundError:
            continue  # for another platform or version of Python
        yield canonicalize_name(requirement.name)
        for child in map(Requirement, lines):
            if child.marker is None or child.marker.evaluate({"extra": extra}):
                yield from needed(child, seen)


def test_everything_a_developer_installs_is_pinned() -> None:
    installed = set(needed(Requirement("tribayes[dev]"), set())) - {"tribayes"}
    assert len(installed) > 80
    assert installed - pins("constraints.txt").keys() - {"pip", "setuptools", "wheel"} == set()


def test_every_requirement_is_pinned_within_its_bounds() -> None:
    pinned = pins("constraints.txt")
    assert [str(each) for each in declared() if not each.specifier.contains(pinned[canonicalize_name(each.name)])] == []
