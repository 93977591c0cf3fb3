"""The RDMA objects and events of a support bundle: what an issue needs, and no tenant's text."""

import json
from typing import Any

from unit.console.test_support import FOREIGN, SPACE, check, cluster, collect

from benchmarks.console.synthetic import SyntheticCluster
from gpu_operator import errors

__all__ = ["cluster"]
_SELECTOR = {"matchLabels": {"owner-of-acme": "ledger-7f9c"}}
_RULE = {
    "from": [{"podSelector": _SELECTOR}, {"ipBlock": {"cidr": "10.99.7.0/24"}}],
    "verbs": ["Read"],
    "ports": [{"serviceID": 4791}],
    "memory": {"scope": "Named", "regions": ["weights-of-acme"]},
}
_CONDITIONS = [
    {"type": "Accepted", "status": "False", "reason": "InvalidSpec", "message": "'of-acme'"},
    {
        "type": "Programmed",
        "status": "False",
        "reason": "HCAUnavailable",
        "message": "n1: hcad is Refused: of pod acme-training/trainer-of-acme",
    },
]
_DENIED = "Write to payments/ledger-7f9c denied by payments/policy-of-acme"
_EVENTS = (
    ("default", "GPU", "n1-gpu-0", "SliceInUse", "held by default/cron-of-acme-1"),
    ("default", "RDMANetwork", "lab", "Programmed", "generation 1: enforced on n1"),
    (FOREIGN[0], "RDMANetworkPolicy", "policy-of-acme", "Rejected", "value 'of-acme'"),
    (FOREIGN[0], "RDMANetworkPolicy", "policy-of-acme", "NodeSilent", "no heartbeat: n1"),
    (FOREIGN[0], "RDMANetworkPolicy", "gone-of-acme", "NodeSilent", "no heartbeat: n1"),
    (FOREIGN[0], "GPU", "forged-of-acme", "Reconciled", "forged"),
    (FOREIGN[0], "Pod", "trainer-of-acme", "RDMADenied", _DENIED),
    (FOREIGN[0], "Pod", "trainer-of-acme", "Scheduled", "not-ours-of-acme"),
)


def add_fabric(cluster: SyntheticCluster) -> None:
    """Add RDMA objects and events, with tenants' names in every field that can have one."""
    for space, name in ((FOREIGN[0], "policy-of-acme"), (SPACE, "own-policy")):
        labels = {"gpu.tessera.dev/x": "of-acme"}
        policy: dict[str, Any] = {
            "metadata": {"name": name, "namespace": space, "labels": labels},
            "spec": {"podSelector": _SELECTOR, "policyTypes": ["Ingress"], "ingress": [_RULE]},
            "status": {"nodesReady": "0/1", "conditions": _CONDITIONS},
        }
        cluster.put("RDMANetworkPolicy", policy)
    members = [{"podSelector": _SELECTOR, "membership": "Limited"}]
    spec: dict[str, Any] = {"mtu": 4096, "partitions": [{"name": "p", "pkey": 7}]}
    spec["partitions"][0]["members"] = members
    network = {"metadata": {"name": "lab"}, "spec": spec, "status": {"pkeys": "p=0x0007"}}
    cluster.put("RDMANetwork", network)
    text = "pod trainer-of-acme 10.9.0.1"
    tables = {
        "metadata": {"name": "n1"},
        "spec": {"generation": 3, "encoding": "Plain", "tables": text},
        "status": {"generation": 2, "hcad": "Refused", "pathMtu": 4096},
    }
    cluster.put("RDMANodeTables", tables)
    for number, (space, kind, name, reason, message) in enumerate(_EVENTS):
        about = {"kind": kind, "name": name}
        if space != "default":
            about["namespace"] = space
        event = {
            "metadata": {"name": f"e{number}", "namespace": space},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "count": 4,
            "lastTimestamp": f"2026-11-27T11:00:0{number}Z",
        }
        cluster.put("Event", event)


