"""What the objects of Kubernetes say, as far as policies of RDMA ask: values without behaviour.

``rdma.reading.manifests`` makes them of an object's dict, for the operator's watches and for
``tessera``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rdma.selectors import EVERYTHING, Selector
from rdma.tables import Block, Direction, Limits, Memory, Port, QosClass
from rdma.verbs import ALL, Verb

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""On every namespace, by the API server."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod. Where it has ended it has no address and no HCA; until then it is as any other."""

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
    """A namespace; its name is one of its labels, whether it says so or not."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


class Level(StrEnum):
    """How a pod is a member of a partition; two limited ones do not reach each other."""

    FULL = "Full"
    LIMITED = "Limited"
    ANY = "Any"
    """Of peers only: either."""


@dataclass(frozen=True, slots=True)
class Member:
    """Pods that belong to a partition: of namespaces that match (None: all), those that match."""

    namespace_selector: Selector | None = None
    pod_selector: Selector | None = None
    level: Level = Level.FULL


@dataclass(frozen=True, slots=True)
class Partition:
    """Who may talk at all. ``pkey``: 15 bits, None: allocated."""

    name: str
    pkey: int | None = None
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class Network:
    """An RDMANetwork (of the cluster). ``created`` (RFC 3339) says which of two was first."""

    name: str
    partitions: tuple[Partition, ...] = ()
    qos_classes: tuple[QosClass, ...] = ()
    mtu: int | None = None
    created: str = ""


@dataclass(frozen=True, slots=True)
class PartitionPeer:
    """Members of a partition of that name, of one network or of any."""

    name: str
    level: Level = Level.ANY
    network: str | None = None


@dataclass(frozen=True, slots=True)
class Peer:
    """One item of ``from`` or ``to``: all that is given holds. A block stands alone."""

    pod_selector: Selector | None = None
    namespace_selector: Selector | None = None
    block: Block | None = None
    partition: PartitionPeer | None = None


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One item of ``ingress`` or ``egress``; ``peers`` and ``ports`` empty: all."""

    peers: tuple[Peer, ...] = ()
    verbs: Verb = ALL
    ports: tuple[Port, ...] = ()
    memory: Memory = field(default_factory=Memory)
    limits: Limits = field(default_factory=Limits)
    qos_class: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """An RDMANetworkPolicy. ``types`` are the directions in which it isolates.

    ``created`` (RFC 3339) orders policies by age; an empty one is the oldest.
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
        """Its namespace and name, "ns/name"."""
        return f"{self.namespace}/{self.name}"

    def rules(self, direction: Direction) -> tuple[PolicyRule, ...]:
        """Return the rules of a direction that it isolates in."""
        if direction not in self.types:
            return ()
        return self.ingress if direction is Direction.INGRESS else self.egress
