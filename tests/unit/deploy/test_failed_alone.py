"""What may be run again alone, and what a busy machine does not excuse."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from support.watches import failed_alone


class Cache:
    """pytest's cache, as far as it is used."""

    def __init__(self) -> None:
        self.kept: dict[str, object] = {}

    def get(self, key, default):
        return self.kept.get(key, default)

    def set(self, key, value):
        self.kept[key] = value


def after(*failed: tuple[str, str]) -> SimpleNamespace:
    config = SimpleNamespace(cache=Cache(), rootpath=Path(__file__).parents[3])
    failed_alone.record(config, failed)
    return config


ITEMS = [SimpleNamespace(nodeid=f"tests/integration/test_a.py::test_{i}") for i in range(30)]


def test_a_test_of_processes_runs_again_and_nothing_else():
    config = after((ITEMS[3].nodeid, "timed out"), (ITEMS[3].nodeid, "error at teardown"))
    assert failed_alone.selected(config, ITEMS) == [ITEMS[3]]


def test_so_does_a_unit_test_that_starts_processes():
    item = SimpleNamespace(
        nodeid="tests/unit/vgpu_sim/worker_process/test_worker_native.py::test_one"
    )
    assert failed_alone.selected(after((item.nodeid, "slow")), [item]) == [item]


def test_so_does_one_that_starts_them_through_a_rig(tmp_path):
    (tmp_path / "tests/support").mkdir(parents=True)
    (tmp_path / "tests/support/rig.py").write_text("import deeper\n")
    (tmp_path / "tests/support/deeper.py").write_text("from subprocess import Popen\nimport rig\n")
    (tmp_path / "tests/test_a.py").write_text("import json\nfrom rig import run\n")
    (tmp_path / "tests/test_b.py").write_text("import json\n")
    assert failed_alone.may_lose("tests/test_a.py::test_one", tmp_path)
    assert not failed_alone.may_lose("tests/test_b.py::test_one", tmp_path)


def test_so_does_what_was_ended_for_its_time():
    item = SimpleNamespace(nodeid="tests/unit/deploy/test_failed_alone.py::test_one")
    report = "Failed: Timeout (>300.0s) from pytest-timeout."
    assert failed_alone.selected(after((item.nodeid, report)), [item]) == [item]


def test_what_another_test_left_behind_is_not_blamed_on_the_one_that_ran():
    item = SimpleNamespace(nodeid="tests/unit/mig/test_a.py::test_one")
    report = "PytestUnraisableExceptionWarning: ... subprocess 7 is still running"
    assert failed_alone.selected(after((item.nodeid, report)), [item]) == [item]
    with pytest.raises(pytest.UsageError, match="not excused"):
        failed_alone.selected(after((item.nodeid, report), (item.nodeid, "wrong")), [item])


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
def test_what_has_no_second_try(failed, words):
    with pytest.raises(pytest.UsageError, match=words):
        failed_alone.selected(after(*failed), ITEMS)
