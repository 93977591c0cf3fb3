"""RDMA policies on a cluster: from `kubectl apply` to hcad's enforcement, and the status."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster.kubectl import EXAMPLES, Cluster, in_node, until
from support.cluster.rdma_nodes import WITHOUT_END, pace

HCA = "rdma.tessera.dev/hca"
REASON = "jsonpath={.status.conditions[?(@.type=='Programmed')].reason}"
LISTENS = f"{18515:04X}"


@pytest.fixture(autouse=True)
def hcas(whole_cluster: Cluster) -> Cluster:
    """Return the cluster, in which nodes have HCA functions."""
    nodes = whole_cluster.get("nodes")["items"]
    if not any(node["status"].get("allocatable", {}).get(HCA, "0") != "0" for node in nodes):
        pytest.skip(f"NOT RUN: no node offers {HCA}: apply a GPUPool with spec.hcas")
    return whole_cluster


@pytest.fixture
def network(whole_cluster: Cluster) -> Iterator[str]:
    """Apply the example's network, and yield its name."""
    whole_cluster.kubectl("apply", "-f", str(EXAMPLES / "rdma" / "network.yaml"))
    yield "cluster"
    whole_cluster.delete("rdmanetwork", "cluster")


def is_programmed(cluster: Cluster, policy: str) -> bool:
    return bool(cluster.condition(f"rdmanetworkpolicy/{policy}", "Programmed").status == "True")


def tables(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the tables of every node."""
    found = cluster.get("rdmanodetables")["items"]  # small: Plain
    return [json.loads(one["spec"]["tables"]) for one in found]


def test_an_edit_is_programmed_again_and_without_pods_takes_no_room(namespace: Cluster) -> None:
    example = ("-f", str(EXAMPLES / "rdma" / "deny-writes.yaml"))
    namespace.kubectl("apply", *example)
    until(lambda: is_programmed(namespace, "deny-writes"))
    policy = namespace.get("rdmanetworkpolicy", "deny-writes")
    nodes = policy["status"]["nodes"]
    assert nodes["ready"] == nodes["total"] == len(namespace.get("rdmanodetables")["items"])
    patch = '{"spec": {"ingress": [{"verbs": ["CM", "Send"]}]}}'
    began = time.monotonic()
    namespace.kubectl("patch", "rnetpol", "deny-writes", "--type=merge", "-p", patch)
    until(lambda: is_programmed(namespace, "deny-writes"), every_s=0.1)
    print(f"edit to Programmed, kubectl included: {time.monotonic() - began:.2f} s")
    # The policy selects no pod with an HCA, so its rules are in no node's tables (ADR 104).
    key = f"{namespace.namespace}/deny-writes"
    assert not any(rule["policy"] == key for one in tables(namespace) for rule in one["rules"])
    for one in namespace.get("rdmanodetables")["items"]:
        assert one["status"]["generation"] == one["spec"]["generation"]
    printed = namespace.kubectl("get", "rdmanetworkpolicies").splitlines()
    assert printed[0].split() == [
        "NAME",
        "ACCEPTED",
        "PROGRAMMED",
        "SELECTED",
        "PODS",
        "NODES",
        "REASON",
        "AGE",
    ]
    assert f"{nodes['total']}/{nodes['total']}" in printed[1]
    namespace.wait_for_event("deny-writes", "Programmed")
    events = namespace.get("events", "--field-selector", "reason=Programmed")["items"]
    assert {e["involvedObject"]["name"] for e in events} == {"deny-writes"}


def test_a_network_s_status_has_its_p_keys(whole_cluster: Cluster, network: str) -> None:
    until(lambda: whole_cluster.condition(f"rdmanetwork/{network}", "Programmed").status)
    status = whole_cluster.get("rdmanetwork", network)["status"]
    keys = {one["name"]: one["pkey"] for one in status["partitions"]}
    assert keys["train"] == 0x0A31
    assert 1 <= keys["storage"] <= 0x7FFE
    assert "train=0x0a31" in whole_cluster.kubectl("get", "rnet", network)


def test_mistakes_are_refused_with_the_field(namespace: Cluster) -> None:
    """Errors that the schema and its CEL rules detect, and errors that only the compiler
    detects.
    """
    for ingress, words in (
        (
            {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}]},
            "ipBlock cannot be combined",
        ),
        ({"from": [{}]}, "set podSelector, namespaceSelector, partition or ipBlock"),
        ({"ports": [{"serviceID": 9, "endServiceID": 8}]}, "endServiceID requires serviceID"),
        ({"ports": [{"endQPN": 8}]}, "endQPN requires qpn"),
        ({"ports": [{"dscp": 1, "trafficClass": 4}]}, "set one of them"),
        ({"memory": {"regions": ["x"]}}, "set regions if and only if scope is Named"),
        ({"verbs": ["Destroy"]}, "Unsupported value"),
        ({"verb": ["Send"]}, "unknown field"),
    ):
        with pytest.raises(AssertionError, match=words):
            namespace.apply(policy("wrong", ingress=[ingress]))
    namespace.apply(policy("late", ingress=[{"from": [{"partition": {"name": "nowhere"}}]}]))
    accepted = "rdmanetworkpolicy/late", "Accepted"
    until(lambda: namespace.condition(*accepted).status)
    found = namespace.condition(*accepted)
    assert (found.status, found.reason) == ("False", "InvalidSpec")
    assert "spec.ingress[0].from[0].partition" in found.message
    until(lambda: namespace.get("events", "--field-selector", "reason=Rejected")["items"])


def test_explain_describes_the_fields(whole_cluster: Cluster) -> None:
    text = whole_cluster.kubectl("explain", "rdmanetworkpolicy.spec.ingress.from.ipBlock")
    assert "outside of the cluster" in " ".join(text.split())
    text = whole_cluster.kubectl("explain", "rnetpol.spec.enforcement")
    assert "unlike with NetworkPolicy" in " ".join(text.split())


WRITE = """
import sys
from device_plugin.kube.tables import TablesKube
from gpu_operator.api.v1alpha1.rdma.tables import RDMANodeTablesStatus
kube = TablesKube(sys.argv[1], "tessera-system")
if sys.argv[2] == "beat":
    kube.renew_lease(())
else:
    kube.acknowledge(sys.argv[3], RDMANodeTablesStatus(generation=1))
print("written")
"""


def test_an_agent_writes_for_its_own_node_only(whole_cluster: Cluster) -> None:
    """Tried from an agent's pod, with the token that the kubelet bound to it."""
    system = Cluster("tessera-system")
    pod = system.get("pods", "-l", "app.kubernetes.io/component=node")["items"][0]
    own = pod["spec"]["nodeName"]
    uids = {
        one["metadata"]["name"]: one["metadata"]["uid"]
        for one in whole_cluster.get("rdmanodetables")["items"]
    }
    other = next(name for name in uids if name != own)
    write = ["exec", pod["metadata"]["name"], "-c", "agent", "--", "python", "-c", WRITE]
    assert "written" in system.kubectl(*write, own, "beat")
    refused = f"own node only; this one runs on '{own}'"
    for what in (("beat",), ("acknowledge", uids[other])):
        with pytest.raises(AssertionError, match=refused):
            system.kubectl(*write, other, *what)


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("patch", "rdmanodetables"),
        ("get", "rdmanetworkpolicies"),
        ("list", "leases"),
        ("update", "leases"),
    ],
)
def test_an_agent_has_no_other_rights(whole_cluster: Cluster, verb: str, what: str) -> None:
    account = "system:serviceaccount:tessera-system:tessera-node"
    with pytest.raises(AssertionError):  # the result is kubectl's exit status
        whole_cluster.kubectl("auth", "can-i", verb, what, f"--as={account}")


