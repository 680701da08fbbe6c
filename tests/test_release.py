"""What the package index shows: README with links that lead somewhere from there, too."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from runpy import run_path

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
