"""The lanes of the end-to-end tests: which tests run concurrently on one cluster."""

import re
import tomllib
from pathlib import Path

import pytest

from support.cluster.lanes import LANES, LATE, lane_of

ROOT = Path(__file__).parents[3]
E2E = {path.name for path in (ROOT / "tests" / "e2e").rglob("test_*.py")}
ALL = {"rdma", "early", "claims", "first_node", "both_nodes"}


def test_each_file_in_a_lane_exists() -> None:
    assert LANES.keys() <= E2E
    assert set(LATE) <= E2E - LANES.keys()


@pytest.mark.parametrize(
    ("file", "needs_slices", "lane"),
    [
        ("test_rdma_wire.py", False, "rdma"),
        ("test_rdma_pods.py", True, "both_nodes"),
        ("test_dra.py", False, "claims"),
        ("test_sharing.py", False, "both_nodes"),
    ],
)
def test_a_file_s_lane(file: str, needs_slices: bool, lane: str) -> None:
    assert lane_of(file, needs_slices=needs_slices) == lane


def test_the_cluster_s_tests_are_run_lane_by_lane() -> None:
    """Makefile and markers name exactly the lanes: a lane that is missing would not be run."""
    text = (ROOT / "Makefile").read_text()
    selected = re.findall(r'-m \\?"(\w+) and not (?:soak|last and not soak)\\?"', text)
    assert sorted(selected) == sorted(ALL)
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())
    markers = found["tool"]["pytest"]["ini_options"]["markers"]
    assert {one.partition(":")[0] for one in markers} >= ALL
