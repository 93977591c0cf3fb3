"""Which failed tests may be rerun alone, and which failures a busy machine does not excuse."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from support.watches import failed_alone


class Cache:
    """The parts of pytest's cache that are used."""

    def __init__(self) -> None:
        self.kept: dict[str, object] = {}

    def get(self, key, default):
        return self.kept.get(key, default)

    def set(self, key, value):
        self.kept[key] = value


def config_of(part: str | None, cache: Cache, lane: str | None = None) -> SimpleNamespace:
    options = {"--part": part, "--with-e2e": lane is not None, "markexpr": lane}
    return SimpleNamespace(cache=cache, rootpath=Path(__file__).parents[3], getoption=options.get)


def after(*failed: tuple[str, str], over_budget: str | None = None) -> SimpleNamespace:
    config = config_of(None, Cache())
    failed_alone.record(config, failed, over_budget)
    return config


ITEMS = [SimpleNamespace(nodeid=f"tests/integration/test_a.py::test_{i}") for i in range(30)]


def test_only_a_test_of_processes_is_rerun():
    config = after((ITEMS[3].nodeid, "timed out"), (ITEMS[3].nodeid, "error at teardown"))
    assert failed_alone.select_failed(config, ITEMS) == [ITEMS[3]]


def test_each_part_has_its_own_failures():
    cache = Cache()
    processes, computing = config_of("processes", cache), config_of("computing", cache)
    failed_alone.record(processes, [(ITEMS[3].nodeid, "timed out")])
    failed_alone.record(computing, [])
    assert failed_alone.select_failed(processes, ITEMS) == [ITEMS[3]]
    with pytest.raises(pytest.UsageError, match="no failed test was recorded"):
        failed_alone.select_failed(computing, ITEMS)


def test_each_lane_of_the_cluster_has_its_own_failures():
    cache, item = Cache(), SimpleNamespace(nodeid="tests/e2e/rdma/test_rdma_wire.py::test_a")
    rdma, pools = config_of(None, cache, "rdma"), config_of(None, cache, "control_plane")
    failed_alone.record(rdma, [(item.nodeid, "TimeoutError")])
    failed_alone.record(pools, [])
    assert failed_alone.select_failed(rdma, [item]) == [item]
    with pytest.raises(pytest.UsageError, match="no failed test was recorded"):
        failed_alone.select_failed(pools, [item])


def test_a_run_that_stopped_early_is_not_excused():
    config = config_of(None, Cache(), "rdma")
    item = SimpleNamespace(nodeid="tests/e2e/rdma/test_rdma_wire.py::test_a")
    failed_alone.record(config, [(item.nodeid, "TimeoutError")], was_stopped=True)
    with pytest.raises(pytest.UsageError, match="stopped: the other tests have not run"):
        failed_alone.select_failed(config, [item])


def test_a_unit_test_that_starts_processes_is_rerun():
    item = SimpleNamespace(
        nodeid="tests/unit/vgpu_sim/worker_process/test_worker_native.py::test_one"
    )
    assert failed_alone.select_failed(after((item.nodeid, "slow")), [item]) == [item]


def test_a_test_that_starts_processes_through_a_rig_is_rerun(tmp_path):
    (tmp_path / "tests/support").mkdir(parents=True)
    (tmp_path / "tests/support/rig.py").write_text("import deeper\n")
    (tmp_path / "tests/support/deeper.py").write_text("from subprocess import Popen\nimport rig\n")
    (tmp_path / "tests/test_a.py").write_text("import json\nfrom rig import run\n")
    (tmp_path / "tests/test_b.py").write_text("import json\n")
    assert failed_alone.may_lose("tests/test_a.py::test_one", tmp_path)
    assert not failed_alone.may_lose("tests/test_b.py::test_one", tmp_path)


def test_a_test_that_timed_out_is_rerun():
    item = SimpleNamespace(nodeid="tests/unit/deploy/test_failed_alone.py::test_one")
    report = "Failed: Timeout (>300.0s) from pytest-timeout."
    assert failed_alone.select_failed(after((item.nodeid, report)), [item]) == [item]


def test_a_run_that_fails_by_its_cost_alone_names_the_rooms():
    config = after(over_budget="over by more than a fifth twice in a row: unit/mig")
    with pytest.raises(pytest.UsageError, match=r"not excused .*budget: over .*: unit/mig"):
        failed_alone.select_failed(config, ITEMS)


def test_leftovers_of_another_test_do_not_fail_the_current_one():
    item = SimpleNamespace(nodeid="tests/unit/mig/test_a.py::test_one")
    report = "PytestUnraisableExceptionWarning: ... subprocess 7 is still running"
    assert failed_alone.select_failed(after((item.nodeid, report)), [item]) == [item]
    with pytest.raises(pytest.UsageError, match="not excused"):
        failed_alone.select_failed(after((item.nodeid, report), (item.nodeid, "wrong")), [item])


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        ([], "broke off"),
        ([("tests/unit/deploy/test_failed_alone.py::test_one", "wrong")], "not excused"),
        ([(ITEMS[0].nodeid, "worker 'gw1' crashed while running it")], "not excused"),
        (
            [(item.nodeid, "slow") for item in ITEMS[: failed_alone.MOST + 1]],
            f"{failed_alone.MOST + 1} tests failed",
        ),
        ([("tests/integration/test_b.py", "cannot be imported")], "not found again"),
    ],
)
def test_failures_that_are_not_rerun(failed, words):
    with pytest.raises(pytest.UsageError, match=words):
        failed_alone.select_failed(after(*failed), ITEMS)
