"""Pods wherever a page names them: phase, node, age and a link; and one form of slices' places."""

import datetime
import json
import random
import re
from typing import Any
from urllib.parse import urlencode

import pytest
from unit.console.test_console_pages import HOSTILE, Elements, fetch, run

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.model.exporters import Scrape
from console.model.pods import read_pod
from console.views import metrics, places
from console.views.places import Query, read_query
from gpu_operator import errors
from mig.spec import Place

ONE_G = "gpu.tessera.dev/mig-1g.10gb"


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a cluster with one node of an H100 with seven slices, six of them held."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=1)
    return cluster


def hold(cluster: SyntheticCluster, slot: int, name: str = "trainer", **status: Any) -> None:
    """Let a pod of the namespace ml hold a slice."""
    slices = cluster.objects["GPU"]["n1-gpu-0"]["status"]["slices"]
    slices[slot]["holders"] = [{"namespace": "ml", "name": name, "uid": "u"}]
    pod = synthetic.add_pending_pod(cluster, "ml", name, {ONE_G: "1"})
    pod["spec"]["nodeName"] = "n1"
    pod["status"] = {"phase": "Running", **status}
    born = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=3, minutes=2, seconds=9)
    pod["metadata"]["creationTimestamp"] = born.strftime("%Y-%m-%dT%H:%M:%SZ")


