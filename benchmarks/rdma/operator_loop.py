"""The operator's loop at the size of a large cluster: ``python -m benchmarks.rdma.operator_loop``.

The pods, policies and namespaces of ``benchmarks.rdma.policies`` arrive as the API server sends
them, on 200 nodes that all have HCAs. The benchmark measures the work between a change and the
writes for every node, and between acknowledgements and statuses, in CPU time of this process;
the API server is a dict, so requests cost nothing, and there are no agents. Policies arrive one
by one, as users write them. Memory is the maximum of the process, including this cluster.
"""

import datetime
import gc
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.rdma import policies
from benchmarks.report import Row, Section, machine, table
from gpu_operator.api.v1alpha1.rdma.packing import unpack
from gpu_operator.controllers.rdma import reading
from gpu_operator.controllers.rdma.cluster import TABLES_KIND, Change, Now, PolicyCluster
from gpu_operator.kube.actions import Action, Apply
from rdma import codec
from rdma.kinds import POLICY_KIND
from rdma.objects import NamespaceFacts, PodFacts
from rdma.reading.manifests import HCA_RESOURCE

NAME = "operator"
ROUNDS = 5
ONE_BY_ONE = 50
Document = dict[str, Any]


class Api:
    """A stand-in for the API server: stores the operator's writes, and the agents'
    acknowledgements.
    """

    def __init__(self) -> None:
        self.operator = PolicyCluster()
        self.objects: dict[tuple[str, str], Document] = {}
        self.changes: list[Change] = []
        self.version = 0

    @property
    def now(self) -> Now:
        """The time."""
        return Now(time.monotonic(), datetime.datetime.now(datetime.UTC))

    def put(self, kind: str, key: str, document: Document) -> None:
        """Store an object as a user writes it, and notify the operator."""
        self.version += 1
        namespace, _, name = key.rpartition("/")
        metadata = {"name": name, "uid": key, "namespace": namespace, "generation": self.version}
        metadata |= document.get("metadata", {}) | {"resourceVersion": str(self.version)}
        self.objects[kind, key] = {**document, "metadata": metadata}
        reader = getattr(reading, "read_tables" if kind == TABLES_KIND else _READERS[kind])
        self.changes.append((kind, key, reader(self.objects[kind, key])))

    def decide(self, statuses: bool) -> tuple[Action, ...]:
        """Return the operator's decisions, given all changes since the last call."""
        changes, self.changes = self.changes, []
        self.operator.apply(changes, self.now)
        return (
            self.operator.plan_reports(self.now)
            if statuses
            else self.operator.plan_tables(self.now)
        )

    def perform(self, actions: tuple[Action, ...]) -> None:
        """Execute the decisions."""
        for action in actions:
            if isinstance(action, Apply):
                document = dict(action.document)
                kind, metadata = document["kind"], document["metadata"]
                key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
                stored_object = self.objects.get((kind, key), {})
                self.put(
                    kind,
                    key,
                    {**stored_object, **{k: document[k] for k in _WRITTEN & document.keys()}},
                )

    def acknowledge(self) -> None:
        """Acknowledge the writes for every node, as its agent does."""
        for (kind, key), stored_object in list(self.objects.items()):
            if kind == TABLES_KIND:
                generation = stored_object["spec"]["generation"]
                status = {"generation": generation, "hcad": "Enforcing", "time": str(self.version)}
                self.put(kind, key, {**stored_object, "status": status})


_READERS = {
    "Namespace": "read_namespace",
    "Node": "read_node",
    "Pod": "read_pod",
    POLICY_KIND: "read_policy",
}
_WRITTEN = {"spec", "status"}


def namespace_document(facts: NamespaceFacts) -> Document:
    """Return a namespace as the API server sends it."""
    return {"metadata": {"labels": dict(facts.labels)}}


def pod_document(facts: PodFacts) -> Document:
    """Return a pod as the API server sends it."""
    limits = {"resources": {"limits": {HCA_RESOURCE: "1"}}}
    ips = [{"ip": address} for address in facts.addresses]
    return {
        "metadata": {"labels": dict(facts.labels)},
        "spec": {"nodeName": facts.node, "containers": [limits]},
        "status": {"phase": "Running", "podIPs": ips},
    }


def make_cluster() -> tuple[policies.Cluster, Api]:
    """Return a cluster whose objects the operator has received, except the last policies."""
    cluster, api = policies.Cluster(seed=1), Api()
    for number in range(policies.NODES):
        api.put("Node", f"node{number}", {"status": {"capacity": {HCA_RESOURCE: "8"}}})
    for namespace in cluster.namespaces:
        api.put("Namespace", namespace.name, namespace_document(namespace))
    for pod in cluster.pods:
        api.put("Pod", f"{pod.namespace}/{pod.name}", pod_document(pod))
    for number in range(policies.POLICIES):
        put_policy(cluster, api, number)
    return cluster, api


def put_policy(cluster: policies.Cluster, api: Api, number: int) -> None:
    """Write a policy, a different one each time."""
    key = f"ns{number % policies.NAMESPACES}/policy{number}"
    api.put(POLICY_KIND, key, {"spec": cluster.policy_spec()})


def _ms(act: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    began = time.process_time()
    outcome = act()
    return (time.process_time() - began) * 1e3, outcome


def measure() -> Section:
    """Measure the operator's loop."""
    cluster, api = make_cluster()
    first, actions = _ms(lambda: api.decide(statuses=False))
    api.perform(actions)
    edits, resyncs = [], []
    for number in range(ONE_BY_ONE + ROUNDS):
        put_policy(cluster, api, number)
        edit, actions = _ms(lambda: api.decide(statuses=False))
        api.perform(actions)
        api.acknowledge()
        if number >= ONE_BY_ONE:
            api.perform(api.decide(statuses=True))  # the writes that the edit itself causes
            status, actions = _ms(lambda: api.decide(statuses=True))
            edits.append(edit)
            resyncs.append(status)
    nodes = policies.NODES
    spec = api.objects[TABLES_KIND, "node1"]["spec"]
    codec.decode(unpack(spec["encoding"], spec["tables"]))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = f"{policies.PODS:,} pods, {policies.POLICIES:,} policies, {nodes} nodes"
    rows = (
        Row(NAME, f"{size}: all tables, at its start", first, "ms"),
        Row(NAME, "one policy edited, all nodes' tables", min(edits), "ms", 100),
        Row(NAME, "one node's object", len(spec["tables"]) / 1e3, "kB"),
        Row(NAME, "all statuses looked at again", min(resyncs), "ms"),
        Row(NAME, "memory at most", peak_mib, "MiB"),
    )
    return Section(NAME, rows)


if __name__ == "__main__":
    print(machine(), flush=True)
    section = measure()
    print(table([section]))
    sys.exit(any(row.verdict == "MISSED" for row in section.rows))
