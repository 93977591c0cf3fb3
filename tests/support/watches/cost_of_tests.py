"""Measures the cost of tests: CPU seconds of each test file and room, compared with rooms' budgets.

A run of all tests keeps its figures in pytest's cache; ``make test-cost`` prints them. A room is
a folder of test files. ``tests/budget.toml`` gives each a budget of CPU seconds: those of the
test process and of the children that it waited for. A run names the rooms that are over their
budget, and fails if a room is over by more than a fifth twice in a row. On a slower or busier
machine all rooms take longer, so there the budgets grow by a factor. It is that of the upper
quartile of rooms, because machines differ more in Python's speed than in that of compiled code.
"""

import json
import os
import platform
import resource
import statistics
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

KEY = "tessera/cost"
BUDGETS = Path(__file__).parents[2] / "budget.toml"
TOLERATED = 1.2
# Budgets are half more than was measured, so rooms usually take two thirds of them. Fewer rooms, or
# short ones, do not show a machine's speed.
_USUAL = 2 / 3
_ROOMS, _LONG_S = 10, 1.0
_SENT = "tessera_cost"
SESSION = "tests/session/fixtures"
"""Takes the place of a file for the end of what all tests of a process share, such as daemons, whose
CPU time counts once they have ended.
"""


class Cost(NamedTuple):
    """The time that a file's tests took, in seconds, and their number."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    tests: int = 0

    def plus(self, other: "Cost") -> "Cost":
        """Return the sum of both."""
        return Cost(self.cpu_s + other.cpu_s, self.wall_s + other.wall_s, self.tests + other.tests)


Costs = Mapping[str, Cost]


class Meter:
    """Measures the tests of this process; the controller of a distributed run adds them up."""

    def __init__(self) -> None:
        self.costs: dict[str, Cost] = {}
        self._of_session = Cost()

    def add(self, file: str, cost: Cost) -> None:
        """Count one more test of a file, or the figures that another process measured."""
        self.costs[file] = self.costs.get(file, Cost()).plus(cost)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure a test with its fixtures."""
        cpu, wall = _cpu_s(), time.monotonic()
        try:
            return (yield)
        finally:
            cpu += self._of_session.cpu_s
            wall += self._of_session.wall_s
            spent = Cost(_cpu_s() - cpu, time.monotonic() - wall, 1)
            self.add(item.nodeid.partition("::")[0], spent)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> Iterator[None]:
        """Measure the end of the last test, with which the session's fixtures end."""
        cpu, wall = _cpu_s(), time.monotonic()
        try:
            return (yield)
        finally:
            if nextitem is None:
                self._of_session = Cost(_cpu_s() - cpu, time.monotonic() - wall)
                self.add(SESSION, self._of_session)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the figures to the controller."""
        sent: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if sent is not None:
            sent[_SENT] = {file: tuple(cost) for file, cost in self.costs.items()}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the figures of a worker; a worker that crashed has sent none."""
        for file, cost in getattr(node, "workeroutput", {}).get(_SENT, {}).items():
            self.add(file, Cost(*cost))


def _cpu_s() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def room_of(file: str) -> str:
    """Return a test file's room: its folder, without the first ``tests/``."""
    return str(Path(file).parent).removeprefix("tests/")


def by_room(costs: Costs) -> dict[str, Cost]:
    """Add up the files of each room."""
    rooms = Meter()
    for file, cost in costs.items():
        rooms.add(room_of(file), cost)
    return rooms.costs


def budgets() -> dict[str, float]:
    """Return each room's budget, in CPU seconds."""
    return {room: float(s) for room, s in tomllib.loads(BUDGETS.read_text())["cpu_seconds"].items()}


def over_budget(costs: Costs, allowed: Mapping[str, float]) -> dict[str, float]:
    """Return the rooms over their budget, as the ratio of spent to allowed; infinite without a
    budget.
    """
    spent = {room: cost.cpu_s for room, cost in by_room(costs).items()}
    return {
        room: cpu_s / allowed[room] if allowed.get(room) else float("inf")
        for room, cpu_s in spent.items()
        if cpu_s > allowed.get(room, 0.0)
    }


