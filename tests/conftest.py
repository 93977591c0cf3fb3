"""Which tests run: those of ``tests/e2e`` need a cluster and run only with ``--with-e2e``."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.kept import kernels, store
from support.watches import (
    collections_of_cycles,
    cost_of_tests,
    failed_alone,
    left_threads,
    open_files,
    parts,
    rotation,
)

OVER_BUDGET = pytest.StashKey[str]()
WAS_STOPPED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Watch over what tests leave behind."""
    for watch in (left_threads, open_files, collections_of_cycles):
        config.pluginmanager.register(watch)
    config.pluginmanager.register(cost_of_tests.Meter(), "cost")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--with-e2e``, ``--failed-alone``, ``--part`` and ``--fuzz-seconds``."""
    parser.addoption(
        "--with-e2e",
        action="store_true",
        help="run tests/e2e on the cluster that KUBECONFIG names (`make test` does)",
    )
    parser.addoption(
        "--failed-alone",
        action="store_true",
        help="run what failed in the run before once more, without anything beside it",
    )
    parser.addoption(
        "--part",
        choices=parts.PARTS,
        help="run only the tests that only compute, those of processes, or the other unit tests",
    )
    parser.addoption(
        "--fuzz-seconds",
        type=float,
        default=12.0,
        help="how long random kernels are tried (`make test`: 60)",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the test files of the other part."""
    part = config.getoption("--part")
    if part is None or not collection_path.is_file():
        return None
    return True if parts.part_of(collection_path, config.rootpath) != part else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark and sort the end-to-end tests to the end; without the option say that they are skipped."""
    e2e = [item for item in items if item.nodeid.startswith("tests/e2e/")]
    for item in e2e:
        item.add_marker(pytest.mark.e2e)
        if not config.getoption("--with-e2e"):
            item.add_marker(pytest.mark.skip(reason="NOT RUN: needs the cluster of `make test`"))
    items.sort(key=lambda item: item.nodeid.startswith("tests/e2e/"))
    rotation.deselect(config, items)
    if config.getoption("--failed-alone"):
        items[:] = failed_alone.select_failed(config, items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let only tests that change no function read kernels that earlier runs compiled."""
    kernels.allow("monkeypatch" not in getattr(item, "fixturenames", ()))


def _keeps_failures(config: pytest.Config) -> bool:
    """Return whether ``--failed-alone`` may run this run's failures again."""
    return not (hasattr(config, "workerinput") or config.getoption("--failed-alone"))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Forget the failures of an earlier run, and the results that runs no longer read."""
    if _keeps_failures(session.config):
        failed_alone.record(session.config, [])
        all_tests = not session.config.getoption("--with-e2e")
        if all_tests and session.config.getoption("--part") in (None, parts.COMPUTING_PART):
            store.prune()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Record what failed; name what passed alone only."""
    stats = terminalreporter.stats
    failed = [
        (r.nodeid, str(r.longrepr)) for key in ("failed", "error") for r in stats.get(key, [])
    ]
    if _keeps_failures(config):
        was_stopped = config.stash.get(WAS_STOPPED, False)
        over_budget = config.stash.get(OVER_BUDGET, None)
        failed_alone.record(config, failed, over_budget, was_stopped=was_stopped)
    elif config.getoption("--failed-alone") and not failed:
        for report in stats.get("passed", []):
            terminalreporter.line(f"FLAKY {report.nodeid} - failed beside others, passed alone")


@pytest.hookimpl(trylast=True)  # after the workers have sent their figures
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Compare what the tests cost with the budgets; note whether all tests have run."""
    config = session.config
    config.stash[WAS_STOPPED] = bool(session.shouldfail or session.shouldstop)
    if hasattr(config, "workerinput") or not cost_of_tests.is_whole(config):
        return
    meter: Any = config.pluginmanager.get_plugin("cost")
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    lines, failed = cost_of_tests.compare(config, meter.costs)
    for line in lines:
        reporter.line(f"BUDGET {line}")
    if failed:
        config.stash[OVER_BUDGET] = lines[-1]
    if failed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory of a short name, instead of pytest's: sockets live in it, whose paths are limited."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as name:
        yield Path(name)
