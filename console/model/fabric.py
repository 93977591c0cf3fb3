"""RDMA objects and the compiler that evaluates them, kept up to date as the operator does.

A policy that cannot be read denies everything, and so does a network that was in force before its
spec became unreadable: the readers are the operator's own.
"""

from dataclasses import dataclass, fields
from typing import Any, Final, Self

from gpu_operator.controllers.rdma import reading
from gpu_operator.controllers.rdma.reading import SeenNetwork, SeenPolicy
from rdma.compiling.compiler import Compiler
from rdma.explain import Explainer
from rdma.kinds import NETWORK_KIND, POLICY_KIND
from rdma.objects import NamespaceFacts, PodFacts

KINDS: Final = ("Namespace", NETWORK_KIND, POLICY_KIND)


@dataclass(frozen=True, slots=True)
class KnownPolicy(SeenPolicy):
    """A policy with its spec as the API server has it, so that a page can edit a copy."""

    spec: Any = None


@dataclass(frozen=True, slots=True)
class KnownNetwork(SeenNetwork):
    """A network with its spec as the API server has it."""

    spec: Any = None


def read_policy(document: dict[str, Any]) -> KnownPolicy:
    """Parse a policy as the operator does, and keep its spec."""
    return KnownPolicy(**_fields(reading.read_policy(document)), spec=document.get("spec"))


def read_network(document: dict[str, Any]) -> KnownNetwork:
    """Parse a network as the operator does, and keep its spec."""
    return KnownNetwork(**_fields(reading.read_network(document)), spec=document.get("spec"))


class Fabric:
    """Pods with an HCA, namespaces, networks and policies."""

    def __init__(self) -> None:
        self._compiler: Compiler | None = None
        self._explainer: Explainer | None = None
        self.pods: dict[str, PodFacts] = {}
        self.policies: dict[str, SeenPolicy] = {}
        self.networks: dict[str, SeenNetwork] = {}
        self._namespaces: dict[str, NamespaceFacts] = {}

    def put_pod(self, key: str, facts: PodFacts | None) -> None:
        """Store a pod that holds an HCA, or remove it."""
        earlier_facts = self.pods.pop(key, None)
        if earlier_facts == facts:
            if facts is not None:
                self.pods[key] = facts
            return
        self._explainer = None
        if facts is not None:
            self.pods[key] = facts
        if self._compiler is None:
            return
        if earlier_facts is not None and (facts is None or facts.uid != earlier_facts.uid):
            self._compiler.delete_pod(earlier_facts.uid)
        if facts is not None:
            self._compiler.upsert_pod(facts)

    def put(self, kind: str, key: str, value: Any) -> None:
        """Store a namespace, a network or a policy; None removes it."""
        self._explainer = None
        match kind:
            case "Namespace":
                self._put_namespace(key, value)
            case "RDMANetworkPolicy":
                self._put_policy(key, value)
            case "RDMANetwork":
                self._put_network(key, value)
            case _:
                raise ValueError(f"{kind} is no kind of the fabric")

    def explainer(self) -> Explainer:
        """Return the explainer of the current objects; it is compiled once per change."""
        if self._compiler is None:
            self._compiler = self._compile()
        if self._explainer is None:
            self._explainer = Explainer(self._compiler, self.pods.values())
        return self._explainer

    def copy(self) -> Self:
        """Return a fabric with the same objects, which can change without this one."""
        fabric_copy = type(self)()
        fabric_copy.pods = dict(self.pods)
        fabric_copy.policies = dict(self.policies)
        fabric_copy.networks = dict(self.networks)
        fabric_copy._namespaces = dict(self._namespaces)
        return fabric_copy

    def _compile(self) -> Compiler:
        """Return a new compiler of all objects, with the P_Keys that networks' statuses list.

        The operator does the same when it starts, so that P_Keys stay allocated.
        """
        compiler = Compiler(
            {
                (network.meta.name, partition.name): partition.pkey
                for network in self.networks.values()
                for partition in network.status.partitions
            }
        )
        for namespace in self._namespaces.values():
            compiler.upsert_namespace(namespace)
        for network in self.networks.values():
            in_force = network.network or network.closed
            if in_force is not None:
                compiler.upsert_network(in_force)
        for policy in self.policies.values():
            compiler.upsert_policy(policy.policy)
        for pod in self.pods.values():
            compiler.upsert_pod(pod)
        return compiler

    def _put_namespace(self, key: str, value: NamespaceFacts | None) -> None:
        if value is None:
            self._namespaces.pop(key, None)
        else:
            self._namespaces[key] = value
        if self._compiler is None:
            return
        if value is None:
            self._compiler.delete_namespace(key)
        else:
            self._compiler.upsert_namespace(value)

    def _put_policy(self, key: str, value: SeenPolicy | None) -> None:
        earlier_policy = self.policies.pop(key, None)
        if value is not None:
            self.policies[key] = value
        if self._compiler is None:
            return
        if value is not None:
            self._compiler.upsert_policy(value.policy)
        elif earlier_policy is not None:
            self._compiler.delete_policy(key)

    def _put_network(self, key: str, value: SeenNetwork | None) -> None:
        """Store a network; a change of it or of its P_Keys makes a new compiler necessary."""
        earlier_network = self.networks.pop(key, None)
        if value is not None:
            self.networks[key] = value
        if _in_force(earlier_network) != _in_force(value):
            self._compiler = None


def _fields(fabric_object: SeenPolicy | SeenNetwork) -> dict[str, Any]:
    return {field.name: getattr(fabric_object, field.name) for field in fields(fabric_object)}


def _in_force(network: SeenNetwork | None) -> Any:
    """Return the parts of a network on which verdicts depend."""
    if network is None:
        return None
    keys = [(partition.name, partition.pkey) for partition in network.status.partitions]
    return network.network or network.closed, keys