def slowness(costs: Costs, allowed: Mapping[str, float]) -> float:
    """Return how many times longer than usual this run's upper quartile of rooms took; at least 1."""
    shares = [
        cost.cpu_s / allowed[room]
        for room, cost in by_room(costs).items()
        if allowed.get(room) and cost.cpu_s >= _LONG_S
    ]
    return max(1.0, statistics.quantiles(shares)[2] / _USUAL) if len(shares) >= _ROOMS else 1.0


def compare(config: pytest.Config, costs: Costs) -> tuple[list[str], bool]:
    """Store the figures of a run of all tests; return the lines to print, and whether the run
    fails.
    """
    assert config.cache is not None
    config.cache.set(f"{KEY}/{_kind(config)}", costs)
    if config.getoption("--with-e2e"):
        return [], False  # the cluster does the work, in processes that are not children
    slower = slowness(costs, budgets())
    over = over_budget(costs, {room: slower * s for room, s in budgets().items()})
    far = sorted(room for room, times in over.items() if times > TOLERATED)
    again = sorted(set(far) & set(_replace_record(far, _kind(config))))
    lines = [f"{room}: {times:.2f} times its budget" for room, times in sorted(over.items())]
    if over and slower > 1:
        lines.append(f"budgets were multiplied by {slower:.2f}, as most rooms are slower here")
    if again:
        lines.append(f"over by more than a fifth twice in a row: {', '.join(again)}")
    return lines, bool(again)


def _replace_record(far: list[str], kind: str) -> list[str]:
    """Record which rooms are far over their budget; return those recorded by this machine's
    previous run of the same kind.

    The record outlives a checkout, because continuous integration makes a new one for each run.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tessera"
    file = folder / f"over-budget-{kind.replace(' ', '-')}-{platform.node()}.json"
    before: list[str] = json.loads(file.read_text()) if file.exists() else []
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(far))
    return before


def is_whole(config: pytest.Config) -> bool:
    """Return whether a run includes all tests of its kind, so that its figures can be compared."""
    if config.getoption("--with-e2e"):
        return config.args == ["tests/e2e"]
    option = config.option
    chosen = option.keyword or option.markexpr or config.getoption("--failed-alone")
    return config.args == config.getini("testpaths") and not chosen


def _kind(config: pytest.Config) -> str:
    """Return "e2e" with its marks, or "local" with its part, if it is not all tests."""
    if config.getoption("--with-e2e"):
        return f"e2e {config.option.markexpr}"
    return f"local {config.getoption('--part') or ''}".rstrip()


def table(kind: str, costs: Costs, allowed: Mapping[str, float], files: int) -> str:
    """Return the rooms, and the ``files`` most expensive files, by descending cost, as lines of
    text.
    """

    def line(name: str, cost: Cost, budget: str = "") -> str:
        return f"{cost.cpu_s:9.1f} {budget:>9} {cost.wall_s:9.1f} {cost.tests:7d}  {name}"

    def dearest(of: Costs) -> list[tuple[str, Cost]]:
        return sorted(of.items(), key=lambda one: (one[1].cpu_s, one[1].wall_s), reverse=True)

    total = Cost()
    for cost in costs.values():
        total = total.plus(cost)
    head = f"{'CPU s':>9} {'budget':>9} {'wall s':>9} {'tests':>7}  {kind}"
    rooms = [
        line(r, c, f"{allowed[r]:g}" if r in allowed else "") for r, c in dearest(by_room(costs))
    ]
    listed = [line(name, cost) for name, cost in dearest(costs)[:files]]
    return "\n".join((head, *rooms, line("all", total), "", *listed))


def main() -> int:
    """Print the figures of the last runs; return 1 if there are none (``make test-cost``)."""
    kept = BUDGETS.parents[1] / ".pytest_cache/v" / KEY
    found = sorted(kept.glob("*")) if kept.is_dir() else []
    if not found:
        print("no run of all tests is recorded: make test, or make test-quick", file=sys.stderr)
        return 1
    for one in found:
        costs = {file: Cost(*cost) for file, cost in json.loads(one.read_text()).items()}
        print(table(one.name, costs, {} if "e2e" in one.name else budgets(), 25), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
