"""Two processes, then four, each started once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed import four_checks, parallel_checks, sharded_checks
from tests.distributed.processes import Found, found_by


@pytest.fixture(scope="session")
def meeting_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="session")
def by_two(meeting_place: Path) -> Found:
    checks = sharded_checks.CHECKS | parallel_checks.CHECKS
    return found_by(2, checks, meeting_place, last=parallel_checks.dying)


@pytest.fixture(scope="session")
def by_four(by_two: Found, meeting_place: Path) -> Found:
    assert by_two["saved"]  # they go on from there
    (meeting_place / "meeting").unlink()
    return found_by(4, four_checks.CHECKS, meeting_place)