@pytest.mark.alone("first-node", "last-node")
def test_a_node_whose_agent_is_silent_is_named(namespace: Cluster) -> None:
    """The processes of its agent are stopped, as on a node that hangs, and resumed afterwards."""
    namespace.apply(policy("quiet"))
    until(lambda: is_programmed(namespace, "quiet"))
    node = namespace.get("rdmanodetables")["items"][0]["metadata"]["name"]
    began = time.monotonic()

    def is_named() -> bool:
        # Again each time: its supervisor replaces an agent that hangs for 30 s, which may be before
        # this test looks on a busy machine.
        in_node(node, "sh", "-c", "pkill -STOP -x tessera-agent || true")
        return namespace.kubectl("get", "rnetpol", "quiet", "-o", REASON) == "NodeSilent"

    try:
        until(is_named)
        print(f"silence is reported after {time.monotonic() - began:.1f} s")
        said = namespace.condition("rdmanetworkpolicy/quiet", "Programmed")
        assert said.status == "Unknown"
        assert node in said.message
    finally:
        in_node(node, "sh", "-c", "pkill -CONT -x tessera-agent || true")
    until(lambda: is_programmed(namespace, "quiet"))


def test_a_denied_write_fails_and_says_so_on_the_pod(namespace: Cluster) -> None:
    """The example: the app's memory may be read, not written. The policy also revokes open
    connections.
    """
    nodes = namespace.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    node = str(min(one["metadata"]["name"] for one in nodes))
    program = f"stdbuf -oL ib_write_bw {WITHOUT_END}"
    namespace.apply(perftest("server", f"exec {program}", node, app="weights"))
    ip = namespace.wait_pod("server", "Running")["status"]["podIP"]
    until(lambda: listens(namespace, "server"), 60)
    namespace.apply(pace(perftest("client", f"exec {program} {ip}", node)))
    namespace.wait_pod("client", "Running")
    until(lambda: "remote address" in namespace.logs("client"), 60)
    namespace.kubectl("apply", "-f", str(EXAMPLES / "rdma" / "deny-writes.yaml"))
    until(lambda: is_programmed(namespace, "deny-writes"))
    assert namespace.wait_pod("client")["status"]["phase"] == "Failed", namespace.logs("client")
    denied = until(
        lambda: namespace.get("events", "--field-selector", "reason=RDMADenied")["items"], 60
    )
    assert any("deny-writes" in event["message"] for event in denied)
    assert {event["involvedObject"]["kind"] for event in denied} == {"Pod"}


def perftest(name: str, command: str, node: str, **labels: str) -> dict[str, Any]:
    """Return a pod for Debian's programs with one HCA function."""
    container = {
        "name": "main",
        "image": "tessera.local/tessera-perftest:demo",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command],
        "resources": {"limits": {HCA: 1}},
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [container],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def listens(cluster: Cluster, name: str) -> bool:
    """Return whether perftest listens on its port (proc_net_tcp(5): state 0A)."""
    shown = cluster.kubectl("exec", name, "--", "cat", "/proc/net/tcp", "/proc/net/tcp6")
    words = (line.split() for line in shown.splitlines())
    return any(w[3:4] == ["0A"] and w[1].endswith(f":{LISTENS}") for w in words)


def policy(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "rdma.tessera.dev/v1alpha1",
        "kind": "RDMANetworkPolicy",
        "metadata": {"name": name},
        "spec": {"podSelector": {}, **spec},
    }
