"""State of the cluster for RDMA policies: turns changes into actions. No I/O, no clock.

``apply`` records changes. ``plan_tables`` and ``plan_reports`` return the pending writes, and
return them again until the objects are observed to have them. Not thread-safe.
"""

import datetime
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gpu_operator.api.v1alpha1.base import ConditionType, Reason
from gpu_operator.api.v1alpha1.rdma import API_VERSION, LEASE_PREFIX
from gpu_operator.api.v1alpha1.rdma.network import AllocatedPartition, RDMANetworkStatus
from gpu_operator.api.v1alpha1.rdma.packing import Packed, Packer
from gpu_operator.api.v1alpha1.rdma.policy import NodeCount, RDMANetworkPolicyStatus
from gpu_operator.controllers.rdma import reports
from gpu_operator.controllers.rdma.nodes import NodeState
from gpu_operator.controllers.rdma.reading import SeenNetwork, SeenPolicy, SeenTables
from gpu_operator.controllers.rdma.reports import Finding, Reach, Reaches
from gpu_operator.kube.actions import Action, Apply, Delete, Manager
from rdma.compiling.compiler import Compiler
from rdma.errors import TablesError
from rdma.kinds import NETWORK_KIND, POLICY_KIND
from rdma.objects import NamespaceFacts, PodFacts

