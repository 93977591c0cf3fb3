"""The tables of one node: what the operator compiles, the agent carries and hcad enforces.

A pod's *identity* is the set of facts that policies ask about; pods with the same facts share one.
Tables name rules once and identities by number, so that a pod that comes with known facts adds one
line. They hold every pod of the cluster that has an HCA (an address and an identity), because a
responder judges the requester's egress too; ``pods`` are those of the node itself.

An address that no endpoint has is outside of the cluster: only address blocks can allow it.

Numbers (of identities, places of rules) stay as long as what they stand for, and may be given again
later. Tables are complete, so whoever reads the next ones need not remember.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from rdma.verbs import ALL, NONE, Verb

TABLES_VERSION = 1
NOBODY = 0
"""The identity that is denied everything."""
DEFAULT_PKEY = 0x7FFF
"""The default partition: of pods that no RDMANetwork selects, and of what is outside."""
FULL = 0x8000
"""The membership bit of a P_Key (IB 10.9.1.2)."""
MAX_RULES_OF_A_POD = 4096
"""In one direction: who may write policies must not make the node of a pod judge for seconds."""
MAX_POLICIES_OF_A_POD = 1024


class Direction(StrEnum):
    """Seen from the pod that a rule's policy selects."""

    INGRESS = "ingress"
    EGRESS = "egress"


@dataclass(frozen=True, slots=True)
class Membership:
    """A partition that an identity is a member of: 15 bits of P_Key, and whether fully."""

    pkey: int
    full: bool
    network: str = ""
    """The RDMANetwork that says so; empty for the default partition."""
    partition: str = ""
    """The partition's name in that network."""
    mtu: int | None = None
    """Path MTU in bytes that the network asks for."""


@dataclass(frozen=True, slots=True)
class Block:
    """Addresses (IPv4 or IPv6, in CIDR) without those of ``excepted``."""

    cidr: str
    excepted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Port:
    """What a flow must be like; None asks nothing. Ranges include both ends.

    ``services`` are RDMA-CM ports, ``space`` "TCP" or "UDP"; ``qpns`` are of the destination.
    """

    services: tuple[int, int] | None = None
    space: str | None = None
    qpns: tuple[int, int] | None = None
    traffic_class: int | None = None
    dscp: int | None = None
    """The upper six bits of the traffic class, whatever its ECN bits are."""


@dataclass(frozen=True, slots=True)
class Memory:
    """How far a remote key reaches that a rule lets be used."""

    read_only: bool = False
    scope: str = "Pod"
    """"Pod", "ProtectionDomain" or "Named"."""
    regions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Ceilings; None is none. Of several rules that match, the least counts."""

    bytes_per_second: int | None = None
    burst_bytes: int | None = None
    operations_per_second: int | None = None
    queue_pairs: int | None = None
    region_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of ``ingress`` or ``egress`` of one policy.

    Peers are ``peers`` (a set of identities as the bits of a number; None: every peer, outside of
    the cluster too) or have an address in one of ``blocks``; members of a partition are identities,
    too. ``ports`` empty: any. A rule without a policy is an empty place that nobody refers to.
    """

    policy: str
    """Its namespace and name, "ns/name"."""
    direction: Direction
    index: int
    verbs: Verb = ALL
    peers: int | None = None
    blocks: tuple[Block, ...] = ()
    ports: tuple[Port, ...] = ()
    memory: Memory = Memory()
    limits: Limits = Limits()
    qos_class: str = ""


@dataclass(frozen=True, slots=True)
class Isolation:
    """A direction of an identity that policies select it for: what ``rules`` allow, and no more.

    ``audited`` rules belong to policies that only audit: what they alone would deny passes and is
    counted. ``enforced`` False: no policy that enforces selects it; everything passes.
    """

    rules: tuple[int, ...] = ()
    enforced: bool = True
    audited: bool = False
    audited_rules: tuple[int, ...] = ()
    policies: tuple[str, ...] = ()
    """Who isolates, "ns/name": a policy that denies everything has no rule to be named by."""
    audited_policies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """What tables know of a kind of pod; None: that direction is not isolated.

    ``partitions`` is the P_Key table, index 0 first. ``NOBODY`` is denied everything: an address
    that two pods claim, and pods of whose namespace nothing is known.
    """

    number: int
    ingress: Isolation | None = None
    egress: Isolation | None = None
    partitions: tuple[Membership, ...] = ()


@dataclass(frozen=True, slots=True)
class QosClass:
    """What packets of a class of an RDMANetwork are marked with, and its share. Rates: bytes/s."""

    name: str
    dscp: int = 0
    sl: int = 0
    """Service level (0 to 15)."""
    weight: int = 1
    min_rate: int | None = None
    max_rate: int | None = None
    cnp_dscp: int | None = None
    """DSCP of congestion notifications."""
    network: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of this node that holds an HCA function.

    ``addresses`` are those that it alone claims: at no other one may its HCA be opened.
    """

    uid: str
    name: str
    """Its namespace and name, "ns/name"."""
    identity: int
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address of the cluster: whose, and of which identity. Claimed twice: nobody's."""

    address: str
    identity: int
    pod: str


@dataclass(frozen=True, slots=True)
class NodeTables:
    """Everything that one node needs to judge; complete, never a difference."""

    generation: int
    node: str
    rules: tuple[Rule, ...] = ()
    identities: tuple[Identity, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    pods: tuple[Pod, ...] = ()
    qos_classes: tuple[QosClass, ...] = ()


@dataclass(frozen=True, slots=True)
class Flow:
    """What is known of a flow when it is judged; None: not known, and whoever asks for it denies.

    Addresses as text, IPv4 where they are mapped. ``source`` requests: for a READ it is the reader.
    """

    source: str
    destination: str
    pkey: int = 0xFFFF
    service: int | None = None
    space: str | None = None
    destination_qpn: int | None = None
    traffic_class: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a flow may do: ``verbs`` pass; of those, ``audited`` would not if audits were enforced.

    ``reasons`` say for people which rules allowed or which policies isolate. ``limits`` is the
    least of the rules that matched. A verb that does not pass is answered (remote access error)
    where ``peer_known`` and ``partition_shared``, and meets silence elsewhere: ``peer_known`` is
    whether policies let the two do anything with each other.

    ``grants`` say which memory of the destination which verbs reach; an access needs one of them
    that has its verb and covers it. ``memory`` is what every grant covers, for whoever keeps one.
    """

    verbs: Verb
    audited: Verb = NONE
    peer_known: bool = True
    partition_shared: bool = True
    limits: Limits = field(default_factory=Limits)
    memory: Memory = Memory()
    rules: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()
    grants: tuple[tuple[Verb, Memory], ...] = ()
    denied_by: tuple[str, ...] = ()
    """Policies that isolate a side which does not let everything pass."""
    source_pod: str = ""
    destination_pod: str = ""
    qos_class: QosClass | None = None
    """How what the source sends is marked and scheduled; None: as the program asks."""
