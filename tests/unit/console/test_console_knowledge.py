"""No page states a result without all kinds of objects on which the result depends."""

import json
import random
import re
import threading
from typing import Any

import pytest
from unit.console.test_console_pages import LAYOUT, fetch, post, run

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.model import departures
from console.model.departures import Departures
from console.model.pods import read_pod
from console.pages import stream
from console.views.waiting import why
from gpu_operator import errors
from support.rigs.console_rig import Console

ONE = {"gpu.tessera.dev/mig-1g.10gb": "1"}
ANSWERS = [
    ("/rdma", "RDMANetworkPolicy", 'class="cell'),
    ("/rdma", "Namespace", 'class="cell'),
    ("/rdma", "RDMANetwork", "No pod with an HCA"),
    ("/rdma", "Pod", "No pod with an HCA"),
    (
        "/rdma/explain?from=training/worker-4&to=training/worker-0",
        "RDMANetworkPolicy",
        'class="verb',
    ),
    ("/why", "Pod", "No pod that requests"),
    ("/why", "GPUPolicy", "No pod that requests"),
    ("/why/ml/p", "GPU", "Nodes for"),
    ("/why/ml/p", "Node", "Nodes for"),
    ("/why/ml/p", "MIGLayout", "Nodes for"),
    ("/why/ml/p", "GPUPolicy", "What would make room"),
    ("/why/ml/c", "ResourceClaim", "is allocated"),
    ("/why/ml/c", "DeviceClass", "is allocated"),
    ("/events", "Event", "No event or fault"),
    ("/gpus/gpu-0001-gpu-0", "Event", "is stored in the cluster"),
    ("/", "GPU", "No GPU matches"),
    ("/", "GPUPool", "has no GPUPool"),
    ("/nodes/gpu-0001", "Node", "the Node object does not exist"),
    ("/gpus/gpu-0001-gpu-0", "GPU", "The cluster has no"),
    ("/pods/ml/none", "Pod", "The cluster has no"),
    ("/pods/ml/p", "GPU", "holds no slice"),
]


@pytest.fixture
def cluster() -> SyntheticCluster:
    cluster = SyntheticCluster()
    synthetic.fill(cluster, 3)
    synthetic.add_pending_pod(cluster, "ml", "p", ONE)
    pod = synthetic.add_pending_pod(cluster, "ml", "c", {})
    pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    return cluster


@pytest.mark.parametrize(("path", "kind", "statement"), ANSWERS)
def test_a_page_names_the_kind_that_it_lacks_in_place_of_a_result(
    cluster: SyntheticCluster, path: str, kind: str, statement: str
) -> None:
    cluster.refused[kind] = errors.Refused(f"list {kind}: forbidden for you")
    path, _, query = path.partition("?")
    text = fetch(cluster, path, query).text
    assert statement not in text
    assert re.search(rf"not known.*{kind}</b>: <bdi>list {kind}: forbidden", text, re.DOTALL)


def test_a_layout_diff_without_gpus_states_nothing(cluster: SyntheticCluster) -> None:
    cluster.refused["GPU"] = errors.Refused("list GPU: forbidden")
    text = post(cluster, LAYOUT % "Wait").text
    assert "GPUs selected" not in text
    assert "Nothing is computed" in text


def test_what_was_observed_stays_when_a_watch_fails_and_is_marked(
    cluster: SyntheticCluster,
) -> None:
    async def use(console: Console) -> tuple[str, str]:
        state = console.model.connection
        before = (await console.request("/rdma")).text
        state.listed.discard("RDMANetworkPolicy")
        state.problems["RDMANetworkPolicy"] = "connection refused"
        return before, (await console.request("/rdma")).text

    before, after = run(cluster, use)
    assert 'data-watches="on"' in before
    assert 'data-watches="off"' in after
    assert "as it was observed last" in after
    assert after.count('class="cell') == before.count('class="cell')


def container(resources: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"limits": resources}, **more}


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([1, 1], [], 2),
        ([1], [("once", 3)], 3),
        ([1], [("Always", 1)], 2),
        ([1], [("Always", 1), ("once", 2)], 3),
        ([1], [("once", 2), ("Always", 1)], 2),
    ],
)
def test_sidecars_count_as_kubernetes_counts_them(
    containers: list[int], init: list[tuple[str, int]], expected: int
) -> None:
    resource = "gpu.tessera.dev/mig-1g.10gb"
    spec = {
        "containers": [container({resource: str(one)}) for one in containers],
        "initContainers": [
            container({resource: str(n)}, **({"restartPolicy": how} if how == "Always" else {}))
            for how, n in init
        ],
    }
    pod = read_pod({"metadata": {"name": "p", "namespace": "a"}, "spec": spec})
    assert pod is not None
    assert dict(pod.requests) == {resource: expected}


