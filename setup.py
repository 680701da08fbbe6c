"""What pyproject.toml cannot say: on the package index README's links and pictures lead to the repository's files."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent


def readme() -> str:
    """README.md with each relative link as an address; a picture's is that of its bytes."""
    with (HERE / "pyproject.toml").open("rb") as file:
        home = tomllib.load(file)["project"]["urls"]["Homepage"]
    raw = home.replace("https://github.com/", "https://raw.githubusercontent.com/")

    def absolute(link: re.Match[str]) -> str:
        base = f"{raw}/main" if link["picture"] else f"{home}/blob/main"
        return f"{link['picture']}[{link['words']}]({base}/{link['place']})"

    link = r"(?P<picture>!?)\[(?P<words>[^\]]*)\]\((?!https?:|#)(?P<place>[^)\s]+)\)"
    return re.sub(link, absolute, (HERE / "README.md").read_text("utf-8"))


if __name__ == "__main__":
    setup(long_description=readme(), long_description_content_type="text/markdown")
