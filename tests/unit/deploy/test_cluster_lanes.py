"""The lanes of the end-to-end tests: which tests run concurrently on one cluster."""

import itertools
import re
import tomllib
from pathlib import Path

import pytest

from support.cluster.cluster_restarts import RESTARTS
from support.cluster.interpreter_pool import INTERPRETER, VARIABLE, is_chosen
from support.cluster.lanes import FIRST, LANES, LATE, SCOPES, alone_on, lane_of, used_by

ROOT = Path(__file__).parents[3]
E2E = {path.name for path in (ROOT / "tests" / "e2e").rglob("test_*.py")}
ALL = {"rdma", "early", "claims", "first_node", "both_nodes", "control_plane"}


def test_each_file_in_a_lane_exists() -> None:
    assert LANES.keys() <= E2E
    assert set(LATE) <= E2E - LANES.keys()
    assert set(FIRST) <= E2E


@pytest.mark.parametrize(
    ("file", "needs_slices", "lane"),
    [
        ("test_rdma_wire.py", False, "rdma"),
        ("test_rdma_pods.py", True, "both_nodes"),
        ("test_dra.py", False, "claims"),
        ("test_sharing.py", False, "both_nodes"),
        ("test_modelled_clock.py", False, "control_plane"),
    ],
)
def test_a_file_s_lane(file: str, needs_slices: bool, lane: str) -> None:
    assert lane_of(file, needs_slices=needs_slices) == lane


def test_lanes_beside_each_other_share_no_gpu_node() -> None:
    """Those of RDMA use both nodes, but not their GPUs."""
    assert SCOPES.keys() == ALL | {"slices", "operator"}
    for one, other in itertools.combinations(("claims", "first_node", "control_plane"), 2):
        assert not SCOPES[one] & SCOPES[other]
    assert not SCOPES["control_plane"] & (SCOPES["early"] | SCOPES["both_nodes"] | SCOPES["rdma"])


def test_a_test_uses_the_parts_of_all_its_markers() -> None:
    assert used_by(("e2e", "slices", "both_nodes")) == {"first-node", "last-node", "hcas"}
    assert used_by(("e2e",)) == frozenset()


def test_a_test_may_have_all_of_the_cluster_alone_or_parts() -> None:
    assert alone_on() == frozenset().union(*SCOPES.values())
    assert alone_on("hcas") == {"hcas"}
    with pytest.raises(ValueError, match="gpus"):
        alone_on("hcas", "gpus")


def test_restarts_disturb_known_parts() -> None:
    for row in RESTARTS.values():
        alone_on(*row.disturbs)
    assert set(RESTARTS["policy changed"].disturbs) == alone_on()


def test_nothing_restarts_the_operator_while_a_test_reads_what_it_reports() -> None:
    for kind in ("operator deleted", "policy changed"):
        assert SCOPES["operator"] <= alone_on(*RESTARTS[kind].disturbs)
    restarts = (ROOT / "tests/e2e/restarts/test_operator_restarts.py").read_text()
    assert 'pytestmark = pytest.mark.alone("control-plane")' in restarts


def test_only_the_interpreter_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert not is_chosen()
    monkeypatch.setenv(VARIABLE, INTERPRETER)
    assert is_chosen()
    monkeypatch.setenv(VARIABLE, "interp")
    with pytest.raises(AssertionError, match="interp: the value may be Interpreter"):
        is_chosen()


def test_the_cluster_s_tests_are_run_lane_by_lane() -> None:
    """Makefile and markers name exactly the lanes: a lane that is missing would not be run."""
    text = (ROOT / "Makefile").read_text()
    selected = re.findall(r"tests/lane (\w+)", text.replace('lane "', "lane "))
    assert sorted(selected) == sorted(ALL | {"backend"})
    assert f"{VARIABLE}={INTERPRETER} tests/lane backend" in text
    assert 'tests/lane "both_nodes and not last"' in text
    assert '-m "$1 and not soak"' in (ROOT / "tests" / "lane").read_text()
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())
    markers = found["tool"]["pytest"]["ini_options"]["markers"]
    assert {one.partition(":")[0] for one in markers} >= ALL