@pytest.mark.parametrize(
    ("taint", "toleration", "hinders"),
    [
        ({"key": "gone", "effect": "NoExecute"}, {}, True),
        ({"key": "gone", "effect": "NoExecute"}, {"key": "gone", "operator": "Exists"}, False),
        ({"key": "a", "value": "x", "effect": "NoSchedule"}, {"key": "a", "value": "y"}, True),
        ({"key": "a", "value": "x", "effect": "NoSchedule"}, {"key": "a", "value": "x"}, False),
        ({"key": "a", "effect": "PreferNoSchedule"}, {}, False),
        ({}, {}, True),  # cordoned
    ],
)
def test_taints_and_tolerations_are_compared_as_the_scheduler_does(
    taint: dict[str, str], toleration: dict[str, str], hinders: bool
) -> None:
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=1)
    spec = cluster.objects["Node"]["n1"]["spec"]
    spec |= {"taints": [taint]} if taint else {"unschedulable": True}
    tolerations = [toleration] if toleration else []
    synthetic.add_pending_pod(cluster, "ml", "p", ONE, tolerations=tolerations)
    text = fetch(cluster, "/why/ml/p").text
    assert ("tainted: " in text) == hinders
    assert ("Room by this count" in text) != hinders


def test_foreign_resources_and_hcas_get_no_false_verdict(cluster: SyntheticCluster) -> None:
    node = cluster.objects["Node"]["gpu-0001"]
    for part in ("allocatable", "capacity"):
        node["status"][part] |= {"rdma.tessera.dev/hca": "1", "example.com/license": "1"}
    synthetic.add_pending_pod(cluster, "ml", "license", {"example.com/license": "1"})
    synthetic.add_pending_pod(cluster, "ml", "both", ONE | {"example.com/license": "1"})
    synthetic.add_pending_pod(cluster, "ml", "hcas", {"rdma.tessera.dev/hca": "8"})
    synthetic.add_pending_pod(cluster, "ml", "hca", {"rdma.tessera.dev/hca": "1"})
    assert "ml/license" not in fetch(cluster, "/why").text
    assert fetch(cluster, "/why/ml/license").status == 404
    both = fetch(cluster, "/why/ml/both").text
    assert 'Nodes for <bdi class="mono">example.com' not in both
    assert "No slice, GPU or HCA:" in both
    assert (
        "has fewer than requested: <bdi>8 requested, 1 allocatable"
        in fetch(cluster, "/why/ml/hcas").text
    )
    hca = fetch(cluster, "/why/ml/hca").text
    assert "how many are in use is not counted" in hca
    assert "has room" not in hca


def test_a_pod_with_many_resources_is_explained_in_part_and_blocks_no_other_viewer() -> None:
    cluster = SyntheticCluster()
    synthetic.fill(cluster, 40, alike=True)
    names = [f"gpu.tessera.dev/mig-{n}g.x" for n in range(106)]
    synthetic.add_pending_pod(cluster, "ml", "many", dict.fromkeys(names, "1"))

    async def use(console: Console) -> tuple[str, int]:
        computing: list[str] = []
        original = why.explain

        def explain(*args: Any) -> why.Explanation:
            computing.append(threading.current_thread().name)
            return original(*args)

        why.explain = explain
        try:
            answer = await console.request("/why/ml/many")
        finally:
            why.explain = original
        assert "MainThread" not in computing
        return answer.text, len(computing)

    text, computed = run(cluster, use)
    assert computed == 1
    assert text.count("Nodes for") == why.MOST
    assert "98 more resources: a page explains 8" in text


def test_a_slash_in_a_uuid_leads_to_its_slice(cluster: SyntheticCluster) -> None:
    gpu = cluster.objects["GPU"]["gpu-0001-gpu-0"]
    gpu["status"]["slices"][0]["uuid"] = "MIG-a/b?c#d"
    assert 'href="/slices/MIG-a%2Fb%3Fc%23d"' in fetch(cluster, "/gpus/gpu-0001-gpu-0").text
    assert fetch(cluster, "/slices/MIG-a/b?c#d").status == 200