def words(text: str) -> str:
    """Return the text of a page without its markup."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", text))


PAGES = (
    "/gpus/n1-gpu-0",
    "/slices/MIG-n1-0-2",
    "/pods",
    "/slices",
)


@pytest.mark.parametrize("path", PAGES)
def test_a_pod_without_an_hca_has_phase_node_age_and_a_link(
    node: SyntheticCluster, path: str
) -> None:
    hold(node, 2)
    text = fetch(node, path).text
    assert 'href="/pods/ml/trainer"' in text
    assert "ml/trainer Running, on n1, age 3 h 2 min" in words(text)
    assert re.search(r'<span data-since="109\d\d">3 h 2 min</span>', text)


def test_the_page_of_a_pod_without_an_hca_has_phase_node_and_age(node: SyntheticCluster) -> None:
    hold(node, 2)
    text = words(fetch(node, "/pods/ml/trainer").text)
    for part in ("PhaseRunning", "Age3 h 2 min", "Node n1", "1g.10gb@2 (instance 9)"):
        assert part in text, part


def test_a_pod_that_is_being_deleted_is_marked(node: SyntheticCluster) -> None:
    hold(node, 2)
    pod = node.objects["Pod"]["ml/trainer"]
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert "Running, being deleted, on n1" in words(fetch(node, "/slices/MIG-n1-0-2").text)


def test_a_pod_that_cannot_start_names_the_kubelets_reason(node: SyntheticCluster) -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image: x"}}
    hold(node, 2, phase="Pending", containerStatuses=[{"name": "c", "state": state}])
    text = words(fetch(node, "/pods/ml/trainer").text)
    assert "ImagePullBackOff (no such image: x)" in text


@pytest.mark.parametrize("gone", ["deleted", "Succeeded", "Failed"])
def test_a_holder_that_has_ended_is_not_shown_as_running(node: SyntheticCluster, gone: str) -> None:
    hold(node, 2)
    if gone == "deleted":
        del node.objects["Pod"]["ml/trainer"]
    else:
        node.objects["Pod"]["ml/trainer"]["status"]["phase"] = gone
    for path in ("/slices/MIG-n1-0-2", "/pods/ml/trainer"):
        text = words(fetch(node, path).text)
        assert "has ended or was deleted" in text
        assert "Running" not in text


def test_pods_that_are_not_read_are_not_said_to_be_gone(node: SyntheticCluster) -> None:
    hold(node, 2)
    text = run(node, lambda console: console.request("/slices/MIG-n1-0-2"), space="other").text
    assert "pods of this namespace are not read" in text
    node.refused["Pod"] = errors.Refused("list Pod: forbidden")
    text = fetch(node, "/slices/MIG-n1-0-2").text
    assert "pods cannot be read" in text
    assert "has ended" not in text


def test_of_a_pod_with_devices_little_is_stored() -> None:
    document: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "ml", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "nodeName": "n1",
            "nodeSelector": {"a": "b"},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "resources": {"limits": {ONE_G: "1"}}}],
        },
        "status": {"phase": "Running"},
    }
    pod = read_pod(document)
    assert pod is not None
    assert pod.is_plain
    assert (pod.requests, pod.node_selector, pod.tolerations) == ((), (), ())
    again = json.loads(json.dumps({**document, "metadata": {**document["metadata"], "name": "q"}}))
    other = read_pod(again)
    assert other is not None
    assert other.details is pod.details  # as of all plain pods
    assert other.created is pod.created
    document["spec"]["containers"] = [{"name": "c"}]
    assert read_pod(document) is None


def test_pods_of_the_matrix_have_phase_node_and_a_link() -> None:
    cluster = SyntheticCluster()
    synthetic.fill(cluster, 3)
    text = fetch(cluster, "/rdma").text
    assert text.count('href="/pods/training/worker-4"') == 3, "row, column and list"
    assert "training/worker-4 Running, on gpu-0001, age " in words(text)
    query = "from=training/worker-4&to=10.9.9.9"
    text = words(fetch(cluster, "/rdma/explain", query).text)
    assert "Fromtraining/worker-4 Running, on gpu-0001, age " in text
    assert "To10.9.9.9" in text


def test_pods_that_a_proposal_would_move_are_links_with_their_state(
    node: SyntheticCluster,
) -> None:
    for slot in range(7):
        hold(node, slot, f"job-{slot}")
    synthetic.add_pending_pod(node, "ml", "big", {"gpu.tessera.dev/mig-3g.40gb": "1"})
    text = fetch(node, "/why/ml/big").text
    assert re.search(r"end <a href=\"/pods/ml/job-\d\"", text)
    assert re.search(r"end ml/job-\d \(Running, on n1, age 3 h 2 min\) on 1g.10gb@\d", words(text))


def test_a_page_is_not_loaded_again_for_pods_that_it_does_not_show(
    node: SyntheticCluster,
) -> None:
    async def use(console: Any) -> set[str]:
        version = console.model.version
        hold(node, 2)
        await console.settle()
        return set(console.model.changes_since(version).kinds)

    assert run(node, use) == {"Holder"}


@pytest.mark.parametrize(
    "text",
    ["1g.10gb@6", "1g.10gb at 6", "instance 13", "1g.10gb@6 (instance 13)", "GPU Instance 13"],
)
def test_a_search_accepts_every_form_of_a_place(node: SyntheticCluster, text: str) -> None:
    found = fetch(node, "/slices", urlencode({"text": text})).text
    assert re.findall(r'href="/slices/([^"]+)"', found) == ["MIG-n1-0-6"]
    assert "1g.10gb@6 (instance 13)" in found


def test_a_search_by_names_finds_slices_and_pods(node: SyntheticCluster) -> None:
    hold(node, 2)
    for text, number in (("ml/trainer", 1), ("n1-gpu-0 trainer", 1), ("n1", 7), ("other", 0)):
        found = fetch(node, "/slices", urlencode({"text": text})).text
        assert len(re.findall(r'href="/slices/MIG', found)) == number, text
    assert "ml/trainer" in words(fetch(node, "/pods", "text=train&namespace=ml").text)
    assert "ml/trainer" not in words(fetch(node, "/pods", "text=train&namespace=m").text)


def test_a_query_is_divided_into_place_number_and_words() -> None:
    assert read_query("A at 3 x") == Query(("x",), "a@3", "")
    assert read_query("instance 7 node-1") == Query(("node-1",), "", "7")
    assert read_query("") == Query()


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (Place("1g.10gb", 6), "1g.10gb@6 (instance 13)"),
        (Place("3g.40gb", 4), "3g.40gb@4 (instance 2)"),
        (Place("1c.3g.40gb", 4, 1), "1c.3g.40gb@4.1 (instance 2, compute instance 1)"),
        (Place("whole", 0), "whole@0"),
        (Place("9g.90gb", 0), "9g.90gb@0"),
    ],
)
def test_a_place_has_the_number_of_nvidia_smi(place: Place, text: str) -> None:
    assert places.describe_place(place, "h100-80gb") == text


def test_an_exporters_instances_are_named_as_everywhere(node: SyntheticCluster) -> None:
    async def use(console: Any) -> list[metrics.Table]:
        labels = [
            'gpu="0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="13"',
            'gpu="0",GPU_I_PROFILE="1c.3g.40gb",GPU_I_ID="2",GPU_CI_ID="1"',
            'gpu="0"',
        ]
        text = "\n".join(f"tessera_contexts{{{one}}} 2" for one in labels)
        gpus = tuple(console.model.world().gpus.values())
        return places.name_slices(metrics.tables(Scrape(text), {}), gpus)

    (table,) = run(node, use)
    assert table.head[:2] == ("GPU", "Slice")
    assert {row[1] for row in table.rows} == {
        "1g.10gb@6 (instance 13)",
        "1c.3g.40gb (instance 2, compute instance 1)",  # the GPU object does not list it
        "",
    }
    assert all(len(row) == len(table.head) for row in table.rows)


def share(cluster: SyntheticCluster) -> None:
    """Let two claims share a slice; one pod uses both, another only the second."""
    gpu = cluster.objects["GPU"]["n1-gpu-0"]
    slices = gpu["status"]["slices"]
    first = slices.pop(0)
    gpu["status"]["claims"] = [
        {
            **{key: first[key] for key in ("profile", "start", "multiprocessors", "health")},
            "uuid": "MIG-shared",
            "claim": {"namespace": "ml", "name": name, "uid": name},
            "shared": True,
            "memoryBytes": 2 << 30,
            "memoryUsedBytes": 1 << 30,
            "holders": [{"namespace": "ml", "name": pod, "uid": pod} for pod in pods],
        }
        for name, pods in (("left", ["both"]), ("right", ["both", "one"]))
    ]
    for name in ("both", "one"):
        pod = synthetic.add_pending_pod(cluster, "ml", name, {})
        pod["spec"] |= {
            "nodeName": "n1",
            "resourceClaims": [{"name": "c", "resourceClaimName": "right"}],
        }
        pod["status"] = {"phase": "Running"}


def test_a_slice_that_claims_share_has_all_claims_and_each_pod_once(
    node: SyntheticCluster,
) -> None:
    share(node)
    text = words(fetch(node, "/slices/MIG-shared").text)
    assert "claims, which share it: ml/left, ml/right" in text
    assert (text.count("ml/both Running, on n1"), text.count("ml/one Running, on n1")) == (1, 1)
    assert "2.0 GiB of 4.0 GiB" in text
    listed = fetch(node, "/slices", "text=ml/left").text
    assert listed.count('href="/slices/MIG-shared"') == 1
    assert fetch(node, "/pods/ml/both").text.count('href="/slices/MIG-shared"') == 1


def test_two_pods_can_hold_one_slice(node: SyntheticCluster) -> None:
    hold(node, 2)
    slices = node.objects["GPU"]["n1-gpu-0"]["status"]["slices"]
    slices[2]["holders"].append({"namespace": "ml", "name": "static-n1", "uid": "v"})
    text = words(fetch(node, "/slices/MIG-n1-0-2").text)
    assert "ml/trainer Running, on n1" in text
    assert "ml/static-n1 has ended or was deleted" in text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_escaped_in_lists(node: SyntheticCluster, name: str) -> None:
    slices = node.objects["GPU"]["n1-gpu-0"]["status"]["slices"]
    slices[0] |= {"uuid": name, "health": f"Unhealthy: {name}"}
    pod = synthetic.add_pending_pod(node, name, name, {ONE_G: "1"})
    pod["spec"]["nodeName"] = name
    state = {"waiting": {"reason": name, "message": name}}
    pod["status"] = {"phase": name, "containerStatuses": [{"name": "c", "state": state}]}
    policy = {"metadata": {"name": name, "namespace": name}, "spec": {"podSelector": {}}}
    node.put("RDMANetworkPolicy", policy)
    query = urlencode({"text": name, "namespace": name})
    chosen = urlencode({"object": f"RDMANetworkPolicy {name}/{name}"})
    for path, given in (
        ("/pods", ""),
        ("/pods", query),
        ("/slices", ""),
        ("/slices", query),
        ("/why", ""),
        ("/rdma/what-if", ""),
        ("/rdma/what-if", chosen),
    ):
        text = fetch(node, path, given).text
        parsed = Elements(text)
        scripts = [a for tag, a in parsed.tags if tag == "script"]
        assert scripts == [{"src": "/static/console.js", "defer": None}], path
        assert not [tag for tag, _ in parsed.tags if tag == "img"], path
        assert "<script>alert" not in text, path
        assert "<img src=x" not in text, path


def test_the_page_of_a_slice_names_the_container_that_has_it(node: SyntheticCluster) -> None:
    hold(node, 2, "one")
    hold(node, 3, "two")
    pods = node.objects["Pod"]
    limits = {"resources": {"limits": {ONE_G: "1"}}}
    idle = {"name": "log", "resources": {"limits": {"cpu": "1"}}}
    pods["ml/one"]["spec"]["containers"] = [idle, {"name": "eval", **limits}]
    pods["ml/two"]["spec"]["containers"] = [{"name": "a", **limits}, {"name": "<b>", **limits}]
    one, two = (words(fetch(node, f"/slices/MIG-n1-0-{slot}").text) for slot in (2, 3))
    assert ", container eval" in one
    assert ", one of the containers a, &lt;b&gt;" in two
    assert "log" not in one.partition("Holders")[2].partition("Beside it")[0]
    node.objects["GPU"]["n1-gpu-0"]["status"]["slices"][2]["resource"] = ""
    assert ", container eval" in words(fetch(node, "/slices/MIG-n1-0-2").text)
    del pods["ml/one"]
    assert "container" not in words(fetch(node, "/slices/MIG-n1-0-2").text)


def test_the_page_of_a_claimed_slice_names_the_containers_of_the_claim(
    node: SyntheticCluster,
) -> None:
    hold(node, 2)
    status = node.objects["GPU"]["n1-gpu-0"]["status"]
    part = {"uuid": "MIG-x", "profile": "1g.10gb", "start": 6, "multiprocessors": 16}
    part |= {"memoryBytes": 1 << 30, "claim": {"namespace": "ml", "name": "train-x7"}}
    status["claims"] = [part | {"holders": status["slices"][2]["holders"]}]
    pod = node.objects["Pod"]["ml/trainer"]
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    pod["spec"]["containers"].append({"name": "eval", "resources": {"claims": [{"name": "gpu"}]}})
    pod["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "train-x7"}]
    assert ", container eval" in words(fetch(node, "/slices/MIG-x").text)


def test_a_withdrawn_slice_names_the_layout_that_withdraws_it(node: SyntheticCluster) -> None:
    hold(node, 2)
    gpu, path = node.objects["GPU"]["n1-gpu-0"], "/slices/MIG-n1-0-2"
    synthetic.add_company(node)
    gpu["spec"]["layout"] = "mixed"
    assert "withdraws the slice" not in fetch(node, path).text
    gpu["status"]["slices"][2]["state"] = "Withdrawing"
    assert "withdraws the slice" not in fetch(node, path).text  # the layout still wants it
    del gpu["spec"]["instances"][2]
    text = fetch(node, path).text
    assert "Layout mixed withdraws the slice" in words(text)
    assert 'href="/rollout/mixed"' in text
    gpu["spec"]["layout"] = None
    assert "No layout requests the slice any more" in words(fetch(node, path).text)


CRASHES = (
    ({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}, "CrashLoopBackOff"),
    ({"terminated": {"reason": "Error", "exitCode": 1}}, "Error"),
    ({"terminated": {"reason": "OOMKilled", "exitCode": 137}}, "OOMKilled"),
)


@pytest.mark.parametrize(("state", "reason"), CRASHES)
def test_a_pod_that_crashes_is_not_shown_as_running(
    node: SyntheticCluster, state: Any, reason: str
) -> None:
    hold(node, 2, containerStatuses=[{"name": "main", "restartCount": 4, "state": state}])
    for path in (*PAGES, "/pods/ml/trainer"):
        text = words(fetch(node, path).text)
        assert f"{reason}, 4 restarts" in text
        assert "Running" not in text
    listed = fetch(node, "/pods").text
    assert 'href="/why/ml/trainer">its containers: why' in listed
    assert fetch(node, "/why/ml/trainer").status == 200


@pytest.mark.parametrize("state", [{"terminated": {"exitCode": 0}}, {"running": {}}])
def test_a_container_that_ended_well_or_runs_again_is_no_problem(
    node: SyntheticCluster, state: Any
) -> None:
    hold(node, 2, containerStatuses=[{"name": "main", "restartCount": 1, "state": state}])
    assert "Running, 1 restart," in words(fetch(node, "/pods").text)


def test_a_text_that_reverses_what_follows_is_shown_in_order(node: SyntheticCluster) -> None:
    pod = synthetic.add_pending_pod(node, "ml", "small", {ONE_G: "1"})
    reversing = {"type": "PodScheduled", "status": "False", "message": "see \u202egnp.exe \u2066x"}
    pod["status"]["conditions"] = [reversing]
    text = fetch(node, "/why/ml/small").text
    assert "see \N{REPLACEMENT CHARACTER}gnp.exe \N{REPLACEMENT CHARACTER}x" in text
    assert not {"\u202e", "\u2066"} & set(text)
