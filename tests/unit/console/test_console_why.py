"""Why a pod waits: the obstacle of each node, and advice that one node can follow."""

import html
import random
import re

import pytest
from unit.console.test_console_pages import fetch

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster

ONE_G = "gpu.tessera.dev/mig-1g.10gb"


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a cluster with one node of two H100s with seven slices, six of them held."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    return cluster


def _lose_gpu(cluster: SyntheticCluster, allocatable: int) -> None:
    """Let a node report that it does not serve a GPU, and offer fewer slices."""
    status = cluster.objects["Node"]["n1"]["status"]
    status["conditions"][1] |= {
        "status": "False",
        "reason": "Unhealthy",
        "message": "n1-gpu-1: Xid 79",
    }
    status["allocatable"] = {ONE_G: str(allocatable)}
    cluster.objects["GPU"]["n1-gpu-1"]["status"]["health"] = "Unhealthy: Xid 79"


def test_a_node_with_one_lost_gpu_still_counts_the_slices_of_the_other(
    node: SyntheticCluster,
) -> None:
    for one in node.objects["GPU"]["n1-gpu-1"]["status"]["slices"]:
        one["holders"] = []
    for one in node.objects["GPU"]["n1-gpu-0"]["status"]["slices"][:4]:
        one["holders"] = []
    _lose_gpu(node, 7)
    synthetic.add_pending_pod(node, "ml", "small", {ONE_G: "1"})
    synthetic.add_pending_pod(node, "ml", "large", {ONE_G: "8"})
    assert "Room by this count" in fetch(node, "/why/ml/small").text
    text = fetch(node, "/why/ml/large").text
    assert (
        "has fewer than requested: <bdi>8 requested; 14 present, 7 allocatable, 2 held, 5 free;"
        " missing: 7 of n1-gpu-1 (Unhealthy: Xid 79)</bdi>" in text
    )
    assert "does not serve its GPUs" not in text


def test_a_shortage_does_not_name_a_gpu_without_the_resource(node: SyntheticCluster) -> None:
    _free(node, "n1-gpu-0", 7)
    _free(node, "n1-gpu-1", 7)
    _add_whole_gpu(node, "n1", 2)
    node.objects["GPU"]["n1-gpu-2"]["status"]["health"] = "Unhealthy: Xid 79"
    node.objects["Node"]["n1"]["status"]["conditions"][1] |= {
        "status": "False",
        "reason": "Unhealthy",
        "message": "n1-gpu-2: Xid 79",
    }
    synthetic.add_pending_pod(node, "ml", "large", {ONE_G: "15"})
    text = fetch(node, "/why/ml/large").text
    obstacle = re.search(r"has fewer than requested: <bdi>([^<]*)</bdi>", text)
    assert obstacle is not None
    assert obstacle[1] == "15 requested; 14 present, 14 allocatable, 0 held, 14 free"


def test_devices_that_a_layout_has_yet_to_create_are_missing_of_their_gpu(
    node: SyntheticCluster,
) -> None:
    gpu = node.objects["GPU"]["n1-gpu-1"]["status"]
    gpu["slices"] = gpu["slices"][:5]
    node.objects["Node"]["n1"]["status"]["allocatable"] = {ONE_G: "11"}
    synthetic.add_pending_pod(node, "ml", "large", {ONE_G: "2"})
    assert (
        "2 requested; 12 present, 11 allocatable, 11 held, 0 free; missing: 2 of n1-gpu-1"
        " (requested by its spec, not created yet), 1 that the kubelet does not offer"
    ) in fetch(node, "/why/ml/large").text


def test_pods_on_slices_that_are_not_offered_use_up_what_the_scheduler_counts(
    node: SyntheticCluster,
) -> None:
    _free(node, "n1-gpu-0", 4)
    _lose_gpu(node, 7)
    synthetic.add_pending_pod(node, "ml", "small", {ONE_G: "1"})
    assert (
        "1 requested; 14 present, 7 allocatable, 8 held, 0 free; missing: 7 of n1-gpu-1"
    ) in fetch(node, "/why/ml/small").text


def test_a_node_that_offers_nothing_names_why_its_gpus_are_not_served(
    node: SyntheticCluster,
) -> None:
    _lose_gpu(node, 0)
    node.objects["GPU"]["n1-gpu-0"]["status"]["health"] = "Unhealthy: Xid 79"
    synthetic.add_pending_pod(node, "ml", "small", {ONE_G: "1"})
    synthetic.add_pending_pod(node, "ml", "other", {"gpu.tessera.dev/mig-3g.40gb": "1"})
    text = fetch(node, "/why/ml/small").text
    assert "does not serve its GPUs: <bdi>1 requested; 14 present, 0 allocatable" in text
    assert "7 of n1-gpu-1 (Unhealthy: Xid 79)" in text
    assert "does not have this resource" in fetch(node, "/why/ml/other").text


