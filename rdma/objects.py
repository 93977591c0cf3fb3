"""Represent Kubernetes objects by the fields that RDMA policies use.

``rdma.reading.manifests`` makes these values from an object's dict, for the operator's watches and
for ``tessera``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rdma.selectors import EVERYTHING, Selector
from rdma.tables import Block, Direction, Limits, Memory, Port, QosClass
from rdma.verbs import ALL, Verb

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that contains the namespace's name; the API server sets it."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The properties of a pod on which policies depend.

    A pod counts as running until it has ended. A pod that has ended has no address and no HCA.
    """

    uid: str
    namespace: str
    name: str
    node: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()
    host_network: bool = False
    holds_hca: bool = True


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """A namespace and its labels.

    The label kubernetes.io/metadata.name has the namespace's name as its value in any case, even
    if ``labels`` lacks it.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


class Level(StrEnum):
    """A pod's level of membership in a partition; two limited members do not reach each other."""

    FULL = "Full"
    LIMITED = "Limited"
    ANY = "Any"
    """Members of either level; only peers of policies use this value."""


@dataclass(frozen=True, slots=True)
class Member:
    """A condition for members of a partition: pods that match, in namespaces that match.

    A selector that is None matches all pods or all namespaces.
    """

    namespace_selector: Selector | None = None
    pod_selector: Selector | None = None
    level: Level = Level.FULL


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition and the conditions for its members.

    ``pkey`` has 15 bits; it is None if the P_Key is not allocated yet.
    """

    name: str
    pkey: int | None = None
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class Network:
    """A cluster-wide RDMANetwork. ``created`` (RFC 3339) orders networks by age."""

    name: str
    partitions: tuple[Partition, ...] = ()
    qos_classes: tuple[QosClass, ...] = ()
    mtu: int | None = None
    created: str = ""


@dataclass(frozen=True, slots=True)
class PartitionPeer:
    """A condition that a peer is a member of the partition ``name``.

    ``level`` is the level of membership that the peer must have. If ``network`` is None, the
    partition can be in any network.
    """

    name: str
    level: Level = Level.ANY
    network: str | None = None


@dataclass(frozen=True, slots=True)
class Peer:
    """One item of ``from`` or ``to`` in a policy, which describes peers.

    A peer must match all given fields. An item with an address block has no other field.
    """

    pod_selector: Selector | None = None
    namespace_selector: Selector | None = None
    block: Block | None = None
    partition: PartitionPeer | None = None


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One item of ``ingress`` or ``egress`` in a policy.

    Empty ``peers`` match every peer, and empty ``ports`` every port.
    """

    peers: tuple[Peer, ...] = ()
    verbs: Verb = ALL
    ports: tuple[Port, ...] = ()
    memory: Memory = field(default_factory=Memory)
    limits: Limits = field(default_factory=Limits)
    qos_class: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """An RDMANetworkPolicy. ``types`` are the directions in which it isolates the selected pods.

    ``created`` (RFC 3339) orders policies by age; an empty text counts as the oldest.
    """

    namespace: str
    name: str
    pod_selector: Selector = EVERYTHING
    types: frozenset[Direction] = frozenset({Direction.INGRESS})
    ingress: tuple[PolicyRule, ...] = ()
    egress: tuple[PolicyRule, ...] = ()
    audit: bool = False
    created: str = ""

    @property
    def key(self) -> str:
        """Return the policy's namespace and name, "ns/name"."""
        return f"{self.namespace}/{self.name}"

    def rules(self, direction: Direction) -> tuple[PolicyRule, ...]:
        """Return the policy's rules for a direction.

        The result is empty if the policy does not isolate pods in that direction.
        """
        if direction not in self.types:
            return ()
        return self.ingress if direction is Direction.INGRESS else self.egress
