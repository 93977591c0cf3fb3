"""RDMANetworkPolicy: the RDMA operations that selected pods may receive and request."""

from enum import StrEnum

from pydantic import Field

from gpu_operator.api.v1alpha1.base import Model, StatusModel
from gpu_operator.api.v1alpha1.rdma.common import (
    MAX_ITEMS,
    LabelSelector,
    Quantity,
    RDMAStatus,
    with_cel_rules,
)
from rdma.verbs import VerbName


class PolicyType(StrEnum):
    """Directions of a policy."""

    INGRESS = "Ingress"
    EGRESS = "Egress"


class Space(StrEnum):
    """Port spaces of RDMA-CM."""

    TCP = "TCP"
    UDP = "UDP"


class Level(StrEnum):
    """Membership of a peer in a partition."""

    FULL = "Full"
    LIMITED = "Limited"
    ANY = "Any"


class MaxAccess(StrEnum):
    """Operations for which peers may use remote keys."""

    READ_ONLY = "ReadOnly"
    READ_WRITE = "ReadWrite"


class Scope(StrEnum):
    """Memory that remote keys give access to."""

    POD = "Pod"
    PROTECTION_DOMAIN = "ProtectionDomain"
    NAMED = "Named"


class Enforcement(StrEnum):
    """Whether operations that no rule allows are denied, or only reported."""

    ENFORCE = "Enforce"
    AUDIT = "Audit"


class IPBlock(Model):
    """A block of addresses, compared with the GIDs of peers (IPv4-mapped ones count as IPv4)."""

    cidr: str = Field(
        min_length=1, max_length=49, description="Block such as 10.9.0.0/16 or 2001:db8::/32."
    )
    except_: tuple[str, ...] | None = Field(
        default=None,
        alias="except",
        max_length=MAX_ITEMS,
        description="Blocks within cidr that are excluded.",
    )


class PartitionPeer(Model):
    """Members of a partition."""

    name: str = Field(min_length=1, max_length=253, description="Name of a partition.")
    network: str | None = Field(
        default=None, max_length=253, description="The partition's RDMANetwork; absent: any."
    )
    membership: Level | None = Field(
        default=None, description="Full, Limited or Any (default): members with this membership."
    )


class Peer(Model):
    """A set of peers. All fields of an item must match; the items of a list are alternatives.

    As in NetworkPolicy, podSelector alone selects pods of the policy's own namespace. Pods on
    the host's network have no HCA and are never peers.
    """

    model_config = with_cel_rules(
        (
            "!has(self.ipBlock) || !(has(self.podSelector) || has(self.namespaceSelector)"
            " || has(self.partition))",
            "ipBlock cannot be combined with other fields: use an item of its own",
        ),
        (
            "has(self.ipBlock) || has(self.podSelector) || has(self.namespaceSelector)"
            " || has(self.partition)",
            "set podSelector, namespaceSelector, partition or ipBlock",
        ),
    )

    pod_selector: LabelSelector | None = Field(
        default=None,
        description="Pods in the namespaces that namespaceSelector matches; without it, in the "
        "policy's own namespace.",
    )
    namespace_selector: LabelSelector | None = Field(
        default=None,
        description="Namespaces: the pods that podSelector matches in them, or all their pods.",
    )
    ip_block: IPBlock | None = Field(
        default=None,
        description="Addresses. The only way to select peers outside of the cluster; cannot be "
        "combined with the other fields.",
    )
    partition: PartitionPeer | None = Field(
        default=None,
        description="Members of a partition of an RDMANetwork. NetworkPolicy has no such field.",
    )


class Port(Model):
    """Properties of a flow; all fields of an item must match. RoCE itself uses one UDP port."""

    model_config = with_cel_rules(
        (
            "has(self.serviceID) || has(self.qpn) || has(self.trafficClass) || has(self.dscp)",
            "set serviceID, qpn, trafficClass or dscp",
        ),
        (
            "!has(self.endServiceID) || (has(self.serviceID)"
            " && self.endServiceID >= self.serviceID)",
            "endServiceID requires serviceID and must not be less",
        ),
        ("!has(self.space) || has(self.serviceID)", "space requires serviceID"),
        (
            "!has(self.endQPN) || (has(self.qpn) && self.endQPN >= self.qpn)",
            "endQPN requires qpn and must not be less",
        ),
        (
            "!has(self.trafficClass) || !has(self.dscp)",
            "dscp is the upper part of trafficClass: set one of them",
        ),
    )

    service_id: int | None = Field(
        default=None,
        alias="serviceID",
        ge=1,
        le=0xFFFF,
        description="RDMA-CM port to which the connection was made. A connection that was not made"
        " through RDMA-CM has none and does not match.",
    )
    end_service_id: int | None = Field(
        default=None, alias="endServiceID", ge=1, le=0xFFFF, description="Last number of a range."
    )
    space: Space | None = Field(
        default=None, description="Port space of serviceID: TCP (default) or UDP."
    )
    qpn: int | None = Field(
        default=None, ge=0, le=0xFFFFFF, description="Queue pair number of the destination."
    )
    end_qpn: int | None = Field(
        default=None, alias="endQPN", ge=0, le=0xFFFFFF, description="Last number of a range."
    )
    traffic_class: int | None = Field(
        default=None,
        ge=0,
        le=255,
        description="Traffic class of the address vector (DSCP and ECN).",
    )
    dscp: int | None = Field(
        default=None, ge=0, le=63, description="Upper six bits of the traffic class."
    )