def _free(cluster: SyntheticCluster, gpu: str, number: int) -> None:
    """Let pods release the first slices of a GPU."""
    for one in cluster.objects["GPU"][gpu]["status"]["slices"][:number]:
        one["holders"] = []


def _add_whole_gpu(cluster: SyntheticCluster, node: str, index: int) -> None:
    whole = synthetic.gpu_document(node, index, "h100-80gb", ("whole",), random.Random(1))
    whole["status"]["slices"][0]["holders"] = []
    cluster.put("GPU", whole)


def test_room_on_two_nodes_is_not_room_for_a_pod(node: SyntheticCluster) -> None:
    synthetic.add_node(node, "n2", "h100-80gb", random.Random(2), alike=True, gpus=1)
    _free(node, "n1-gpu-0", 4)
    _free(node, "n2-gpu-0", 4)
    synthetic.add_pending_pod(node, "ml", "large", {ONE_G: "8"})  # n1 has 6, n2 has 5
    text = fetch(node, "/why/ml/large").text
    assert "there is room for" not in text
    assert "node n1 has room for 6 × 1g.10gb" in text
    assert text.count("<li>end ") + text.count("<li><bdi>end ") == 2


def test_a_free_whole_gpu_of_the_node_is_proposed_with_a_draft_of_a_layout(
    node: SyntheticCluster,
) -> None:
    _free(node, "n1-gpu-0", 4)
    _add_whole_gpu(node, "n1", 2)
    synthetic.add_pending_pod(node, "ml", "large", {ONE_G: "8"})
    text = fetch(node, "/why/ml/large").text
    assert "No pod holds the whole GPU n1-gpu-2, which a layout can divide into 7 × 1g.10gb" in text
    assert "No layout selects it yet" in text
    (link,) = re.findall(r'href="/layout\?([^"]+)">Try a layout', text)
    draft = fetch(node, "/layout", html.unescape(link)).text
    for line in ("- n1", "- 2", "- profile: 1g.10gb", "count: 7"):
        assert line in draft


def test_a_gpu_that_is_not_healthy_is_not_proposed(node: SyntheticCluster) -> None:
    _add_whole_gpu(node, "n1", 2)
    node.objects["GPU"]["n1-gpu-2"]["status"]["health"] = "Unhealthy: Xid 79"
    synthetic.add_pending_pod(node, "ml", "large", {ONE_G: "8"})
    assert "n1-gpu-2" not in fetch(node, "/why/ml/large").text


def test_a_layout_that_selects_the_whole_gpu_is_named(node: SyntheticCluster) -> None:
    _add_whole_gpu(node, "n1", 2)
    selector = {"pool": "h100"}
    node.put(
        "MIGLayout",
        {"metadata": {"name": "w"}, "spec": {"selector": selector, "instances": []}},
    )
    synthetic.add_pending_pod(node, "ml", "large", {ONE_G: "8"})
    text = fetch(node, "/why/ml/large").text
    assert "It is selected by layout" in text
    assert "/layout?name=" in text


def test_slices_that_a_layout_requests_already_are_not_advised_again(
    node: SyntheticCluster,
) -> None:
    _free(node, "n1-gpu-0", 7)
    node.objects["Node"]["n1"]["status"]["allocatable"] = {ONE_G: "8"}
    synthetic.add_pending_pod(node, "ml", "large", {ONE_G: "8"})
    text = fetch(node, "/why/ml/large").text
    assert "request 8 × 1g.10gb that no pod holds" in text
    assert "a layout that requests this profile" not in text


def test_the_page_of_a_pod_states_which_events_it_shows(node: SyntheticCluster) -> None:
    synthetic.add_pending_pod(node, "ml", "small", {ONE_G: "1"})
    text = fetch(node, "/pods/ml/small").text
    assert "Events of Tessera and of the scheduler" in text
    assert "kubectl -n ml describe pod small" in text


def test_boards_without_the_profile_do_not_hide_what_makes_room_on_others() -> None:
    cluster = SyntheticCluster()
    synthetic.fill(cluster, 40)  # some nodes have boards that know no 7g.80gb
    text = fetch(cluster, "/why/training/llama-finetune-0").text
    assert "has no profile" not in text
    assert "The planner proposes the smallest changes first" in text


TWO_G = "gpu.tessera.dev/mig-2g.20gb"


