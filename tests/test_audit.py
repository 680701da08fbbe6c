"""`make audit` finds what the service knows, and never takes silence for safety."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import audit


def answer(**weak: list[str]) -> tuple[str, str]:
    packages = [{"name": name, "version": "1.0", "vulns": [{"id": i} for i in ids]} for name, ids in weak.items()]
    return json.dumps({"dependencies": packages, "fixes": []}), ""


def run(monkeypatch: pytest.MonkeyPatch, known: tuple[str, str], pins: tuple[str, str]) -> int:
    def ask(_: str, requirements: Path) -> tuple[str, str]:
        return pins if requirements == audit.PINS else known

    monkeypatch.setattr(audit, "ask", ask)
    with pytest.raises(SystemExit) as ended:
        audit.main(["pip-audit"])
    return int(ended.value.code)


WEAK = answer(jinja2=["PYSEC-1"])


def test_weaknesses_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, WEAK, answer(torch=[], pillow=["PYSEC-2", "PYSEC-3"])) == 1
    assert capsys.readouterr().out.startswith("pillow 1.0: PYSEC-2, PYSEC-3\n1 of the packages")
    assert run(monkeypatch, WEAK, answer(torch=[], pillow=[])) == 0
    assert capsys.readouterr().out.startswith("0 of the packages in constraints.txt")


@pytest.mark.parametrize(
    ("known", "pins", "reason"),
    [
        (("", "requests.ConnectionError: no route"), answer(torch=[]), "requests.ConnectionError: no route"),
        (answer(jinja2=[]), answer(torch=[]), "nothing is known against jinja2==2.4.1"),
        (WEAK, ("", ""), "no word of it"),
        (WEAK, (json.dumps({"dependencies": [{"name": "torch", "skip_reason": "?"}]}), ""), "nothing .* about torch"),
    ],
)
def test_silence_is_not_safety(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    known: tuple[str, str],
    pins: tuple[str, str],
    reason: str,
) -> None:
    assert run(monkeypatch, known, pins) == 2
    said = capsys.readouterr().out
    assert said.startswith("NOT AUDITED: the advisory service was not reached")
    assert re.search(reason, said.splitlines()[1])
