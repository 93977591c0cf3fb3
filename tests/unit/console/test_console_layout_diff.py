"""The layout diff: what an edit of a layout that GPUs follow would change."""

import random
import re

import pytest
from unit.console.test_console_pages import post

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster

EDIT = """
apiVersion: gpu.tessera.dev/v1alpha1
kind: MIGLayout
metadata: {name: mixed}
spec:
  selector: {pool: %s}
  instances:
  - {profile: %s}
"""


@pytest.fixture
def cluster() -> SyntheticCluster:
    """Return a node of two H100s that follow the layout ``mixed``."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    synthetic.add_company(cluster)
    return cluster


def test_an_edit_that_no_board_can_hold_releases_no_gpu(cluster: SyntheticCluster) -> None:
    text = post(cluster, EDIT % ("h100", "9g.90gb")).text
    assert "not applied: <bdi>" in text
    assert "2 GPUs follow this layout now" not in text
    assert "losing its slices" not in text


def test_a_change_of_a_gpu_that_is_not_healthy_is_marked(cluster: SyntheticCluster) -> None:
    cluster.objects["GPU"]["n1-gpu-1"]["status"]["health"] = "Unhealthy"
    text = post(cluster, EDIT % ("h100", "3g.40gb")).text
    (warning,) = re.findall(r"Not healthy, so that changes may fail:(.*?)</p>", text, re.DOTALL)
    assert "n1-gpu-1</bdi></a> (Unhealthy)" in warning
    assert "n1-gpu-0" not in warning


def test_an_edit_whose_selector_no_longer_matches_releases_the_gpus(
    cluster: SyntheticCluster,
) -> None:
    text = post(cluster, EDIT % ("other", "1g.10gb")).text
    assert "2 GPUs follow this layout now" in text