def _follow(cluster: SyntheticCluster, wanted: str, count: int) -> None:
    """Let the second GPU withdraw one of two held 2g.20gb; the layout requests some of them."""
    mix = ("2g.20gb", "2g.20gb")
    gpu = synthetic.gpu_document("n1", 1, "h100-80gb", mix, random.Random(1), alike=True)
    kept, withdrawn = gpu["status"]["slices"]
    withdrawn["state"] = "Withdrawing"
    kept["holders"][0] |= {"namespace": "ml", "name": "keeper"}
    gpu["spec"] |= {"layout": "mixed", "instances": gpu["spec"]["instances"][:1]}
    cluster.put("GPU", gpu)
    cluster.objects["Node"]["n1"]["status"]["allocatable"] = {ONE_G: "7", TWO_G: "1"}
    spec = {
        "selector": {"pool": "h100", "indices": [1]},
        "instances": [{"profile": wanted, "count": count}],
    }
    condition = {"type": "Ready", "status": "False", "reason": "Progressing", "message": "0 of 1"}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    cluster.put(
        "MIGLayout",
        {"metadata": {"name": "mixed"}, "spec": spec, "status": {"conditions": [condition]}},
    )


def test_a_layout_whose_slices_exist_creates_none(node: SyntheticCluster) -> None:
    _follow(node, "2g.20gb", 1)
    synthetic.add_pending_pod(node, "ml", "small", {TWO_G: "1"})
    text = fetch(node, "/why/ml/small").text
    assert "slices withdrawn" in text
    assert "Layouts that would create it" not in text
    assert "gets its new slices" not in text
    assert "n1 removes slices of this resource that pods hold: when these pods end" in text
    # The pod on the withdrawn slice counts against the device that the kubelet offers.
    assert (
        "A device becomes free when a pod that holds one ends: ml/keeper (2g.20gb@0) on n1."
        " No node has enough by this alone: 1 requested."
    ) in text


def test_a_layout_that_requests_more_than_exist_creates_some(node: SyntheticCluster) -> None:
    _follow(node, "2g.20gb", 2)
    synthetic.add_pending_pod(node, "ml", "small", {TWO_G: "1"})
    text = fetch(node, "/why/ml/small").text
    assert "Layouts that would create it" in text
    assert "n1 gets its new slices when the pods that hold the withdrawn ones end" in text


def test_without_a_matching_node_only_labels_and_the_selector_help(node: SyntheticCluster) -> None:
    _follow(node, "2g.20gb", 2)
    _lose_gpu(node, 7)
    synthetic.add_node(node, "n2", "h100-80gb", random.Random(2), alike=True, gpus=1)
    node.objects["Node"]["n2"]["metadata"]["labels"]["zone"] = "b"
    wanted = {"zone": "b", "disk": "fast"}
    synthetic.add_pending_pod(node, "ml", "small", {ONE_G: "1"}, nodeSelector=wanted)
    text = fetch(node, "/why/ml/small").text
    assert "label a node with disk=fast (node n2 has 1 of 7 free)" in text
    assert "change the nodeSelector" in text
    for other in ("Layouts that would", "healthy again", "enough is free", "Try a layout"):
        assert other not in text


def test_a_label_that_describes_the_node_is_not_proposed(node: SyntheticCluster) -> None:
    wanted = {"kubernetes.io/hostname": "n7"}
    synthetic.add_pending_pod(node, "ml", "small", {ONE_G: "1"}, nodeSelector=wanted)
    text = fetch(node, "/why/ml/small").text
    assert "No node has the labels that the pod requests (kubernetes.io/hostname=n7)" in text
    assert "label a node" not in text


def test_nodes_that_match_and_have_taints_are_named(node: SyntheticCluster) -> None:
    node.objects["Node"]["n1"]["spec"]["taints"] = [{"key": "drained", "effect": "NoSchedule"}]
    synthetic.add_pending_pod(node, "ml", "large", {ONE_G: "9"})
    text = fetch(node, "/why/ml/large").text
    assert "have taints: n1 (drained:NoSchedule). Remove one of the taints" in text
    assert "<li>move " not in text


def test_every_node_with_room_is_named(node: SyntheticCluster) -> None:
    for number in range(2, 5):
        name = f"n{number}"
        synthetic.add_node(node, name, "h100-80gb", random.Random(1), alike=True, gpus=1)
    for name in ("n1", "n3", "n4"):
        _free(node, f"{name}-gpu-0", 2)
    synthetic.add_pending_pod(node, "ml", "two", {"gpu.tessera.dev/mig-2g.20gb": "1"})
    text = html.unescape(fetch(node, "/why/ml/two").text)
    assert "room for 1 × 2g.20gb on divided GPUs of node n1," in text
    assert "There is as much room as it needs on divided GPUs of nodes n3, n4, too." in text


