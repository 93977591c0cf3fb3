"""RDMANetworkPolicy: which RDMA the selected pods may receive and request."""

from enum import StrEnum

from pydantic import Field

from gpu_operator.api.v1alpha1.base import Model, StatusModel
from gpu_operator.api.v1alpha1.rdma.common import (
    MAX_ITEMS,
    LabelSelector,
    Quantity,
    RDMAStatus,
    rules,
)
from rdma.verbs import VerbName


class PolicyType(StrEnum):
    """Directions."""

    INGRESS = "Ingress"
    EGRESS = "Egress"


class Space(StrEnum):
    """Port spaces of RDMA-CM."""

    TCP = "TCP"
    UDP = "UDP"


class Level(StrEnum):
    """How a peer is a member of a partition."""

    FULL = "Full"
    LIMITED = "Limited"
    ANY = "Any"


class MaxAccess(StrEnum):
    """What remote keys may be used for."""

    READ_ONLY = "ReadOnly"
    READ_WRITE = "ReadWrite"


class Scope(StrEnum):
    """How far remote keys reach."""

    POD = "Pod"
    PROTECTION_DOMAIN = "ProtectionDomain"
    NAMED = "Named"


class Enforcement(StrEnum):
    """Whether what is not allowed is denied."""

    ENFORCE = "Enforce"
    AUDIT = "Audit"


class IPBlock(Model):
    """Addresses, as the GIDs of peers have them (IPv4 mapped ones count as IPv4)."""

    cidr: str = Field(
        min_length=1, max_length=49, description="Block such as 10.9.0.0/16 or 2001:db8::/32."
    )
    except_: tuple[str, ...] | None = Field(
        default=None,
        alias="except",
        max_length=MAX_ITEMS,
        description="Blocks inside of cidr that are not meant.",
    )


class PartitionPeer(Model):
    """Members of a partition."""

    name: str = Field(min_length=1, max_length=253, description="Name of a partition.")
    network: str | None = Field(
        default=None, max_length=253, description="Its RDMANetwork; absent: of any."
    )
    membership: Level | None = Field(
        default=None, description="Full, Limited or Any (default): members at that level."
    )


class Peer(Model):
    """Who is meant. All that one item gives must hold; items are alternatives.

    As in NetworkPolicy podSelector alone means pods of the policy's own namespace. Pods on the
    host's network have no HCA and are never peers.
    """

    model_config = rules(
        (
            "!has(self.ipBlock) || !(has(self.podSelector) || has(self.namespaceSelector)"
            " || has(self.partition))",
            "ipBlock stands alone: make it an item of its own",
        ),
        (
            "has(self.ipBlock) || has(self.podSelector) || has(self.namespaceSelector)"
            " || has(self.partition)",
            "give podSelector, namespaceSelector, partition or ipBlock",
        ),
    )

    pod_selector: LabelSelector | None = Field(
        default=None,
        description="Pods: of the namespaces that namespaceSelector matches, else of the policy's"
        " own.",
    )
    namespace_selector: LabelSelector | None = Field(
        default=None, description="Namespaces; with podSelector its pods in them, else all pods."
    )
    ip_block: IPBlock | None = Field(
        default=None,
        description="Addresses. The only way to mean peers outside of the cluster; excludes the"
        " other fields.",
    )
    partition: PartitionPeer | None = Field(
        default=None,
        description="Members of a partition of an RDMANetwork. NetworkPolicy has nothing like it.",
    )


class Port(Model):
    """What a flow must be like; all that one item gives must hold. RoCE itself is one UDP port."""

    model_config = rules(
        (
            "has(self.serviceID) || has(self.qpn) || has(self.trafficClass) || has(self.dscp)",
            "give serviceID, qpn, trafficClass or dscp",
        ),
        (
            "!has(self.endServiceID) || (has(self.serviceID)"
            " && self.endServiceID >= self.serviceID)",
            "endServiceID needs serviceID, and is not less",
        ),
        ("!has(self.space) || has(self.serviceID)", "space is of a serviceID: give that"),
        (
            "!has(self.endQPN) || (has(self.qpn) && self.endQPN >= self.qpn)",
            "endQPN needs qpn, and is not less",
        ),
        (
            "!has(self.trafficClass) || !has(self.dscp)",
            "dscp is the upper part of trafficClass: give one",
        ),
    )

    service_id: int | None = Field(
        default=None,
        alias="serviceID",
        ge=1,
        le=0xFFFF,
        description="RDMA-CM port that the connection was made to. A connection that RDMA-CM did"
        " not make has none, and does not match.",
    )
    end_service_id: int | None = Field(
        default=None, alias="endServiceID", ge=1, le=0xFFFF, description="Last one of a range."
    )
    space: Space | None = Field(
        default=None, description="Port space of serviceID: TCP (default) or UDP."
    )
    qpn: int | None = Field(
        default=None, ge=0, le=0xFFFFFF, description="Queue pair number of the destination."
    )
    end_qpn: int | None = Field(
        default=None, alias="endQPN", ge=0, le=0xFFFFFF, description="Last one of a range."
    )
    traffic_class: int | None = Field(
        default=None,
        ge=0,
        le=255,
        description="Traffic class of the address vector (DSCP and ECN).",
    )
    dscp: int | None = Field(default=None, ge=0, le=63, description="Upper six bits of it.")