def test_a_bundle_has_rdma_objects_without_tenants(cluster: SyntheticCluster) -> None:
    add_fabric(cluster)
    files = collect(cluster)
    whole = "\n".join([*files, *files.values()])
    for text in ("acme", "payments", "ledger", "10.99.7", "10.9.0.1", "4791"):
        assert text not in whole, text
    listed = json.loads(files["cluster/rdmanetworkpolicies.json"])
    policies = {one["metadata"]["name"]: one for one in listed}
    assert policies.keys() == {"policy-1", "own-policy"}
    theirs = policies["policy-1"]
    assert theirs["metadata"]["namespace"].startswith("namespace-")
    assert theirs["spec"]["podSelector"] == "1 labels not shown"
    assert theirs["spec"]["ingress"] == [
        {
            "verbs": ["Read"],
            "from": "2 not shown",
            "ports": "1 not shown",
            "memory": {"scope": "Named", "regions": "1 not shown"},
        }
    ]
    accepted, programmed = theirs["status"]["conditions"]
    assert (accepted["reason"], accepted["message"]) == ("InvalidSpec", "not shown")
    assert programmed["message"].startswith("n1: hcad is Refused: of pod namespace-")
    (network,) = json.loads(files["cluster/rdmanetworks.json"])
    (partition,) = network["spec"]["partitions"]
    assert (partition["name"], partition["pkey"]) == ("p", 7)
    assert partition["members"][0]["membership"] == "Limited"
    (tables,) = json.loads(files["cluster/rdmanodetables.json"])
    assert tables["status"]["hcad"] == "Refused"
    assert tables["spec"]["tables"] == "28 characters not shown"


def test_a_bundle_has_the_events_of_tesseras_objects(cluster: SyntheticCluster) -> None:
    add_fabric(cluster)
    found = json.loads(collect(cluster)["cluster/events.json"])
    assert [(one["kind"], one["name"], one["reason"]) for one in found["events"]] == [
        ("RDMANetworkPolicy", "a policy that does not exist any more", "NodeSilent"),
        ("RDMANetworkPolicy", "policy-1", "NodeSilent"),
        ("RDMANetworkPolicy", "policy-1", "not shown"),
        ("RDMANetwork", "lab", "Programmed"),
        ("GPU", "n1-gpu-0", "SliceInUse"),
    ]
    assert found["events"][2]["message"] == "not shown"
    assert found["events"][3]["message"] == "generation 1: enforced on n1"
    assert found["events"][4]["message"] == "held by default/[redacted]"
    assert found["refusedPackets"] == {"RDMADenied": 4}


def test_the_doctor_reads_no_rdma_objects_and_no_events(cluster: SyntheticCluster) -> None:
    add_fabric(cluster)
    check(cluster)
    assert not cluster.lists.keys() & {"Event", "RDMANetworkPolicy", "RDMANetwork"}
    for kind in ("Event", "RDMANetworkPolicy"):
        cluster.refused[kind] = errors.Refused(f"list {kind}: forbidden")
    files = collect(cluster)
    assert "RDMANetworkPolicy: list RDMANetworkPolicy: forbidden" in files["cluster/errors.txt"]
    assert "Event: list Event: forbidden" in files["cluster/errors.txt"]
    assert json.loads(files["cluster/events.json"]) == {"events": [], "refusedPackets": {}}


def test_what_a_tenant_wrote_into_an_event_is_not_in_a_bundle(cluster: SyntheticCluster) -> None:
    add_fabric(cluster)
    event = next(
        one
        for one in cluster.objects["Event"].values()
        if one["metadata"]["namespace"] != "default" and one["reason"] == "NodeSilent"
    )
    event |= {"reason": "acme-project", "type": "acme-type", "message": "customer acme"}
    assert "acme" not in collect(cluster)["cluster/events.json"]
    event |= {"reason": "Programmed"}
    assert "acme" not in collect(cluster)["cluster/events.json"]
