"""An API server in memory, nodes whose hcad trusts its input, and the operator's policies.

The policy that a node enforces is stored separately from the one that it reports, so that a test
can compare the two.
"""

import copy
import datetime
from typing import Any

from gpu_operator.api.v1alpha1.rdma import packing
from gpu_operator.controllers.rdma.cluster import TABLES_KIND, Change, Now, PolicyCluster
from gpu_operator.engine.rdma_loop import _READERS
from gpu_operator.kube.actions import Action, Apply, Delete, Record
from rdma import codec
from rdma.kinds import NETWORK_KIND, POLICY_KIND
from rdma.reading.manifests import HCA_RESOURCE
from rdma.tables import NodeTables

Document = dict[str, Any]
OWNER = {"apiVersion": "v1", "kind": "ClusterRole", "name": "r", "uid": "u"}


class RdmaWorld:
    """The cluster: users write by ``put`` and ``remove``; ``step`` runs the operator."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Document] = {}
        self.events: list[Record] = []
        self.written: list[Action] = []
        self.enforced: dict[str, NodeTables] = {}
        self.seconds = 1000.0
        self.wall = 0.0  # added to the wall clock
        self._numbers = iter(range(1, 1 << 30))
        self._feed: list[Change] = []
        self.restart()

    def restart(self) -> None:
        """Lose everything that the operator has in memory."""
        self.operator = PolicyCluster([OWNER])
        self._feed = [self._change(kind, key) for kind, key in self.objects]

    @property
    def now(self) -> Now:
        began = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        return Now(self.seconds, began + datetime.timedelta(seconds=self.seconds + self.wall))

    # Users and nodes

    def put(self, kind: str, key: str, spec: Document, **more: Any) -> Document:
        """Create or edit an object; a different spec increments the generation."""
        namespace, _, name = key.rpartition("/")
        known = self.objects.get((kind, key))
        metadata = {"name": name, "uid": f"{key}-{next(self._numbers)}", "generation": 1}
        metadata["creationTimestamp"] = f"{self.now.moment:%Y-%m-%dT%H:%M:%SZ}"
        if namespace:
            metadata["namespace"] = namespace
        if known is not None:
            metadata = dict(known["metadata"])  # a reader may still use the old one
            metadata["generation"] += known["spec"] != spec
        metadata["labels"] = more.pop("labels", metadata.get("labels", {}))
        kept = {"status": known["status"]} if known is not None and "status" in known else {}
        self._store(kind, key, {"metadata": metadata, "spec": spec, **kept, **more})
        return self.objects[kind, key]

    def remove(self, kind: str, key: str) -> None:
        """Delete an object."""
        del self.objects[kind, key]
        self._feed.append((kind, key, None))

    def lose(self, kind: str, key: str) -> None:
        """Delete an object without a watch event; the next one of that name is the first event."""
        del self.objects[kind, key]

    def node(self, name: str, hcas: int = 1) -> None:
        """Add a node with HCA functions."""
        self.put("Node", name, {}, status={"capacity": {HCA_RESOURCE: str(hcas)}})

    def namespace(self, name: str, **labels: str) -> None:
        """Add a namespace."""
        self.put("Namespace", name, {}, labels=labels)

    def pod(self, key: str, node: str, ip: str, hca: bool = True, **labels: str) -> None:
        """Add a running pod."""
        limits = {HCA_RESOURCE: "1"} if hca else {}
        spec = {"nodeName": node, "containers": [{"resources": {"limits": limits}}]}
        status = {"phase": "Running", "podIPs": [{"ip": ip}]}
        self.put("Pod", key, spec, labels=labels, status=status)

    def policy(self, key: str, **spec: Any) -> None:
        """Create or edit an RDMANetworkPolicy."""
        self.put(POLICY_KIND, key, {"podSelector": {}, **spec})

    def network(self, name: str, **spec: Any) -> None:
        """Create or edit an RDMANetwork."""
        self.put(NETWORK_KIND, name, spec)

    def agent(self, node: str, **said: Any) -> None:
        """Pass a node's tables to hcad and acknowledge them, or report ``said`` instead."""
        found = self.objects.get((TABLES_KIND, node))
        if found is None:
            return
        if not said:
            self.enforced[node] = self.tables(node)
            said = {"generation": self.enforced[node].generation, "hcad": "Enforcing"}
        status = {"time": f"t{next(self._numbers)}", **said}
        self._store(TABLES_KIND, node, {**found, "status": status})

    def beat(self, *nodes: str) -> None:
        """Renew the Leases of the nodes' agents."""
        for node in nodes:
            renewed = {"renewTime": f"t{next(self._numbers)}"}
            self.put("Lease", f"ns/tessera-rdma-{node}", renewed)

    # The operator

    def step(self, *agents: str, rounds: int = 1) -> int:
        """Process all changes in the operator, then run these agents; return the number of
        writes.
        """
        before = len(self.written)
        for _ in range(rounds):
            for decide in (self.operator.plan_tables, self.operator.plan_reports):
                feed, self._feed = self._feed, []
                self.operator.apply(feed, self.now)
                for action in decide(self.now):
                    self.perform(action)
            for node in agents:
                self.agent(node)
        return len(self.written) - before

    def settle(self, *agents: str) -> None:
        """Run all actors until the operator writes nothing more."""
        for _ in range(10):
            if not self.step(*agents) and not self.step():
                return
        raise AssertionError("still writing: it does not converge")

    def perform(self, action: Action) -> None:
        """Perform the operator's API request."""
        if isinstance(action, Record):
            self.events.append(action)
            return
        self.written.append(action)
        if isinstance(action, Delete):
            self.remove(action.kind, action.name)
            return
        assert isinstance(action, Apply)
        document = copy.deepcopy(dict(action.document))
        metadata, kind = document["metadata"], document["kind"]
        namespace = metadata.get("namespace")
        key = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
        if action.status:
            found = self.objects.get((kind, key))
            if found is not None and found["metadata"]["uid"] == metadata["uid"]:
                self._store(kind, key, {**found, "status": document["status"]})
            return
        assert metadata["ownerReferences"] == [OWNER]
        self.put(kind, key, document["spec"])

    # Inspection

    def tables(self, node: str) -> NodeTables:
        """Return the tables that the operator has written for a node."""
        spec = self.objects[TABLES_KIND, node]["spec"]
        return codec.decode(packing.unpack(spec["encoding"], spec["tables"]))

    def condition(self, kind: str, key: str, wanted: str) -> tuple[str, str, str]:
        """Return status, reason and message."""
        for one in self.objects[kind, key].get("status", {}).get("conditions", ()):
            if one["type"] == wanted:
                return one["status"], one["reason"], one["message"]
        return "", "", ""

    def programmed_condition(self, key: str) -> tuple[str, str, str]:
        """Return the Programmed condition of a policy."""
        return self.condition(POLICY_KIND, key, "Programmed")

    def status(self, key: str) -> Document:
        """Return the status of a policy."""
        found: Document = self.objects[POLICY_KIND, key]["status"]
        return found

    def _store(self, kind: str, key: str, document: Document) -> None:
        document = copy.deepcopy(document)
        document["kind"] = kind
        document["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.objects[kind, key] = document
        self._feed.append(self._change(kind, key))

    def _change(self, kind: str, key: str) -> Change:
        return kind, key, _READERS[kind](copy.deepcopy(self.objects[kind, key]))
