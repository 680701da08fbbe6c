"""Put the peers into a folder of their own, at the versions of requirements.txt and without their dependencies.

    python -m benchmarks.peers.install [--into FOLDER]

The folder (3 MiB) can be carried to a machine without a network; the commands look for it at benchmarks/peers/site, or
where `--peers` says.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers import SITE

REQUIREMENTS = Path(__file__).resolve().parent / "requirements.txt"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=SITE)
    install(parser.parse_args(words).into)


def install(folder: Path) -> None:
    """As a whole or not at all: what was there is replaced only when everything has arrived."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as workplace:
        fresh = Path(workplace) / "site"
        command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "--quiet"]
        command += ["--disable-pip-version-check", "--target", str(fresh), "--requirement", str(REQUIREMENTS)]
        if subprocess.run(command, check=False).returncode:
            raise SystemExit("the peers could not be installed; the benchmarks run without them and say so")
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    print(f"the peers are in {folder.name}/, {sum(f.stat().st_size for f in folder.rglob('*')) / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
