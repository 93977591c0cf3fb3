"""What the model accepts: events within bounds, P_Keys in force, manifests as the API server."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from unit.console.test_console_pages import LAYOUT, fetch, post, run

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.model import event_log
from console.model.event_log import EventLog, EventRecord, read_event
from console.views.manifest import ManifestError, read_layout
from support.rigs.console_rig import Console


def event(space: str, last: str, name: str = "x") -> EventRecord:
    return EventRecord("Pod", space, name, "r", "m", False, last, 1, "tessera", space)


def test_a_namespace_that_floods_the_log_hides_no_other() -> None:
    log = EventLog()
    log.put("default/real", event("default", "2026-01-01T00:00:00Z", "real"))
    for number in range(3000):
        log.put(f"evil/{number}", event("evil", f"2026-02-01T00:00:{number % 60:02}Z"))
    found = list(log.all())
    assert [one.name for one in found if one.space == "default"] == ["real"]
    assert len(found) == 1 + event_log.MOST_OF_NAMESPACE


def test_the_latest_events_stay_in_whatever_order_they_arrive() -> None:
    log = EventLog()
    log.put("a/newest", event("a", "2026-06-01T00:00:00Z", "newest"))
    for number in range(2 * event_log.MOST_OF_NAMESPACE):
        log.put(f"a/{number}", event("a", "2026-01-01T00:00:00Z"))
    assert "newest" in {one.name for one in log.all()}
    log.remove("a/newest")
    assert "newest" not in {one.name for one in log.all()}


def test_many_namespaces_together_have_a_bound() -> None:
    log = EventLog(most_events=100)
    for number in range(500):
        log.put(f"s{number}/e", event(f"s{number}", "2026-01-01T00:00:00Z"))
    assert len(list(log.all())) == 100


@pytest.mark.parametrize(("space", "about", "shown"), [
    ("default", None, True),
    ("evil", None, False),
    ("evil", "evil", False),
    ("default", "evil", False),
])  # fmt: skip
def test_an_event_about_a_gpu_counts_from_the_operators_namespace(
    space: str, about: str | None, shown: bool
) -> None:
    involved = {"apiVersion": "gpu.tessera.dev/v1alpha1", "kind": "GPU", "name": "g"}
    if about is not None:
        involved["namespace"] = about
    document = {
        "metadata": {"name": "e", "namespace": space},
        "involvedObject": involved,
        "message": "m",
    }
    assert (read_event(document) is not None) == shown


def failed_scheduling(cluster: SyntheticCluster, pod: str, message: str) -> None:
    document: dict[str, Any] = {
        "metadata": {"name": f"of-{pod}", "namespace": "ml"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "ml", "name": pod},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": message,
        "lastTimestamp": "2026-06-01T00:00:00Z",
        "source": {"component": "default-scheduler"},
    }
    cluster.put("Event", document)


def test_scheduling_events_are_chosen_by_the_pod_and_the_policys_prefix() -> None:
    cluster = SyntheticCluster()
    policy = {"metadata": {"name": "default"}, "spec": {"resourcePrefix": "nvidia.com"}}
    cluster.put("GPUPolicy", policy)
    pod = synthetic.add_pending_pod(cluster, "ml", "claims", {})
    pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    synthetic.add_pending_pod(cluster, "ml", "web", {"example.com/license": "1"})
    failed_scheduling(cluster, "claims", "1 cannot allocate all claims.")
    failed_scheduling(cluster, "gone", "1 Insufficient nvidia.com/mig-3g.40gb.")
    failed_scheduling(cluster, "web", "1 Insufficient example.com/license.")
    failed_scheduling(cluster, "cpu", "1 Insufficient cpu.")
    text = fetch(cluster, "/events").text
    assert "cannot allocate all claims" in text
    assert "Insufficient nvidia.com/mig" in text
    assert "example.com" not in text
    assert "Insufficient cpu" not in text


def add_network(cluster: SyntheticCluster, name: str, app: str, pkey: int) -> None:
    partition = {"name": "p", "members": [{"podSelector": {"matchLabels": {"app": app}}}]}
    document: dict[str, Any] = {
        "metadata": {"name": name},
        "spec": {"partitions": [partition]},
        "status": {"partitions": [{"name": "p", "pkey": pkey}]},
    }
    cluster.put("RDMANetwork", document)


def test_explanations_have_the_pkeys_of_the_networks_statuses() -> None:
    cluster = SyntheticCluster()
    for space in ("a", "b"):
        cluster.put("Namespace", {"metadata": {"name": space, "labels": {}}})
        synthetic.add_rdma_pod(cluster, space, f"w-{space}", "trainer")
    add_network(cluster, "n", "trainer", 0x0A31)
    query = urlencode({"from": "a/w-a", "to": "b/w-b"})

    async def use(console: Console) -> list[str]:
        found = [(await console.request("/rdma/explain", query=query)).text]
        changed = json.loads(json.dumps(console.cluster.objects["RDMANetwork"]["n"]))
        changed["status"]["partitions"][0]["pkey"] = 0x0B42
        console.cluster.put("RDMANetwork", changed)
        await console.settle()
        found.append((await console.request("/rdma/explain", query=query)).text)
        console.cluster.remove("RDMANetwork", "n")
        await console.settle()
        found.append((await console.request("/rdma/explain", query=query)).text)
        return found

    first, second, third = run(cluster, use)
    assert "partition 0x8a31" in first  # bit 15: full member
    assert "partition 0x8b42" in second
    assert "0x8b42" not in third


PLAIN = LAYOUT % "Wait"


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ("!!timestamp x", "not YAML"),
        ("!!bool x", "not YAML"),
        ("!!int zz", "not YAML"),
        ("? {a: b}\n: c", "not YAML"),
        (PLAIN.replace("v1alpha1", "v9"), "apiVersion: gpu.tessera.dev/v1alpha1 is expected"),
        (PLAIN.replace("planned", "NOT/valid!"), "metadata.name: a lowercase RFC 1123"),
        (PLAIN.replace("planned", "a" * 254), "metadata.name: a lowercase RFC 1123"),
        (PLAIN.replace("planned", "a, labels: [1]"), "metadata.labels: a map of strings"),
        (PLAIN.replace("planned", "a, labels: {b: 1}"), "metadata.labels: a map of strings"),
        (PLAIN.replace("planned", "a, labels: {b: -x}"), "the value of b is no label value"),
        (PLAIN.replace("planned", "a, lables: {}"), "metadata.lables: unknown field"),
        (PLAIN + "sepc: {}\n", "sepc: unknown field"),
        (PLAIN + "1: {}\n", "1: unknown field"),
    ],
)
def test_a_manifest_that_the_api_server_refuses_is_refused(manifest: str, problem: str) -> None:
    with pytest.raises(ManifestError) as found:
        read_layout(manifest)
    assert problem in str(found.value)


def test_a_refused_manifest_is_no_error_of_the_console() -> None:
    assert post(SyntheticCluster(), "!!timestamp x").status == 422
    labels = PLAIN.replace("planned", "a.b-c, labels: {x/y: z}, annotations: {q: 'a b'}")
    assert read_layout(labels)["metadata"]["name"] == "a.b-c"


@pytest.mark.parametrize("text", ["[" * 40_000, "- " * 30_000, "{a: " * 12_000])
def test_deeply_nested_manifests_are_refused_before_they_are_composed(text: str) -> None:
    with pytest.raises(ManifestError, match=r"line 1: nested more than 64 levels deep"):
        read_layout(text)