class Memory(Model):
    """How far remote keys of the selected pods reach for this rule's peers."""

    model_config = rules(
        (
            "(has(self.scope) && self.scope == 'Named')"
            " == (has(self.regions) && size(self.regions) > 0)",
            "regions go with scope Named, and it needs them",
        )
    )

    max_access: MaxAccess | None = Field(
        default=None,
        description="ReadOnly takes Write, WriteImm and both atomics from the rule's verbs."
        " Default ReadWrite.",
    )
    scope: Scope | None = Field(
        default=None,
        description="Pod (default): all of its regions. ProtectionDomain: those of the queue"
        " pair's. Named: those in regions; another key ends as a wrong one.",
    )
    regions: tuple[str, ...] | None = Field(
        default=None,
        max_length=64,
        description="Names of memory regions, for scope Named: device is every region all of whose"
        " memory is a GPU's. Nodes name others as not enforced: those open nothing.",
    )


class Limits(Model):
    """Ceilings."""

    bandwidth: Quantity | None = Field(default=None, description="Bytes per second, such as 5Gi.")
    burst: Quantity | None = Field(default=None, description="Bytes at once, such as 64Mi.")
    ops: Quantity | None = Field(default=None, description="Operations per second, such as 200k.")
    max_qps: int | None = Field(
        default=None, alias="maxQPs", ge=0, le=0xFFFFFF, description="Queue pairs."
    )
    max_mr_bytes: Quantity | None = Field(
        default=None, alias="maxMRBytes", description="Bytes of all memory regions, such as 8Gi."
    )


_VERBS = (
    f"Operations that pass: {', '.join(VerbName)}."
    " Absent or empty: all. NetworkPolicy has nothing like it. Who requests one that is denied of a"
    " peer with which others pass gets a remote access error (IBV_WC_REM_ACCESS_ERR), at once."
)
_LIMITS = (
    "Ceilings; absent: none. Of several rules that match the least counts: they are not added up,"
    " as all else is. NetworkPolicy has nothing like it."
)
_PORTS = "What flows must be like; absent or empty: anything. Items are alternatives."


class IngressRule(Model):
    """What the selected pods let others do: peers that request, verbs that are executed here."""

    from_: tuple[Peer, ...] | None = Field(
        default=None,
        alias="from",
        max_length=MAX_ITEMS,
        description="Who may request; absent or empty: everybody, outside of the cluster too.",
    )
    verbs: tuple[VerbName, ...] | None = Field(
        default=None, max_length=len(VerbName), description=_VERBS
    )
    ports: tuple[Port, ...] | None = Field(default=None, max_length=MAX_ITEMS, description=_PORTS)
    memory: Memory | None = Field(
        default=None, description="Which memory the peers' remote keys reach; absent: all of it."
    )
    limits: Limits | None = Field(default=None, description=_LIMITS)


class EgressRule(Model):
    """What the selected pods may request of others."""

    to: tuple[Peer, ...] | None = Field(
        default=None,
        max_length=MAX_ITEMS,
        description="Of whom; absent or empty: of everybody, outside of the cluster too.",
    )
    verbs: tuple[VerbName, ...] | None = Field(
        default=None, max_length=len(VerbName), description=_VERBS
    )
    ports: tuple[Port, ...] | None = Field(default=None, max_length=MAX_ITEMS, description=_PORTS)
    limits: Limits | None = Field(default=None, description=_LIMITS)
    qos_class_name: str | None = Field(
        default=None,
        max_length=253,
        description="QoS class of an RDMANetwork for what is sent to these peers. Of several rules"
        " that match the first counts, by policy and place. Without one the DSCP of a connection's"
        " traffic class decides.",
    )


class RDMANetworkPolicySpec(Model):
    """As NetworkPolicy where that says anything; the differences are told with each field.

    P_Keys are always asked, too: whatever policies allow, both ends must be members of one
    partition, and one of them fully.
    """

    pod_selector: LabelSelector = Field(
        description="Pods of this namespace that it is for; {} is all of them. A pod that no policy"
        " selects for a direction may do everything in it; from then on only what some rule of some"
        " policy allows. Rules are added up, there is no order, and nothing denies."
    )
    policy_types: tuple[PolicyType, ...] | None = Field(
        default=None,
        max_length=2,
        description="Directions in which the pods are isolated. Absent: Ingress, and Egress if"
        " there are egress rules. Direction is that of requests: a Read of B's memory by A is"
        " egress of A and ingress of B; responses and acknowledgements are not asked about.",
    )
    ingress: tuple[IngressRule, ...] | None = Field(
        default=None,
        max_length=MAX_ITEMS,
        description="What others may request of the pods. None: nothing. A peer with which nothing"
        " is allowed, either way, meets silence: ibv_modify_qp to RTR fails with EACCES there, and"
        " RDMA-CM's request is rejected.",
    )
    egress: tuple[EgressRule, ...] | None = Field(
        default=None,
        max_length=MAX_ITEMS,
        description="What the pods may request of others. None: nothing.",
    )
    enforcement: Enforcement | None = Field(
        default=None,
        description="Enforce (default) or Audit: what would be denied passes, and is counted and"
        " told. Connections that are no longer allowed at all are ended, unlike with"
        " NetworkPolicy; of the others only the denied verbs fail (remote access error).",
    )


class NodeCount(StatusModel):
    """How far it got."""

    ready: int = Field(default=0, description="Nodes whose HCA enforces this generation.")
    total: int = Field(default=0, description="Nodes with HCAs.")


class RDMANetworkPolicyStatus(RDMAStatus):
    """Where it is enforced."""

    selected_pods: int = Field(default=0, description="Pods with an HCA that podSelector matches.")
    nodes: NodeCount = Field(
        default_factory=NodeCount, description="Nodes that enforce it, as they acknowledged."
    )
    nodes_ready: str = Field(default="", description="The same for people, such as 3/3.")