TABLES_KIND: Final = "RDMANodeTables"
Change = tuple[str, str, Any]
"""Kind, key and value of a changed object; the value None means that it is gone."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Now:
    """The current time, as monotonic seconds and as a date and time."""

    seconds: float  # monotonic
    moment: datetime.datetime

    @property
    def unix_ms(self) -> int:
        return int(self.moment.timestamp() * 1000)


class PolicyCluster:
    """All observed objects, and the compiler that processes them."""

    def __init__(self, owners: Sequence[Mapping[str, Any]] = ()) -> None:
        """Initialize; ``owners`` become owners of the tables, which are deleted with them."""
        self._owners = [dict(owner) for owner in owners]
        self._compiler: Compiler | None = None
        self._packer = Packer()
        self._policies: dict[str, SeenPolicy] = {}
        self._networks: dict[str, SeenNetwork] = {}
        self._uids: dict[str, str] = {}  # pod → UID
        self._with_hca: set[str] = set()
        self._nodes: dict[str, NodeState] = {}
        self._stray: dict[str, SeenTables] = {}  # of nodes that need no tables
        self._hearts: dict[str, str] = {}
        self._compiled: dict[tuple[str, str], int] = {}  # object → first revision that contains it
        self._fresh: set[tuple[str, str]] = set()
        self._revision = 0
        self._stale = True
        self._too_large = ""
        self._takers: Mapping[str, Callable[[str, Any, Now], None]] = {
            "Pod": self._pod,
            "Namespace": self._namespace,
            "Node": self._node,
            "Lease": self._lease,
            NETWORK_KIND: self._network,
            POLICY_KIND: self._policy,
            TABLES_KIND: self._tables,
        }

    def apply(self, changes: Iterable[Change], current_time: Now) -> None:
        """Record changes of observed objects.

        The first call must contain all objects. If the status of a network in this call lists
        P_Keys, these P_Keys stay allocated.
        """
        changes = list(changes)
        if self._compiler is None:
            self._compiler = Compiler(_read_pkeys(changes))
        for kind, key, value in changes:
            self._takers[kind](key, value, current_time)

    def plan_tables(self, current_time: Now) -> tuple[Action, ...]:
        """Return the writes that bring every node's tables up to date."""
        compiler = self._compiler
        if compiler is None:
            return ()
        if self._stale:
            self._compile(compiler)
        for name in self._node_names(compiler) - self._nodes.keys():
            state = self._nodes[name] = NodeState(name, current_time.seconds, self._packer)
            state.apply(self._stray.pop(name, None), current_time.seconds)
        gone = self._nodes.keys() - self._node_names(compiler)
        for name in gone:
            seen_tables = self._nodes.pop(name).seen
            if seen_tables is not None:
                self._stray[name] = seen_tables
        actions: list[Action] = [Delete(TABLES_KIND, name) for name in sorted(self._stray)]
        self._too_large = ""
        for name, state in sorted(self._nodes.items()):
            try:
                due = state.due_write(compiler.tables(name), self._revision, current_time.unix_ms)
            except TablesError as err:
                self._too_large = f"{name}: {err}"
                continue
            if due is not None:
                actions.append(self._write(name, *due))
        return tuple(actions)

    def plan_reports(self, current_time: Now) -> tuple[Action, ...]:
        """Return the writes that bring the statuses of policies and networks up to date."""
        compiler = self._compiler
        if compiler is None:
            return ()
        problems = compiler.problems()
        nodes = [state for _, state in sorted(self._nodes.items())]
        for state in nodes:
            state.prune_sent()
        reach = Reaches(nodes, current_time.seconds)
        second = reports.second_layer_finding(nodes)
        actions: list[Action] = []
        for key, policy in self._policies.items():
            accepted = reports.accepted_finding(
                policy.problem, problems.get((POLICY_KIND, key), ())
            )
            object_reach = self._reach(reach, (POLICY_KIND, key), policy.problem)
            status = RDMANetworkPolicyStatus(
                selected_pods=compiler.selected_count(key),
                nodes=NodeCount(ready=object_reach.ready, total=object_reach.total),
                nodes_ready=f"{object_reach.ready}/{object_reach.total}",
            )
            conditions: tuple[tuple[ConditionType, Finding], ...] = (
                (ConditionType.ACCEPTED, accepted),
                (ConditionType.PROGRAMMED, object_reach.finding),
                (ConditionType.SECOND_LAYER, second),
            )
            actions += reports.report(
                policy.meta,
                policy.namespace,
                policy.status,
                status,
                conditions,
                current_time.moment,
            )
        for key, network in self._networks.items():
            accepted = reports.accepted_finding(
                network.problem, problems.get((NETWORK_KIND, key), ())
            )
            object_reach = self._reach(reach, (NETWORK_KIND, key), network.problem)
            conditions = (
                (ConditionType.ACCEPTED, self._mtu(network) or accepted),
                (ConditionType.PROGRAMMED, object_reach.finding),
            )
            status_of = self._network_status(compiler, network)
            actions += reports.report(
                network.meta, "", network.status, status_of, conditions, current_time.moment
            )
        return tuple(actions)

    def again_in_s(self, current_time: Now) -> float | None:
        """Return the seconds until the next node counts as silent; None if no node is alive.

        At that time, the statuses of policies and networks must be computed again, even if no
        object has changed.
        """
        delays_s = [
            state.seconds_until_silent(current_time.seconds) for state in self._nodes.values()
        ]
        return min((seconds for seconds in delays_s if seconds > 0), default=None)

    def _compile(self, compiler: Compiler) -> None:
        self._revision += 1
        for object_key in self._fresh:
            self._compiled[object_key] = self._revision
        self._fresh.clear()
        self._stale = False
        compiler.nodes()  # completes the compilation

    def _node_names(self, compiler: Compiler) -> set[str]:
        return self._with_hca | set(compiler.nodes())

    def _write(self, name: str, generation: int, packed: Packed) -> Apply:
        document = {
            "apiVersion": API_VERSION,
            "kind": TABLES_KIND,
            "metadata": {"name": name, "ownerReferences": self._owners},
            "spec": {
                "generation": generation,
                "encoding": packed.encoding.value,
                "tables": packed.text,
            },
        }
        return Apply(Manager.TABLES, document)

    def _reach(self, reach: Reaches, of: tuple[str, str], problem: str) -> Reach:
        revision = self._compiled.get(of)
        object_reach = reach.reach_of(revision if revision is not None else self._revision + 1)
        if revision is None or self._too_large:
            message = self._too_large or "not compiled yet"
            object_reach = replace(
                object_reach, ready=0, finding=Finding("False", Reason.PENDING, message)
            )
        return reports.with_invalid_spec(object_reach) if problem else object_reach

    def _mtu(self, network: SeenNetwork) -> Finding | None:
        requested_mtu = network.network.mtu if network.network is not None else None
        if requested_mtu is None:
            return None
        for name, state in sorted(self._nodes.items()):
            carried = state.seen.status.path_mtu if state.seen is not None else None
            if carried is not None and carried < requested_mtu:
                message = (
                    f"spec.mtu: {requested_mtu} is more than the {carried} that the interface"
                    f" of node {name} carries; lower it, or give the interface a larger MTU"
                )
                return Finding("False", Reason.MTU_EXCEEDS_INTERFACE, message)
        return None

    def _network_status(self, compiler: Compiler, network: SeenNetwork) -> RDMANetworkStatus:
        if network.network is None:
            return network.status  # it keeps its P_Keys until it is valid again
        keys = compiler.pkeys
        allocated_partitions = tuple(
            AllocatedPartition(name=partition.name, pkey=keys[network.meta.name, partition.name])
            for partition in network.network.partitions
            if (network.meta.name, partition.name) in keys
        )
        pkeys = ",".join(
            f"{partition.name}={partition.pkey:#06x}" for partition in allocated_partitions
        )
        classes = ",".join(
            f"{qos_class.name}={qos_class.dscp}" for qos_class in network.network.qos_classes
        )
        return RDMANetworkStatus(partitions=allocated_partitions, pkeys=pkeys, qos_classes=classes)

    # handlers, one for each kind

    def _pod(self, key: str, pod: PodFacts | None, current_time: Now) -> None:
        assert self._compiler is not None
        old_uid = self._uids.pop(key, None)
        if old_uid is not None and (pod is None or pod.uid != old_uid):
            self._compiler.delete_pod(old_uid)
        if pod is not None:
            self._uids[key] = pod.uid
            self._compiler.upsert_pod(pod)
        self._stale = True

    def _namespace(self, key: str, namespace: NamespaceFacts | None, current_time: Now) -> None:
        assert self._compiler is not None
        if namespace is None:
            self._compiler.delete_namespace(key)
        else:
            self._compiler.upsert_namespace(namespace)
        self._stale = True

    def _node(self, key: str, name: str | None, current_time: Now) -> None:
        self._with_hca.discard(key)
        if name is not None:
            self._with_hca.add(name)

    def _lease(self, key: str, renewed: str | None, current_time: Now) -> None:
        node = key.partition("/")[2].removeprefix(LEASE_PREFIX)
        if renewed is None:
            self._hearts.pop(node, None)
        elif self._hearts.get(node) != renewed:
            self._hearts[node] = renewed
            if node in self._nodes:
                self._nodes[node].record_heartbeat(current_time.seconds)

    def _network(self, key: str, network: SeenNetwork | None, current_time: Now) -> None:
        assert self._compiler is not None
        if network is None:
            self._networks.pop(key, None)
            self._compiler.delete_network(key)
            self._drop((NETWORK_KIND, key))
            return
        old_network = self._networks.get(key)
        if _is_older(network, old_network):
            return
        self._networks[key] = network
        if old_network is None or _version(old_network) != _version(network):
            if network.network is not None:
                self._compiler.upsert_network(network.network)
            elif old_network is None and network.closed is not None:
                self._compiler.upsert_network(network.closed)
            # else the last valid version stays in force
            self._fresh.add((NETWORK_KIND, key))
            self._compiled.pop((NETWORK_KIND, key), None)
            self._stale = True

    def _policy(self, key: str, policy: SeenPolicy | None, current_time: Now) -> None:
        assert self._compiler is not None
        if policy is None:
            self._policies.pop(key, None)
            self._compiler.delete_policy(key)
            self._drop((POLICY_KIND, key))
            return
        old_policy = self._policies.get(key)
        if _is_older(policy, old_policy):
            return
        self._policies[key] = policy
        if old_policy is None or _version(old_policy) != _version(policy):
            self._compiler.upsert_policy(policy.policy)
            self._fresh.add((POLICY_KIND, key))
            self._compiled.pop((POLICY_KIND, key), None)
            self._stale = True

    def _drop(self, of: tuple[str, str]) -> None:
        self._compiled.pop(of, None)
        self._fresh.discard(of)
        self._stale = True

    def _tables(self, key: str, seen_tables: SeenTables | None, current_time: Now) -> None:
        old_tables = self._nodes[key].seen if key in self._nodes else self._stray.get(key)
        if seen_tables is not None and _is_older(seen_tables, old_tables):
            return
        if key in self._nodes:
            self._nodes[key].apply(seen_tables, current_time.seconds)
        elif seen_tables is not None:
            self._stray[key] = seen_tables
        else:
            self._stray.pop(key, None)


def _is_older(seen_object: Any, written_object: Any) -> bool:
    """Return whether ``seen_object`` is older than ``written_object``, which the response to a
    write contained.
    """
    return bool(
        written_object is not None
        and seen_object.uid == written_object.uid
        and seen_object.version < written_object.version
    )


def _version(seen_object: SeenPolicy | SeenNetwork) -> tuple[str, int]:
    return seen_object.meta.uid, seen_object.meta.generation


def _read_pkeys(changes: Iterable[Change]) -> dict[tuple[str, str], int]:
    """Return the P_Keys that the statuses of networks contain, by network and partition."""
    return {
        (value.meta.name, partition.name): partition.pkey
        for kind, _, value in changes
        if kind == NETWORK_KIND and value is not None
        for partition in value.status.partitions
    }
