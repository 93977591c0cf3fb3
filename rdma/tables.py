"""The tables of one node: compiled by the operator, carried by the agent, enforced by hcad.

A pod's *identity* is the set of facts that policies can refer to; pods with the same facts share
one identity. Tables contain each rule once and refer to identities by number, so that a new pod
with known facts adds one line. They list every pod of the cluster that has an HCA, with its
address and identity, because a responder's node also evaluates the requester's egress. ``pods``
are the pods of the node itself.

An address without an endpoint is outside of the cluster: only address blocks can allow it.

The number of an identity and the place of a rule do not change as long as it exists; both may be
reused afterwards. Tables are complete, so a reader does not need the previous tables.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from rdma.verbs import ALL, NONE, Verb

TABLES_VERSION = 1
UNIDENTIFIED = 0
"""The number of the identity that is denied everything."""
DEFAULT_PKEY = 0x7FFF
"""P_Key of the default partition, whose members are outside peers and the pods that no RDMANetwork
selects.
"""
FULL = 0x8000
"""The membership bit of a P_Key (IB 10.9.1.2)."""
MAX_RULES_OF_A_POD = 4096
"""Limits on the policies and rules for one direction of a pod, so that the author of policies
cannot slow down the pod's node.
"""
MAX_POLICIES_OF_A_POD = 1024


def describe_pkey(pkey: int) -> str:
    """Return a P_Key as a number and in words, such as "0xffff (default partition, full member)".

    The low 15 bits number the partition, the highest bit is the membership (IB 10.9.1).
    """
    level = "full member" if pkey & FULL else "limited member"
    default = "default partition, " if pkey & DEFAULT_PKEY == DEFAULT_PKEY else ""
    return f"{pkey:#06x} ({default}{level})"


class Direction(StrEnum):
    """The direction of a rule, as seen from the pods that the rule's policy selects."""

    INGRESS = "ingress"
    EGRESS = "egress"


@dataclass(frozen=True, slots=True)
class Membership:
    """An identity's membership in a partition: the low 15 bits of the P_Key, and whether the
    identity is a full member.
    """

    pkey: int
    full: bool
    network: str = ""
    """The name of the partition's RDMANetwork; empty for the default partition."""
    partition: str = ""
    """The partition's name in its RDMANetwork."""
    mtu: int | None = None
    """The path MTU in bytes of the partition's RDMANetwork."""


@dataclass(frozen=True, slots=True)
class Block:
    """The addresses (IPv4 or IPv6) in the block ``cidr``, without those in ``excepted``."""

    cidr: str
    excepted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Port:
    """Conditions on a flow. A field that is None imposes no condition. Ranges include both ends.

    ``services`` are RDMA-CM ports and ``space`` is "TCP" or "UDP". ``qpns`` are numbers of the
    destination's queue pairs.
    """

    services: tuple[int, int] | None = None
    space: str | None = None
    qpns: tuple[int, int] | None = None
    traffic_class: int | None = None
    dscp: int | None = None
    """The upper six bits of the flow's traffic class; the class's ECN bits do not matter."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The part of the destination's memory that a rule makes accessible through remote keys."""

    read_only: bool = False
    scope: str = "Pod"
    """How far the memory extends: "Pod", "ProtectionDomain" or "Named"."""
    regions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """A rule's limits on rates and objects. A field that is None sets no limit. If several rules
    match, the lowest limit applies.
    """

    bytes_per_second: int | None = None
    burst_bytes: int | None = None
    operations_per_second: int | None = None
    queue_pairs: int | None = None
    region_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of ``ingress`` or ``egress`` of one policy.

    A peer matches if its identity is in ``peers``, or if its address is in one of ``blocks``.
    ``peers`` is a bit mask of identities; the identities of selected partition members are in it
    too. If ``peers`` is None, every peer matches, even one outside of the cluster. If ``ports`` is
    empty, every port matches. A rule whose ``policy`` is empty is an unused slot; nothing refers to
    it.
    """

    policy: str
    """The policy's namespace and name, "ns/name"."""
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
    """The isolation that policies impose on an identity in one direction. Traffic passes if one of
    ``rules`` allows it; all other traffic is denied.

    ``audited_rules`` belong to policies that only audit. If only such policies would deny some
    traffic, the traffic passes and is counted. If ``enforced`` is False, no enforcing policy
    selects the identity, so everything passes.
    """

    rules: tuple[int, ...] = ()
    enforced: bool = True
    audited: bool = False
    audited_rules: tuple[int, ...] = ()
    policies: tuple[str, ...] = ()
    """The isolating policies, "ns/name". A policy that denies everything has no rules, so only this
    field names it.
    """
    audited_policies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """The properties that all pods of one identity share. If ``ingress`` or ``egress`` is None, the
    pods are not isolated in that direction.

    ``partitions`` is the P_Key table, index 0 first. The identity ``UNIDENTIFIED`` is denied
    everything. Pods in unknown namespaces have this identity, and so have addresses that two pods
    claim.
    """

    number: int
    ingress: Isolation | None = None
    egress: Isolation | None = None
    partitions: tuple[Membership, ...] = ()


@dataclass(frozen=True, slots=True)
class QosClass:
    """A QoS class of an RDMANetwork: how its packets are marked, and its share of the bandwidth.

    Rates are in bytes/s.
    """

    name: str
    dscp: int = 0
    sl: int = 0
    """Service level of the class (0 to 15)."""
    weight: int = 1
    min_rate: int | None = None
    max_rate: int | None = None
    cnp_dscp: int | None = None
    """DSCP of the congestion notification packets for this class."""
    network: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of this node that holds an HCA function.

    ``addresses`` are the pod's addresses that no other pod claims. The pod can open its HCA only
    under one of these addresses.
    """

    uid: str
    name: str
    """The pod's namespace and name, "ns/name"."""
    identity: int
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address of the cluster with its pod and identity; ``pod`` is empty if two pods claim the
    address.
    """

    address: str
    identity: int
    pod: str


@dataclass(frozen=True, slots=True)
class NodeTables:
    """All tables that one node needs to evaluate policies.

    A new set of tables replaces the earlier one completely; it does not only state what has
    changed.
    """

    generation: int
    node: str
    rules: tuple[Rule, ...] = ()
    identities: tuple[Identity, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    pods: tuple[Pod, ...] = ()
    qos_classes: tuple[QosClass, ...] = ()


@dataclass(frozen=True, slots=True)
class Flow:
    """The properties of a flow. A property that is None is unknown: a rule with a condition on it
    does not match.

    Addresses are text; an IPv4 address mapped into IPv6 is in IPv4 form. ``source`` is the
    requester: for a READ, the reader.
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
    """What a flow may do.

    ``verbs`` are allowed. Those of them that are also in ``audited`` are allowed only because the
    policies that deny them merely audit. ``reasons`` are texts for users: the rules that allowed
    the flow, or the policies that isolate an end. ``limits`` has the lowest limits of the matching
    rules. ``peer_known`` is true if policies allow at least one verb between the two ends. A denied
    verb gets a remote access error if ``peer_known`` and ``partition_shared`` are both true;
    otherwise it gets no answer.

    Each of ``grants`` states verbs and the memory of the destination that these verbs may
    access. An access is allowed if a single grant has its verb and covers its memory. ``memory``
    is the memory that all grants have in common, for callers that store only one memory.
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
    """Policies that isolate a side of the flow on which not every verb passes."""
    source_pod: str = ""
    destination_pod: str = ""
    qos_class: QosClass | None = None
    """The QoS class that marks and schedules the source's packets; None: as the program
    requests.
    """
