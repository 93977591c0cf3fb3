"""Long tests of which ``make test`` runs another part each day (ADR 217).

``make test-quick`` runs all that need no cluster, and ``make soak`` all restarts.
"""

import os
import time
import zlib

import pytest

VARIABLE = "TESSERA_ROTATION"
"""The number of the day. The Makefile sets it, so that all processes of a run use the same one."""

_SECONDS_PER_DAY = 86_400

DAYS = {
    "tests/abi/driver/": 2,
    "tests/conformance/": 4,
    "tests/e2e/restarts/test_restarts.py::test_no_pod_fails_around_a_restart[": 3,
    "tests/e2e/restarts/test_uninstall.py": 1,  # a lane by itself, which must not be empty
    "tests/e2e/": 2,
    "tests/integration/agent/": 2,
    "tests/integration/gpud/": 2,
    "tests/integration/rdma/": 2,
    "tests/integration/run/": 2,
}
"""After how many days each test has run, by the beginning of the tests' names."""


def number_of_day() -> int:
    """Return the number of the day, by ``TESSERA_ROTATION`` or the clock."""
    return int(os.environ.get(VARIABLE) or time.time() // _SECONDS_PER_DAY)


def is_due(name: str, day: int) -> bool:
    """Return whether a test runs on a day."""
    days = next((days for prefix, days in DAYS.items() if name.startswith(prefix)), 1)
    return zlib.crc32(name.encode()) % days == day % days


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove the tests of other days from ``items``, where ``make test`` runs a part of the tests."""
    day = os.environ.get(VARIABLE)
    if not day or not (config.getoption("--part") or config.getoption("--with-e2e")):
        return
    later = [item for item in items if not is_due(item.nodeid, int(day))]
    if later:
        items[:] = [item for item in items if is_due(item.nodeid, int(day))]
        config.hook.pytest_deselected(items=later)
