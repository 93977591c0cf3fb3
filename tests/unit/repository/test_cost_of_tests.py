"""Budgets of test time: who is over, and when that fails a run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.watches import cost_of_tests
from support.watches.cost_of_tests import Cost, by_room, over_budget, table

COSTS = {
    "tests/unit/mig/test_a.py": Cost(3.0, 4.0, 5),
    "tests/unit/mig/test_b.py": Cost(2.0, 9.0, 1),
    "tests/abi/test_c.py": Cost(7.0, 8.0, 2),
}


class Cache(dict[str, Any]):
    """pytest's cache, in memory."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return SimpleNamespace(cache=Cache(), getoption=lambda name: False)


def test_the_files_of_a_room_are_added_up() -> None:
    assert by_room(COSTS) == {"unit/mig": Cost(5.0, 13.0, 6), "abi": Cost(7.0, 8.0, 2)}


@pytest.mark.parametrize("is_last", [False, True])
def test_the_end_of_a_session_is_not_charged_to_its_last_test(
    monkeypatch: pytest.MonkeyPatch, is_last: bool
) -> None:
    clock = iter([0.0, 1.0, 11.0, 12.0])
    meter, item = cost_of_tests.Meter(), SimpleNamespace(nodeid="tests/unit/test_a.py::test_one")
    test = meter.pytest_runtest_protocol(item)  # type: ignore[arg-type]
    teardown = meter.pytest_runtest_teardown(None if is_last else item)  # type: ignore[arg-type]
    with monkeypatch.context() as patch:  # the meter of this test reads that clock, too
        patch.setattr(cost_of_tests, "_cpu_s", lambda: next(clock))
        for step in (test, teardown, teardown, test):
            next(step, None)
    spent = {room: cost.cpu_s for room, cost in by_room(meter.costs).items()}
    assert spent == ({"unit": 2.0, "session": 10.0} if is_last else {"unit": 11.0})


def test_each_room_has_a_budget() -> None:
    root = Path(__file__).parents[3]
    files = (file.relative_to(root) for file in root.glob("tests/**/test_*.py"))
    rooms = {cost_of_tests.room_of(str(file)) for file in files}
    assert rooms - cost_of_tests.budgets().keys() == set()


@pytest.mark.parametrize(("budget", "over"), [(5.0, {}), (4.0, {"unit/mig": 1.25})])
def test_a_room_is_over_from_its_budget_on(budget: float, over: dict[str, float]) -> None:
    assert over_budget(COSTS, {"unit/mig": budget, "abi": 7.0}) == over


def test_a_room_without_a_budget_is_over() -> None:
    assert over_budget(COSTS, {"unit/mig": 9.0}) == {"abi": float("inf")}


@pytest.mark.parametrize(("budget", "fails"), [(4.1, True), (4.2, False)])
def test_over_by_a_fifth_twice_in_a_row_fails(
    config: Any, monkeypatch: pytest.MonkeyPatch, budget: float, fails: bool
) -> None:
    monkeypatch.setattr(cost_of_tests, "budgets", lambda: {"unit/mig": budget, "abi": 7.0})
    first, failed = cost_of_tests.compare(config, COSTS)
    assert len(first) == 1
    assert not failed
    again, failed = cost_of_tests.compare(config, COSTS)
    assert failed == fails
    assert ("twice in a row: unit/mig" in again[-1]) == fails


@pytest.mark.parametrize(("spent", "fails"), [(8.0, False), (9.0, True)])
def test_a_slower_machine_has_larger_budgets(
    config: Any, monkeypatch: pytest.MonkeyPatch, spent: float, fails: bool
) -> None:
    """All rooms take 1.5 times as long as usual there, so one of 4 s may take 6 s, and a fifth."""
    others = {f"tests/r{number}/test_a.py": Cost(10.0, 10.0, 1) for number in range(11)}
    allowed = {f"r{number}": 10.0 for number in range(11)} | {"unit": 4.0}
    monkeypatch.setattr(cost_of_tests, "budgets", lambda: allowed)
    costs = others | {"tests/unit/test_a.py": Cost(spent * 0.9, 9.0, 1)}
    cost_of_tests.compare(config, costs)
    lines, failed = cost_of_tests.compare(config, costs)
    assert failed == fails
    assert "budgets were multiplied by 1.50, as most rooms are slower here" in lines


def test_a_run_between_within_its_budget_forgives_the_first(
    config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_of_tests, "budgets", lambda: {"unit/mig": 1.0, "abi": 7.0})
    cost_of_tests.compare(config, COSTS)
    cost_of_tests.compare(config, {"tests/abi/test_c.py": Cost(7.0, 8.0, 2)})
    assert not cost_of_tests.compare(config, COSTS)[1]


def test_another_machine_has_figures_of_its_own(
    config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_of_tests, "budgets", lambda: {"unit/mig": 1.0, "abi": 7.0})
    cost_of_tests.compare(config, COSTS)
    monkeypatch.setattr(cost_of_tests.platform, "node", lambda: "elsewhere")
    assert not cost_of_tests.compare(config, COSTS)[1]


def test_the_table_has_the_dearest_first() -> None:
    lines = table("local", COSTS, {"abi": 7.0}, 1).splitlines()
    assert [line.split()[-1] for line in lines if line] == [
        *("local", "abi", "unit/mig", "all"),
        "tests/abi/test_c.py",
    ]
    assert lines[1].split()[:2] == ["7.0", "7"]
