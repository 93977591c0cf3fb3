"""What failed beside many others runs once more, alone, before a gate closes.

Tests of whole processes share the machine with each other, and a machine's pause can break a limit
that no defect broke. ``--failed-alone`` runs those that failed in the run before, one after the
other, and names them. It refuses what a busy machine does not explain: a test without processes, a
crash of the test process itself, and more failures than a few.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

KEY = "tessera/failed"
# Of processes as such; the second line starts engines with threads through C.
OF_PROCESSES = (
    *("tests/abi/", "tests/integration/"),
    *("tests/unit/hca/engine", "tests/unit/hca/cm/"),
)
# What a unit test, or a module of these folders that it uses, imports to start a process or a thread.
STARTS = {"asyncio", "multiprocessing", "subprocess", "threading"}
RIGS = ("tests/support", "tests")
_IMPORT = re.compile(r"^(?:import|from) ([\w.]+)", re.MULTILINE)
CRASH = "crash: "
LEFT = "left by another test: "  # a process, a file; the other test is blamed by its own failure
LATE = "too late: "  # pytest-timeout ended it: what hangs hangs alone as well
EXCUSED = (LEFT, LATE)
MOST = 20  # more of them are no accident: a machine four times slower than usual broke fourteen


def record(config: pytest.Config, failed: Iterable[tuple[str, str]]) -> None:
    """Keep (node id, report) of what failed; a crash under a name that nothing forgives."""
    if (cache := getattr(config, "cache", None)) is None:
        return  # a run inside a test's (-p no:cacheprovider): what called it fails by name
    names = {_kind(report) + name for name, report in failed}
    cache.set(KEY, sorted(names))


def _kind(report: str) -> str:
    """Return what is said before the name of a test that failed with this report."""
    if "crashed while running" in report:
        return CRASH
    # pytest raises what it finds when an object is collected, in whatever test runs then.
    if "PytestUnraisableExceptionWarning" in report:
        return LEFT
    return LATE if "from pytest-timeout" in report else ""


def may_lose(name: str, root: Path) -> bool:
    """Return whether a busy machine can break a test: it has processes or threads, or came too late."""
    if name.startswith((*EXCUSED, *OF_PROCESSES)):
        return True
    return _starts(root / name.partition("::")[0], root, set())


def _starts(file: Path, root: Path, seen: set[Path]) -> bool:
    """Return whether a file, or a rig that it imports, imports what starts processes or threads."""
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


def selected(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests to run again.

    Raises:
        pytest.UsageError: nothing failed that could be run again, or something that must not be.
    """
    assert config.cache is not None
    failed: list[str] = config.cache.get(KEY, [])
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
