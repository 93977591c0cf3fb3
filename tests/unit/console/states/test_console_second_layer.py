"""RDMA pages state the condition SecondLayer, verbs that ReadOnly removes, and denials' times."""

from typing import Any
from urllib.parse import urlencode

import pytest
from unit.console.test_console_pages import fetch, run

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.model.event_log import read_event
from console.views import traffic
from console.views.operation.memory_access import describe_removed

PAIR = "from=training/w&to=training/weights-0"
SPEC: dict[str, Any] = {
    "podSelector": {"matchLabels": {"app": "weights"}},
    "policyTypes": ["Ingress"],
    "ingress": [
        {
            "from": [{"podSelector": {}}],
            "verbs": ["CM", "Read", "Write"],
            "memory": {"maxAccess": "ReadOnly"},
        }
    ],
}
REMOVED = "training/only ingress[0]: memory.maxAccess ReadOnly removes Write, which the rule lists"


@pytest.fixture
def cluster() -> SyntheticCluster:
    """Return a cluster with two pods and a policy that permits no change of memory."""
    cluster = SyntheticCluster()
    cluster.put("Namespace", {"metadata": {"name": "training"}})
    synthetic.add_rdma_pod(cluster, "training", "w", "worker")
    synthetic.add_rdma_pod(cluster, "training", "weights-0", "weights")
    metadata = {"name": "only", "namespace": "training"}
    cluster.put("RDMANetworkPolicy", {"metadata": metadata, "spec": SPEC})
    return cluster


def report(cluster: SyntheticCluster, status: str, reason: str, since: str) -> None:
    condition = {
        "type": "SecondLayer",
        "status": status,
        "reason": reason,
        "message": f"message of {reason}",
        "lastTransitionTime": since,
        "observedGeneration": 1,
    }
    (policy,) = cluster.objects["RDMANetworkPolicy"].values()
    policy["status"] = {"conditions": [condition]}


@pytest.mark.parametrize(("path", "query"), [("/rdma", ""), ("/rdma/explain", PAIR)])
def test_rdma_pages_state_the_second_layer_and_since_when(
    cluster: SyntheticCluster, path: str, query: str
) -> None:
    assert "SecondLayer" not in fetch(cluster, path, query).text
    report(cluster, "False", "EngineOnly", "2026-01-01T02:24:11Z")
    text = fetch(cluster, path, query).text
    words = "<b>SecondLayer is False</b> (EngineOnly) since 2026-01-01 02:24:11 UTC"
    assert f'<p class="note">{words}: <bdi>message of EngineOnly</bdi>' in text
    report(cluster, "True", "Enforced", "2026-01-01T02:24:18Z")
    text = fetch(cluster, path, query).text
    assert "<b>SecondLayer is True</b> (Enforced) since 2026-01-01 02:24:18 UTC" in text
    assert "EngineOnly" not in text


def test_a_pair_names_verbs_that_read_only_removes(cluster: SyntheticCluster) -> None:
    assert REMOVED in fetch(cluster, "/rdma/explain", PAIR).text


def test_what_if_names_verbs_that_read_only_removes(cluster: SyntheticCluster) -> None:
    manifest = """apiVersion: rdma.tessera.dev/v1alpha1
kind: RDMANetworkPolicy
metadata: {name: only, namespace: training}
spec:
  podSelector: {matchLabels: {app: weights}}
  policyTypes: [Ingress]
  ingress: [{from: [{podSelector: {}}], verbs: [CM, Read, Write], memory: {maxAccess: ReadOnly}}]
"""

    def propose(text: str) -> str:
        body = urlencode({"manifest": text}).encode()
        request = lambda one: one.request("/rdma/what-if", method="POST", body=body)  # noqa: E731
        return str(run(cluster, request).text)

    text = propose(manifest)
    assert ">0 pairs of pods" in text
    assert REMOVED in text
    assert "maxAccess ReadOnly removes" not in propose(manifest.replace("ReadOnly", "ReadWrite"))


@pytest.mark.parametrize("spec", [None, [], {"ingress": 1}, {"ingress": [None, {"memory": 1}]}])
def test_nothing_is_said_of_a_spec_that_is_invalid(spec: Any) -> None:
    assert not list(describe_removed("a/b", spec))


def test_a_rule_that_lists_no_verb_loses_all_that_change_memory() -> None:
    spec = {"ingress": [{}, {"memory": {"maxAccess": "ReadOnly"}}]}
    (text,) = describe_removed("a/b", spec)
    assert text.startswith("policy a/b ingress[1]: ")
    assert "removes Write, WriteImm, AtomicCAS, AtomicFAA: no peer gets them" in text


def test_a_denial_has_the_time_of_its_last_event() -> None:
    row = traffic.DenialRow("n", "ml/a", "db/b", "Write", (), False, None, 1.0)
    events = []
    for number, (message, time) in enumerate(
        (
            ("Write of ml/a (10.0.0.1) to db/b (10.0.0.2) denied by db/p", "10:00:00"),
            ("Write of ml/a (10.0.0.1) to db/b (10.0.0.2) denied by db/p", "10:05:00"),
            ("Read of ml/a (10.0.0.1) to db/b (10.0.0.2) denied by db/p", "10:06:00"),
            ("Write of ml/a (10.0.0.1) to db/bb (10.0.0.2) denied by db/p", "10:07:00"),
        )
    ):
        document = {
            "metadata": {"namespace": "db", "name": str(number)},
            "involvedObject": {"kind": "Pod", "namespace": "db", "name": "b"},
            "reason": "RDMADenied",
            "message": message,
            "lastTimestamp": f"2026-01-01T{time}Z",
            "source": {"component": "tessera-node"},
        }
        if (event := read_event(document)) is not None:
            events.append(event)
    assert len(events) == 4
    assert traffic.last_denied(events, row) == "2026-01-01T10:05:00Z"
    other = traffic.DenialRow("n", "ml/c", "db/b", "Write", (), False, None, 1.0)
    assert traffic.last_denied(events, other) == ""


def test_each_pair_has_a_title_of_its_own(cluster: SyntheticCluster) -> None:
    text = fetch(cluster, "/rdma/explain", PAIR).text
    assert "<title>training/w → training/weights-0: RDMA · Tessera</title>" in text
