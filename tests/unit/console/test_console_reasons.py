"""Every reason for which a pod can be pending: what *Why* states, and what would free it."""

import html
import random
import re
from typing import Any

import pytest
from unit.console.test_console_pages import fetch

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster

ONE_G = "gpu.tessera.dev/mig-1g.10gb"
WHOLE = "gpu.tessera.dev/gpu"


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a cluster with one node of two H100s with seven slices, six of them held."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    return cluster


def explain(cluster: SyntheticCluster, limits: dict[str, str], **spec: Any) -> str:
    """Return what the page states about a pod with these requests, without markup."""
    synthetic.add_pending_pod(cluster, "ml", "p", limits, **spec)
    return read(cluster)


def read(cluster: SyntheticCluster) -> str:
    answer = fetch(cluster, "/why/ml/p")
    assert answer.status == 200
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.text))
    return html.unescape(text)


def wait_for_claim(cluster: SyntheticCluster, claim: dict[str, Any] | None, **device: Any) -> str:
    """Return what the page states about a pod with a claim, which has this status."""
    for gpu in cluster.objects["GPU"].values():
        gpu["spec"]["allocation"] = "Both"
    pod = synthetic.add_pending_pod(cluster, "ml", "p", {})
    pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    selector = "device.driver == 'gpu.tessera.dev'"
    cluster.put(
        "DeviceClass",
        {"metadata": {"name": "mig"}, "spec": {"selectors": [{"cel": {"expression": selector}}]}},
    )
    if claim is not None:
        request = {"name": "gpu", "exactly": {"deviceClassName": "mig", **device}}
        metadata = {"name": "c", "namespace": "ml", **claim.pop("metadata", {})}
        spec = {"devices": {"requests": [request]}}
        cluster.put("ResourceClaim", {"metadata": metadata, "spec": spec, "status": claim})
    return read(cluster)


def test_a_profile_that_no_board_has_is_stated(node: SyntheticCluster) -> None:
    text = explain(node, {"gpu.tessera.dev/mig-9g.90gb": "1"})
    assert "1 does not have this resource" in text
    assert "No board of the cluster has this profile; its boards have 1c.2g.20gb" in text


def test_a_profile_of_the_board_that_no_layout_creates_is_no_unknown_one(
    node: SyntheticCluster,
) -> None:
    assert "No board of the cluster" not in explain(node, {"gpu.tessera.dev/mig-3g.40gb": "1"})


def test_all_held_slices_become_free_when_pods_end(node: SyntheticCluster) -> None:
    for gpu in node.objects["GPU"].values():
        gpu["status"]["slices"][6]["holders"] = [{"namespace": "a", "name": "b", "uid": "c"}]
    text = explain(node, {ONE_G: "1"})
    assert "1 requested; 14 present, 14 allocatable, 14 held, 0 free" in text
    assert "On node n1 enough is free when one pod of these ends: " in text


def test_devices_of_an_unhealthy_gpu_return_with_its_health(node: SyntheticCluster) -> None:
    for gpu in node.objects["GPU"].values():
        gpu["status"]["slices"][6]["holders"] = [{"namespace": "a", "name": "b", "uid": "c"}]
    for one in node.objects["GPU"]["n1-gpu-1"]["status"]["slices"][:4]:
        one["holders"] = []
    node.objects["GPU"]["n1-gpu-1"]["status"]["health"] = "Unhealthy: Xid 79"
    node.objects["Node"]["n1"]["status"]["allocatable"] = {ONE_G: "7"}
    assert (
        "Once these GPUs are healthy again, devices become free: 4 of n1-gpu-1 (Unhealthy: Xid 79)"
        in explain(node, {ONE_G: "1"})
    )


def test_a_cordoned_node_with_room_is_named_with_the_command(node: SyntheticCluster) -> None:
    node.objects["Node"]["n1"]["spec"]["unschedulable"] = True
    text = explain(node, {ONE_G: "1"})
    assert "Node n1 has 2 free, but is cordoned: `kubectl uncordon n1` lets pods on it." in text
    assert "No node that the pod can use" in text


def test_a_tainted_node_without_room_is_not_proposed(node: SyntheticCluster) -> None:
    node.objects["Node"]["n1"]["spec"]["taints"] = [{"key": "drained", "effect": "NoSchedule"}]
    assert "but is tainted" not in explain(node, {ONE_G: "3"})
    assert "Node n1 has 2 free, but is tainted drained:NoSchedule" in explain(node, {ONE_G: "2"})


def test_a_node_selector_is_compared_with_what_the_node_has(node: SyntheticCluster) -> None:
    node.objects["Node"]["n1"]["metadata"]["labels"]["zone"] = "b"
    text = explain(node, {ONE_G: "1"}, nodeSelector={"zone": "a"})
    assert "label zone=a is requested, the node has zone=b" in text
    text = explain(node, {ONE_G: "1"}, nodeSelector={"rack": "a"})
    assert "label rack=a is requested, the node has no such label" in text


def test_hcas_that_no_node_offers_need_a_pool(node: SyntheticCluster) -> None:
    text = explain(node, {"rdma.tessera.dev/hca": "1"})
    assert "No node offers HCAs: a GPUPool with spec.hcas does." in text


