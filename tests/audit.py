"""Known weaknesses of everything that constraints.txt pins, by pip-audit and the Open Source Vulnerabilities database.

    python -m tests.audit PROGRAM    # PROGRAM: a pip-audit; `make audit` installs one

Silence is no proof: a version that is known to be weak is asked about first, and where nothing is found in it the
service was not reached and nothing was audited. Exit codes: 0 nothing known, 1 weaknesses, 2 not audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PINS = Path(__file__).parents[1] / "constraints.txt"
WEAK = "jinja2==2.4.1"  # with half a dozen advisories
OPTIONS = ("--strict", "--no-deps", "--disable-pip", "--vulnerability-service", "osv", "--format", "json")


class NotAudited(Exception):
    """The service did not answer, or not about everything."""


def ask(program: str, requirements: Path) -> tuple[str, str]:
    """What pip-audit says of these pins: its JSON, and its complaints."""
    command = [program, *OPTIONS, "--progress-spinner", "off", "-r", str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr


def weaknesses(said: tuple[str, str]) -> dict[str, list[str]]:
    """Advisories by package and version."""
    output, complaints = said
    try:
        packages = json.loads(output)["dependencies"]
    except (json.JSONDecodeError, KeyError) as error:
        last = (complaints.strip().splitlines() or ["no word of it"])[-1]
        raise NotAudited(last) from error
    if skipped := [each["name"] for each in packages if "vulns" not in each]:
        raise NotAudited(f"nothing was found out about {', '.join(skipped)}")
    found = {f"{each['name']} {each['version']}": [one["id"] for one in each["vulns"]] for each in packages}
    return {package: names for package, names in found.items() if names}


def audit(program: str) -> dict[str, list[str]]:
    """The weaknesses of all pins, from a service that knows those of the weak one."""
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder) / "weak.txt"
        known.write_text(WEAK + "\n")
        if not weaknesses(ask(program, known)):
            raise NotAudited(f"nothing is known against {WEAK}, so this is no list of advisories")
    return weaknesses(ask(program, PINS))


def main(words: Sequence[str] | None = None) -> None:
    (program,) = sys.argv[1:] if words is None else words
    try:
        found = audit(program)
    except NotAudited as error:
        print(f"NOT AUDITED: the advisory service was not reached, or does not answer as it should\n  {error}")
        sys.exit(2)
    for package, names in found.items():
        print(f"{package}: {', '.join(names)}")
    print(f"{len(found)} of the packages in {PINS.name} have known weaknesses")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