def test_every_node_with_a_gpu_to_divide_is_named(node: SyntheticCluster) -> None:
    for number in (2, 3):
        name = f"n{number}"
        synthetic.add_node(node, name, "h100-80gb", random.Random(1), alike=True, gpus=0)
        _add_whole_gpu(node, name, 0)
    synthetic.add_pending_pod(node, "ml", "two", {"gpu.tessera.dev/mig-7g.80gb": "1"})
    text = html.unescape(fetch(node, "/why/ml/two").text)
    assert "No pod has to move. The same is possible on node n3." in text


def test_the_replacement_of_a_pod_that_ends_is_promised_no_slice(node: SyntheticCluster) -> None:
    moving, ending = "its replacement gets the other slice", "a replacement waits until some node"
    synthetic.add_pending_pod(node, "ml", "large", {ONE_G: "4"})
    text = fetch(node, "/why/ml/large").text
    assert "<li>end " in text or "<li><bdi>end " in text
    assert ending in text
    assert moving not in text
    for gpu in ("n1-gpu-0", "n1-gpu-1"):
        for place in (1, 3, 5):
            node.objects["GPU"][gpu]["status"]["slices"][place]["holders"] = []
    synthetic.add_pending_pod(node, "ml", "half", {"gpu.tessera.dev/mig-3g.40gb": "1"})
    text = fetch(node, "/why/ml/half").text
    assert "move " in text
    assert moving in text
    assert ending not in text


def test_a_request_under_another_prefix_is_explained(node: SyntheticCluster) -> None:
    synthetic.add_pending_pod(node, "ml", "foreign", {"nvidia.com/gpu": "1"})
    assert 'href="/why/ml/foreign"' in fetch(node, "/why").text
    page = fetch(node, "/why/ml/foreign")
    assert page.status == 200
    assert (
        "nodes offer gpu.tessera.dev/gpu, and not nvidia.com/gpu: request that, or set the"
        " chart&#39;s value resourcePrefix=nvidia.com"
    ) in page.text
    assert "Not evaluated" not in page.text


def test_each_link_of_the_list_of_pods_leads_to_a_page(node: SyntheticCluster) -> None:
    """Pods that wait for resources of others have no page; pods that wait for a claim have one."""
    synthetic.add_pending_pod(node, "ml", "own", {ONE_G: "1"})
    synthetic.add_pending_pod(node, "ml", "misnamed", {"nvidia.com/gpu": "1"})
    synthetic.add_pending_pod(node, "ml", "foreign", {"example.com/fpga": "1"})
    synthetic.add_pending_pod(node, "ml", "unknown", {"nvidia.com/foo": "1"})
    unmade = {"name": "g", "resourceClaimTemplateName": "t"}
    synthetic.add_pending_pod(node, "ml", "unmade", {}, resourceClaims=[unmade])
    synthetic.add_pending_pod(
        node, "ml", "claim", {}, resourceClaims=[{"name": "g", "resourceClaimName": "c"}]
    )
    starting = synthetic.add_pending_pod(node, "ml", "starting", {ONE_G: "1"})
    starting["spec"]["nodeName"] = "n1"
    explained = set()
    for name in [path.rpartition("/")[2] for path in _links(node, "/pods") if "/pods/ml/" in path]:
        links = set(_links(node, f"/pods/ml/{name}"))
        explained |= {path for path in links if path.startswith("/why/")}
    listed = {path for path in _links(node, "/pods") if path.startswith("/why/")}
    names = {"own", "misnamed", "unmade", "claim", "starting"}
    assert listed == {f"/why/ml/{name}" for name in names}
    assert explained == listed - {"/why/ml/starting"}  # its page states the kubelet's problem
    assert [path for path in listed if fetch(node, path).status != 200] == []
    assert ">a node</td>" in fetch(node, "/pods", "text=foreign").text


def _links(cluster: SyntheticCluster, path: str) -> list[str]:
    return re.findall(r'href="([^"?#]+)', fetch(cluster, path).text)


def test_two_whole_gpus_wait_for_gpus_that_layouts_divide(node: SyntheticCluster) -> None:
    for gpu in node.objects["GPU"].values():
        gpu["spec"]["layout"] = "seven"
    synthetic.add_pending_pod(node, "ml", "pair", {"gpu.tessera.dev/gpu": "2"})
    text = fetch(node, "/why/ml/pair").text
    assert "No node has 2 undivided GPUs: layout seven divides them." in text
    assert "removes slices" not in text
