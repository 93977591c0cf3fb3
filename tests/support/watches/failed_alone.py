"""Repeats the failed tests of a concurrent run alone, before a gate fails.

Tests of whole processes share the machine with each other, and a pause of the machine can exceed
a limit without any defect. ``--failed-alone`` runs the tests that failed in the previous run,
one after the other, and names them. It refuses failures that a busy machine does not explain: a
test without processes, a crash of the test process itself, and too many failures.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

KEY = "tessera/failures"
"""The name in pytest's cache, under which each part and each lane of the end-to-end tests has its own
list: they run at once.
"""
# Tests that start processes; those below tests/unit start engines with threads through C.
OF_PROCESSES = (
    "tests/abi/",
    "tests/e2e/",
    "tests/integration/",
    "tests/unit/hca/engine",
    "tests/unit/hca/cm/",
)
# What a test, or a module of these folders that it imports, imports to start a process or a thread.
STARTS = {"asyncio", "multiprocessing", "subprocess", "threading"}
RIGS = ("tests/support", "tests")
_IMPORT = re.compile(r"^(?:import|from) ([\w.]+)", re.MULTILINE)
CRASH = "crash: "
BUDGET = "budget: "  # of CPU seconds: another run would not lower the cost
STOPPED = "stopped: the other tests have not run"
LEFT = "left by another test: "  # a process, a file; the other test fails by itself
LATE = "too late: "  # pytest-timeout ended it; a real hang recurs when the test runs alone
EXCUSED = (LEFT, LATE)
MOST = 20  # a machine four times slower than usual broke fourteen


def record(
    config: pytest.Config,
    failed: Iterable[tuple[str, str]],
    over_budget: str | None = None,
    *,
    was_stopped: bool = False,
) -> None:
    """Store (node id, report) of each failed test; a crash, rooms over their budget, and the end of
    the run before its last test are stored under names that are never excused.
    """
    if (cache := getattr(config, "cache", None)) is None:
        return  # a run within a test (-p no:cacheprovider): the outer test fails
    names = {_kind(report) + name for name, report in failed}
    if was_stopped:
        names.add(STOPPED)
    if over_budget is not None:
        names.add(BUDGET + over_budget)
    cache.set(_key(config), sorted(names))


def _key(config: pytest.Config) -> str:
    lane = f"lane {config.getoption('markexpr')}" if config.getoption("--with-e2e") else None
    return f"{KEY}/{lane or config.getoption('--part') or 'all'}"


def _kind(report: str) -> str:
    """Return the prefix of the name of a test that failed with this report."""
    if "crashed while running" in report:
        return CRASH
    # pytest raises such an error when it collects the object, in whatever test runs then.
    if "PytestUnraisableExceptionWarning" in report:
        return LEFT
    return LATE if "from pytest-timeout" in report else ""


def may_lose(name: str, root: Path) -> bool:
    """Return whether a busy machine can make a test fail: it has processes or threads, or timed
    out.
    """
    if name.startswith((*EXCUSED, *OF_PROCESSES)):
        return True
    return _starts(root / name.partition("::")[0], root, set())


def _starts(file: Path, root: Path, seen: set[Path]) -> bool:
    """Return whether a file, or a support module that it imports, imports what starts processes or
    threads.
    """
    if file in seen or not file.is_file():
        return False
    seen.add(file)
    names = _IMPORT.findall(file.read_text())
    if not STARTS.isdisjoint(names):
        return True
    paths = [root / rigs / name.replace(".", "/") for rigs in RIGS for name in names]
    return any(
        _starts(found, root, seen)
        for path in paths
        for found in (path.with_suffix(".py"), path / "__init__.py")
    )


def select_failed(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests to run again.

    Raises:
        pytest.UsageError: there is no failed test to run again, or a failure is not excused.
    """
    assert config.cache is not None
    failed: list[str] = config.cache.get(_key(config), [])
    if not failed:
        raise pytest.UsageError("no failed test was recorded: the run before broke off")
    if refused := [name for name in failed if not may_lose(name, config.rootpath)]:
        raise pytest.UsageError(f"not excused by a busy machine: {', '.join(refused)}")
    if len(failed) > MOST:
        raise pytest.UsageError(f"{len(failed)} tests failed; up to {MOST} are run again")
    wanted = {name.removeprefix(LEFT).removeprefix(LATE) for name in failed}
    chosen = [item for item in items if item.nodeid in wanted]
    if len(chosen) != len(wanted):
        raise pytest.UsageError(f"not found again: {wanted - {i.nodeid for i in chosen}}")
    return chosen