def test_a_layout_that_is_not_ready_is_named_with_its_message(node: SyntheticCluster) -> None:
    spec = {"selector": {"pool": "h100"}, "instances": [{"profile": "3g.40gb"}]}
    unready = {"type": "Ready", "status": "False", "reason": "Applying", "message": "0 of 2 GPUs"}
    unready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    layout = {"metadata": {"name": "l"}, "spec": spec, "status": {"conditions": [unready]}}
    node.put("MIGLayout", layout)
    text = explain(node, {"gpu.tessera.dev/mig-3g.40gb": "1"})
    assert "l : Applying: 0 of 2 GPUs" in text


def test_a_divided_gpu_that_no_pod_holds_can_become_whole(node: SyntheticCluster) -> None:
    for one in node.objects["GPU"]["n1-gpu-1"]["status"]["slices"]:
        one["holders"] = []
    text = explain(node, {WHOLE: "1"})
    assert "No pod holds a slice of n1-gpu-1 (layouts: mixed)" in text
    assert "n1-gpu-0 (layouts" not in text


def test_a_scheduling_gate_is_stated(node: SyntheticCluster) -> None:
    text = explain(node, {ONE_G: "1"}, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    assert "scheduling gate kueue.x-k8s.io/admission" in text


def test_init_containers_that_request_more_decide(node: SyntheticCluster) -> None:
    init = [{"name": "i", "resources": {"limits": {ONE_G: "3"}}}]
    text = explain(node, {ONE_G: "1"}, initContainers=init)
    assert "3 requested; 14 present" in text


def test_a_claim_that_does_not_exist(node: SyntheticCluster) -> None:
    assert "does not exist: the pod waits until it is created" in wait_for_claim(node, None)


def test_a_claim_of_a_template_that_was_not_created(node: SyntheticCluster) -> None:
    pod = synthetic.add_pending_pod(node, "ml", "p", {})
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    text = read(node)
    assert "has not been created from its ResourceClaimTemplate yet" in text
    assert "/why/ml/p" in fetch(node, "/why").text


def test_a_claim_without_room_names_what_frees_it(node: SyntheticCluster) -> None:
    text = wait_for_claim(node, {})
    assert "ClaimNoRoom" in text
    assert "Room appears when a claim or pod named above ends" in text


def test_a_claim_of_an_unknown_class(node: SyntheticCluster) -> None:
    text = wait_for_claim(node, {}, deviceClassName="gold")
    assert "DeviceClass gold does not exist" in text


def test_a_claim_whose_selectors_match_no_device_of_a_board(node: SyntheticCluster) -> None:
    wanted = "device.attributes['gpu.tessera.dev'].profile == '9g.90gb'"
    text = wait_for_claim(node, {}, selectors=[{"cel": {"expression": wanted}}])
    assert "ClaimNotOffered" in text
    assert "no board has it" in text


def _allocation(*pods: str, node: str = "n1") -> dict[str, Any]:
    result = {"driver": "gpu.tessera.dev", "pool": node, "device": "gpu-0-1g", "request": "gpu"}
    users = [{"resource": "pods", "name": one, "uid": one} for one in pods]
    return {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}


def test_a_claim_that_other_pods_use_ties_the_pod_to_its_node(node: SyntheticCluster) -> None:
    node.objects["Node"]["n1"]["spec"]["unschedulable"] = True
    text = wait_for_claim(node, _allocation("a", "b"))
    assert "is allocated on node n1, so the pod can only run there; node n1 is tainted" in text
    assert "It is reserved for ml/a, ml/b: once these have ended, another node can be" in text


def test_a_claim_with_as_many_pods_as_possible(node: SyntheticCluster) -> None:
    text = wait_for_claim(node, _allocation(*(f"p{number}" for number in range(256))))
    assert "and 248 more (no more are possible)" in text


def test_an_allocated_claim_without_users_can_be_deleted(node: SyntheticCluster) -> None:
    text = wait_for_claim(node, _allocation(node="gone"))
    assert "node gone does not exist" in text
    assert "No pod uses it: if it is deleted, its devices are free" in text


def test_a_claim_that_is_being_deleted(node: SyntheticCluster) -> None:
    text = wait_for_claim(node, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert "is being deleted" in text


def test_a_claim_of_another_driver_is_not_evaluated(node: SyntheticCluster) -> None:
    foreign = {"driver": "net.example.com", "pool": "n1", "device": "d", "request": "gpu"}
    text = wait_for_claim(node, {"allocation": {"devices": {"results": [foreign]}}})
    assert "is allocated, with devices of another driver" in text


def test_a_pod_that_pulls_its_image_waits_for_no_device(node: SyntheticCluster) -> None:
    pod = synthetic.add_pending_pod(node, "ml", "p", {ONE_G: "1"})
    pod["spec"]["nodeName"] = "n1"
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": "c", "state": state}]}
    text = read(node)
    assert "devices are not what it waits for" in text
    assert "The kubelet reports: ImagePullBackOff: no such image" in text
    assert "/why/ml/p" in fetch(node, "/why").text
    pod["status"] = {"phase": "Running"}
    assert fetch(node, "/why/ml/p").status == 404


def test_a_pod_that_a_quota_refuses_is_no_pod(node: SyntheticCluster) -> None:
    assert "A pod that a ResourceQuota" in fetch(node, "/why").text
