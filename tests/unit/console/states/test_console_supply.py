"""What the scheduler can allocate when pods hold devices that are not offered: on every page."""

import html
import random
import re
from typing import Any

import pytest
from unit.console.test_console_pages import fetch

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster

ONE_G = "gpu.tessera.dev/mig-1g.10gb"
HUNG = "Unhealthy: GPU-1 hangs (Xid 109)"


def _gpu(cluster: SyntheticCluster, index: int) -> dict[str, Any]:
    return cluster.objects["GPU"][f"n1-gpu-{index}"]


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a node with 3 free slices of one GPU, and 7 of another that hangs, 5 of them held."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    healthy, hung = _gpu(cluster, 0), _gpu(cluster, 1)
    healthy["status"]["slices"] = healthy["status"]["slices"][:3]
    healthy["spec"]["instances"] = healthy["spec"]["instances"][:3]
    for one in healthy["status"]["slices"]:
        one["holders"] = []
    hung["status"]["health"] = HUNG
    for one in hung["status"]["slices"]:
        one |= {"health": HUNG, "admitted": False}
    hung["status"]["slices"][5]["holders"] = []
    status = cluster.objects["Node"]["n1"]["status"]
    status["allocatable"] = {ONE_G: "3"}
    status["conditions"][1] |= {"status": "False", "reason": "Unhealthy", "message": "n1-gpu-1: x"}
    return cluster


def why(cluster: SyntheticCluster, number: int = 1) -> str:
    synthetic.add_pending_pod(cluster, "ml", "p", {ONE_G: str(number)})
    text = re.sub(r"<[^>]*>", " ", fetch(cluster, "/why/ml/p").text)
    return html.unescape(re.sub(r"\s+", " ", text))


def test_pods_of_a_hung_gpu_are_named_as_what_uses_up_the_others(node: SyntheticCluster) -> None:
    text = why(node)
    assert "1 has devices in service that count as used by pods on others" in text
    assert (
        "1 requested; 10 present, 3 allocatable, 5 held, 0 free; missing: 7 of n1-gpu-1"
        f" ({HUNG}); 5 pods on devices that are not offered count against the 3 allocatable: 5 on"
        f" n1-gpu-1 ({HUNG}); so 0 of 3 in service that no pod holds can be allocated" in text
    )
    assert "When 3 of these pods end the scheduler counts 1 free: " in text
    for false in ("restarts", "has restarted", "does not offer all of them yet", "serve its GPUs"):
        assert false not in text


def test_health_frees_what_the_scheduler_then_counts_free(node: SyntheticCluster) -> None:
    """Of the seven devices of the GPU that hangs, pods hold five."""
    others = "3 of these on other GPUs of n1"
    assert f"devices become free: 5 with n1-gpu-1 ({HUNG}; {others})." in why(node)


def test_a_slice_that_admits_no_pod_although_it_is_healthy_is_a_restart(
    node: SyntheticCluster,
) -> None:
    for one in _gpu(node, 0)["status"]["slices"]:
        one["admitted"] = False
    assert "the kubelet or the node agent restarts" in why(node)


def test_health_frees_no_device_that_pods_hold(node: SyntheticCluster) -> None:
    healthy, hung = _gpu(node, 0), _gpu(node, 1)
    holder = [{"namespace": "a", "name": "b", "uid": "c"}]
    for one in (*healthy["status"]["slices"], *hung["status"]["slices"]):
        one["holders"] = holder
    text = why(node)
    assert "devices become free" not in text
    assert f"The health of n1-gpu-1 ({HUNG}) frees no device by itself" in text


def test_health_frees_no_device_that_a_changed_layout_no_longer_requests(
    node: SyntheticCluster,
) -> None:
    _gpu(node, 1)["spec"]["instances"] = []
    _gpu(node, 1)["spec"]["instances"] = [{"profile": "7g.80gb", "start": 0}]
    assert "devices become free" not in why(node)


def test_free_slices_that_cannot_be_allocated_are_marked_where_room_is_shown(
    node: SyntheticCluster,
) -> None:
    rooms = fetch(node, "/slices", "profile=1g.10gb").text
    assert "so 0 of 3 in service that no pod holds can be allocated" in rooms
    assert "1g.10gb: 3 of 10 free, 0 can be allocated now" in fetch(node, "/").text
    page = fetch(node, "/nodes/n1").text
    assert '<td data-label="Can be allocated now" class="num">0</td>' in page
    for one in _gpu(node, 1)["status"]["slices"]:
        one["holders"] = []
    assert "can be allocated" not in fetch(node, "/slices", "profile=1g.10gb").text
    assert "1g.10gb: 3 of 10 free<" in fetch(node, "/").text.replace(" ·", "<")


def test_a_node_with_one_gpu_in_service_serves_gpus(node: SyntheticCluster) -> None:
    node.objects["Node"]["n1"]["status"]["allocatable"] = {ONE_G: "0"}
    _gpu(node, 0)["status"]["slices"] = []
    _gpu(node, 0)["spec"]["instances"] = []
    text = why(node)
    assert "1 has no such device in service" in text
    assert "does not serve its GPUs" not in text
    _gpu(node, 0)["status"]["health"] = HUNG
    assert "does not serve its GPUs" in why(node)


def test_a_stale_condition_about_a_gpu_that_is_healthy_again_is_no_reason(
    node: SyntheticCluster,
) -> None:
    hung = _gpu(node, 1)["status"]
    hung["health"] = "Healthy"
    for one in hung["slices"]:
        one |= {"health": "Healthy", "admitted": True}
    node.objects["Node"]["n1"]["status"]["allocatable"] = {ONE_G: "0"}
    text = why(node)
    assert "10 that the kubelet does not offer" in text
    assert "does not serve its GPUs" not in text
    assert "Unhealthy" not in text


def test_a_node_whose_agent_does_not_answer_serves_none(node: SyntheticCluster) -> None:
    status = node.objects["Node"]["n1"]["status"]
    status["allocatable"] = {ONE_G: "0"}
    status["conditions"][1] |= {"reason": "AgentUnreachable", "message": "gpud is down"}
    assert "does not serve its GPUs" in why(node)


def test_the_layout_to_edit_is_named_where_every_gpu_follows_one(node: SyntheticCluster) -> None:
    spec = {"selector": {"pool": "h100"}, "instances": [{"profile": "1g.10gb", "count": 3}]}
    node.put("MIGLayout", {"metadata": {"name": "mixed"}, "spec": spec})
    synthetic.add_pending_pod(node, "ml", "q", {"gpu.tessera.dev/mig-2g.20gb": "1"})
    page = fetch(node, "/why/ml/q").text
    assert "node n1 (n1-gpu-0 follows layout mixed), so no pod has to move on GPU n1-gpu-0." in page
    assert "A GPU follows only the oldest layout that selects it" in page
    assert "Edit layout mixed so that it requests 1 × 2g.20gb on each of its GPUs." in page
    assert 'href="/layout?name=mixed">See what an edit changes' in page
    assert "a layout that requests this profile there creates it" not in page
    _gpu(node, 0)["spec"]["layout"] = None
    page = fetch(node, "/why/ml/q").text
    assert "a layout that requests this profile there creates it" in page