class Memory(Model):
    """Memory of the selected pods that this rule's peers can access with remote keys."""

    model_config = with_cel_rules(
        (
            "(has(self.scope) && self.scope == 'Named')"
            " == (has(self.regions) && size(self.regions) > 0)",
            "set regions if and only if scope is Named",
        )
    )

    max_access: MaxAccess | None = Field(
        default=None,
        description="ReadOnly removes Write, WriteImm and both atomics from the rule's verbs."
        " Default ReadWrite.",
    )
    scope: Scope | None = Field(
        default=None,
        description="Pod (default): all regions of the pod. ProtectionDomain: regions of the queue"
        " pair's protection domain. Named: those listed in regions. Any other key is refused like"
        " an invalid one.",
    )
    regions: tuple[str, ...] | None = Field(
        default=None,
        max_length=64,
        description="Names of memory regions, for scope Named: device is every region whose memory"
        " is entirely on a GPU. Nodes report other names as not enforced; these allow nothing.",
    )


class Limits(Model):
    """Upper limits."""

    bandwidth: Quantity | None = Field(default=None, description="Bytes per second, such as 5Gi.")
    burst: Quantity | None = Field(default=None, description="Bytes at once, such as 64Mi.")
    ops: Quantity | None = Field(default=None, description="Operations per second, such as 200k.")
    max_qps: int | None = Field(
        default=None, alias="maxQPs", ge=0, le=0xFFFFFF, description="Number of queue pairs."
    )
    max_mr_bytes: Quantity | None = Field(
        default=None,
        alias="maxMRBytes",
        description="Total bytes of all memory regions, such as 8Gi.",
    )


_VERBS = (
    f"Allowed operations: {', '.join(VerbName)}."
    " Absent or empty: all. NetworkPolicy has no such field. A denied operation to a peer with "
    "which others are allowed fails at once with a remote access error (IBV_WC_REM_ACCESS_ERR)."
)
_LIMITS = (
    "Upper limits; absent: none. Of several matching rules the lowest limit applies: unlike all"
    " else, limits are not added up. NetworkPolicy has no such field."
)
_PORTS = "Properties of the flows; absent or empty: any flow. Items are alternatives."


class IngressRule(Model):
    """Operations that peers may request of the selected pods."""

    from_: tuple[Peer, ...] | None = Field(
        default=None,
        alias="from",
        max_length=MAX_ITEMS,
        description="Peers that may request; absent or empty: all, also outside of the cluster.",
    )
    verbs: tuple[VerbName, ...] | None = Field(
        default=None, max_length=len(VerbName), description=_VERBS
    )
    ports: tuple[Port, ...] | None = Field(default=None, max_length=MAX_ITEMS, description=_PORTS)
    memory: Memory | None = Field(
        default=None,
        description="Memory that the peers' remote keys give access to; absent: all of it.",
    )
    limits: Limits | None = Field(default=None, description=_LIMITS)


class EgressRule(Model):
    """Operations that the selected pods may request of peers."""

    to: tuple[Peer, ...] | None = Field(
        default=None,
        max_length=MAX_ITEMS,
        description="Peers; absent or empty: all, also outside of the cluster.",
    )
    verbs: tuple[VerbName, ...] | None = Field(
        default=None, max_length=len(VerbName), description=_VERBS
    )
    ports: tuple[Port, ...] | None = Field(default=None, max_length=MAX_ITEMS, description=_PORTS)
    limits: Limits | None = Field(default=None, description=_LIMITS)
    qos_class_name: str | None = Field(
        default=None,
        max_length=253,
        description="QoS class of an RDMANetwork for packets to these peers. Of several matching "
        "rules the first applies, by policy name and position. Without a class, the DSCP of the "
        "connection's traffic class selects one.",
    )


class RDMANetworkPolicySpec(Model):
    """Works as NetworkPolicy does; each field documents its differences.

    P_Keys are always checked, too: whatever policies allow, both ends must be members of one
    partition, and at least one of them must be a full member.
    """

    pod_selector: LabelSelector = Field(
        description="Pods of this namespace that the policy selects; {} selects all. A pod that "
        "no policy selects for a direction is not restricted in it. A selected pod may do only "
        "what a rule of some policy allows. Rules are added up: they have no order, and none "
        "denies."
    )
    policy_types: tuple[PolicyType, ...] | None = Field(
        default=None,
        max_length=2,
        description="Directions in which the pods are isolated. Absent: Ingress, and Egress if "
        "there are egress rules. The direction is that of requests: if A reads memory of B, that "
        "is egress of A and ingress of B; responses and acknowledgements are not checked.",
    )
    ingress: tuple[IngressRule, ...] | None = Field(
        default=None,
        max_length=MAX_ITEMS,
        description="Operations that peers may request of the pods. Empty: none. A peer with "
        "which no operation is allowed in either direction gets no response: ibv_modify_qp to RTR "
        "fails with EACCES, and RDMA-CM's request is rejected.",
    )
    egress: tuple[EgressRule, ...] | None = Field(
        default=None,
        max_length=MAX_ITEMS,
        description="Operations that the pods may request of peers. Empty: none.",
    )
    enforcement: Enforcement | None = Field(
        default=None,
        description="Enforce (default) or Audit: an operation that would be denied passes, and is "
        "counted and reported. A connection with which no operation is allowed any more is ended, "
        "unlike with NetworkPolicy; on other connections only the denied verbs fail (remote "
        "access error).",
    )


class NodeCount(StatusModel):
    """Number of nodes that enforce the policy."""

    ready: int = Field(default=0, description="Nodes whose HCA enforces this generation.")
    total: int = Field(default=0, description="Nodes with HCAs.")


class RDMANetworkPolicyStatus(RDMAStatus):
    """State of the policy."""

    selected_pods: int = Field(default=0, description="Pods with an HCA that podSelector selects.")
    nodes: NodeCount = Field(
        default_factory=NodeCount, description="Nodes that have acknowledged the policy."
    )
    nodes_ready: str = Field(default="", description="The same in readable form, such as 3/3.")
