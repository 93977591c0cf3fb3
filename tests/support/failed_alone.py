"""What failed beside many others runs once more, alone, before a gate closes.

Tests of whole processes share the machine with each other, and a machine's pause can break a limit
that no defect broke. ``--failed-alone`` runs those that failed in the run before, one after the
other, and names them. It refuses what a busy machine does not explain: a test without processes, a
crash of the test process itself, and more failures than a few.
"""

from collections.abc import Iterable

import pytest

KEY = "tessera/failed"
OF_PROCESSES = (
    *("tests/abi/", "tests/integration/"),
    # Engines with threads, daemons, and the same once more with sanitizers.
    *("tests/unit/vgpu_sim/test_hca", "tests/unit/vgpu_sim/test_rdmacm"),
)
MOST = 6  # more of them are no accident


def record(config: pytest.Config, failed: Iterable[tuple[str, str]]) -> None:
    """Keep (node id, report) of what failed; a crash is kept under a name that nothing forgives."""
    if (cache := getattr(config, "cache", None)) is None:
        return  # a run inside a test's (-p no:cacheprovider): what called it fails by name
    names = {
        f"crash: {name}" if "crashed while running" in report else name for name, report in failed
    }
    cache.set(KEY, sorted(names))


def selected(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests to run again.

    Raises:
        pytest.UsageError: nothing failed that could be run again, or something that must not be.
    """
    assert config.cache is not None
    failed: list[str] = config.cache.get(KEY, [])
    if not failed:
        raise pytest.UsageError("no failed test was recorded: the run before broke off")
    if refused := [name for name in failed if not name.startswith(OF_PROCESSES)]:
        raise pytest.UsageError(f"not excused by a busy machine: {', '.join(refused)}")
    if len(failed) > MOST:
        raise pytest.UsageError(f"{len(failed)} tests failed; up to {MOST} are run again")
    chosen = [item for item in items if item.nodeid in failed]
    if len(chosen) != len(failed):
        raise pytest.UsageError(f"not found again: {set(failed) - {i.nodeid for i in chosen}}")
    return chosen