def test_a_change_of_the_watches_reaches_the_dot(cluster: SyntheticCluster) -> None:
    async def use(console: Console) -> list[str]:
        model = console.model
        follower = stream.follow(model, model.version)
        await anext(follower)
        found = []
        for problem in ("connection refused", ""):
            if problem:
                model.connection.problems["Pod"] = problem
            else:
                del model.connection.problems["Pod"]
            model.note("Connection")
            event = await anext(follower)
            found.append(json.loads(event.partition("data: ")[2])["watches"])
        await follower.aclose()
        return found

    assert run(cluster, use) == ["off", "on"]


def test_a_card_that_no_longer_matches_is_not_served(cluster: SyntheticCluster) -> None:
    path, all_of = "/parts/nodes", "name=gpu-0001"
    assert 'id="node-gpu-0001"' in fetch(cluster, path, all_of).text
    assert fetch(cluster, path, f"{all_of}&namespace=none").text == ""
    for name in [one for one in cluster.objects["GPU"] if one.startswith("gpu-0001-")]:
        del cluster.objects["GPU"][name]
    assert 'id="node-gpu-0001"' in fetch(cluster, path, all_of).text  # a node of a pool


GONE = "it ended or was deleted at <b>2026-11-27 19:40:05 UTC</b>"


def test_a_page_of_an_object_that_is_gone_has_the_time_and_a_link_to_the_list() -> None:
    cluster = SyntheticCluster()
    synthetic.fill(cluster, 3)
    gpu = cluster.objects["GPU"]["gpu-0001-gpu-0"]
    uuid = gpu["status"]["slices"][0]["uuid"]
    synthetic.add_pending_pod(cluster, "ml", "p", ONE)
    pages = (
        ("/gpus/gpu-0001-gpu-0", "/"),
        (f"/slices/{uuid}", "/slices"),
        ("/pods/ml/p", "/pods"),
        ("/why/ml/p", "/pods"),
        ("/rollout/mixed", "/rollout"),
        ("/faults/xid-48-drill", "/faults"),
        ("/history/gpus/gpu-0001-gpu-0", "/"),
    )

    async def use(console: Console) -> None:
        console.model.departures.clock = lambda: 1795808405.0
        for page, _ in pages:
            assert (await console.request(page)).status == 200, page
        cluster.remove("GPU", "gpu-0001-gpu-0")
        cluster.remove("Pod", "ml/p")
        cluster.remove("MIGLayout", "mixed")
        cluster.remove("GPUFault", "xid-48-drill")
        await console.settle()
        for page, list_page in pages:
            answer = await console.request(page)
            assert answer.status == 404, page
            assert '<p id="absent">' in answer.text
            assert GONE in answer.text, page
            assert f'<a href="{list_page}">' in answer.text.partition("absent")[2], page
            assert 'data-live=""' in answer.text
        never = (await console.request("/gpus/other")).text
        assert "ended or was deleted" not in never

    run(cluster, use)


def test_a_slice_that_a_gpu_no_longer_lists_is_gone_until_it_is_back(
    cluster: SyntheticCluster,
) -> None:
    gpu = cluster.objects["GPU"]["gpu-0001-gpu-0"]
    every = gpu["status"]["slices"]
    uuid = every[0]["uuid"]

    async def use(console: Console) -> None:
        console.model.departures.clock = lambda: 1795808405.0
        for slices, gone in ((every, False), (every[1:], True), (every, False)):
            cluster.put("GPU", {**gpu, "status": {**gpu["status"], "slices": slices}})
            await console.settle()
            answer = await console.request(f"/slices/{uuid}")
            assert (answer.status == 404) is gone
            assert (GONE in answer.text) is gone

    run(cluster, use)


def test_a_pod_that_ended_has_the_time_wherever_it_is_named(cluster: SyntheticCluster) -> None:
    one = cluster.objects["GPU"]["gpu-0001-gpu-0"]["status"]["slices"][0]
    one["holders"] = [{"namespace": "ml", "name": "p", "uid": "u"}]

    async def use(console: Console) -> None:
        console.model.departures.clock = lambda: 1795808405.0
        cluster.remove("Pod", "ml/p")
        await console.settle()
        text = (await console.request(f"/slices/{one['uuid']}")).text
        assert "has ended or was deleted at 2026-11-27 19:40:05 UTC" in text

    run(cluster, use)


def test_the_latest_departures_are_remembered() -> None:
    found = Departures(lambda: 0.0)
    found.note("Pod", (f"a/{number}" for number in range(departures.MOST + 5)))
    assert found.find("Pod", "a/4") == ""
    assert found.find("Pod", "a/5") == "1970-01-01 00:00:00 UTC"
    found.forget("Pod", "a/5")
    assert found.find("Pod", "a/5") == ""
