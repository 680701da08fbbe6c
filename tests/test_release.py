"""What the package index shows, README with links that lead somewhere from there, too; and what is promised to stay."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path
from runpy import run_path

import tribayes

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")


def test_every_link_of_the_readme_is_an_address() -> None:
    readme, shown = (ROOT / "README.md").read_text(), run_path(str(ROOT / "setup.py"), run_name="setup")["readme"]()
    home = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"]
    raw = home.replace("github.com", "raw.githubusercontent.com")
    before, after = LINK.findall(readme), LINK.findall(shown)
    assert len(before) == len(after) > 20
    for (picture, place), (_, address) in zip(before, after, strict=True):
        if place.startswith(("http:", "https:", "#")):
            assert address == place
        else:
            assert address == (f"{raw}/main/{place}" if picture else f"{home}/blob/main/{place}")
    assert LINK.sub("", readme) == LINK.sub("", shown)  # and nothing else has changed


def test_the_policy_names_every_room_that_is_public() -> None:
    policy = (ROOT / "docs" / "stability.md").read_text()
    rooms = [path.parent.name for path in (ROOT / "src" / "tribayes").glob("*/__init__.py")]
    listed = {room: set(getattr(import_module(f"tribayes.{room}"), "__all__", [])) for room in rooms}
    assert len(listed) > 10
    own = [room for room, names in listed.items() if not names <= set(tribayes.__all__)]
    assert [room for room in own if f"`{room}`" not in policy and f"`tribayes.{room}`" not in policy] == []
