"""RDMANetwork: partitions and QoS classes, of the whole cluster."""

from enum import StrEnum

from pydantic import Field

from gpu_operator.api.v1alpha1.base import Model, StatusModel
from gpu_operator.api.v1alpha1.rdma.common import LabelSelector, Quantity, RDMAStatus, rules

_NAME = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"


class Membership(StrEnum):
    """How pods belong to a partition."""

    FULL = "Full"
    LIMITED = "Limited"


class Member(Model):
    """Pods that belong to a partition. Both selectors must match where both are given."""

    model_config = rules(
        (
            "has(self.namespaceSelector) || has(self.podSelector)",
            "give namespaceSelector or podSelector; {} is everybody",
        )
    )

    namespace_selector: LabelSelector | None = Field(
        default=None, description="Namespaces of the pods; absent: all namespaces."
    )
    pod_selector: LabelSelector | None = Field(
        default=None, description="Pods in those namespaces; absent: all pods."
    )
    membership: Membership = Field(
        default=Membership.FULL,
        description="Full members reach all members, Limited ones only full members: two limited"
        " members never reach each other, whatever an RDMANetworkPolicy allows. Who is both is"
        " full.",
    )


class Partition(Model):
    """Who may talk at all: InfiniBand's partition, by a P_Key in each packet."""

    name: str = Field(
        min_length=1,
        max_length=253,
        pattern=_NAME,
        description="Name, unique in this RDMANetwork; rules of an RDMANetworkPolicy name it.",
    )
    pkey: int | None = Field(
        default=None,
        ge=1,
        le=0x7FFF,
        description="The lower 15 bits of its P_Key, 1 to 0x7fff; bit 15 follows from each"
        " member's membership. Absent: a free one is allocated and kept, see status.",
    )
    members: tuple[Member, ...] = Field(
        default=(),
        max_length=64,
        description="Pods that are members. Who is in no partition of"
        " any RDMANetwork is a full member of the default partition 0x7fff.",
    )


class QoSClass(Model):
    """How packets of rules that name it, or of programs that use its DSCP, are sent.

    What is in no class shares the wire as a class of weight 1.
    """

    name: str = Field(
        min_length=1,
        max_length=253,
        pattern=_NAME,
        description="Name, unique in the cluster; egress rules name it as qosClassName.",
    )
    dscp: int | None = Field(
        default=None,
        ge=0,
        le=63,
        description="DSCP that its packets have, whatever their program asked for. Connections"
        " whose traffic class has this DSCP are in the class, too, unless a rule names another; 0"
        " (default) is had by name alone. Of two classes with one DSCP that is the first by name.",
    )
    sl: int | None = Field(
        default=None,
        ge=0,
        le=15,
        description="InfiniBand service level. Without a VLAN tag no frame carries it: nodes name"
        " it as not enforced.",
    )
    weight: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Share of what a node sends over the wire, beside other classes that have"
        " something to send, and beside what is in none (1). Default 1.",
    )
    min_rate: Quantity | None = Field(
        default=None,
        description="Bytes per second that it gets on the wire of a node before weights are asked.",
    )
    max_rate: Quantity | None = Field(
        default=None,
        description="Bytes per second that each pod may send in it at most, over the wire; and the"
        " same to pods of its own node.",
    )
    cnp_dscp: int | None = Field(
        default=None,
        ge=0,
        le=63,
        description="DSCP of congestion notification packets that its receivers send. Default 48.",
    )


class RDMANetworkSpec(Model):
    """Partitions separate pods before any RDMANetworkPolicy is asked: both must allow a flow."""

    mtu: int | None = Field(
        default=None,
        json_schema_extra={"enum": [256, 512, 1024, 2048, 4096]},
        description="Path MTU in bytes (256, 512, 1024, 2048 or 4096) of its members' queue pairs"
        " at most. Accepted is False (MTUExceedsInterface) while the interface of some node carries"
        " less. Absent: what the interface carries.",
    )
    partitions: tuple[Partition, ...] = Field(
        default=(),
        max_length=128,
        description="Partitions, by name.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )
    qos_classes: tuple[QoSClass, ...] = Field(
        default=(),
        max_length=64,
        description="QoS classes, by name.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )


class AllocatedPartition(StatusModel):
    """A partition's P_Key."""

    name: str = Field(description="Name of the partition.")
    pkey: int = Field(description="The lower 15 bits of its P_Key, fixed or allocated.")


class RDMANetworkStatus(RDMAStatus):
    """What became of it."""

    partitions: tuple[AllocatedPartition, ...] = Field(
        default=(), description="P_Keys; allocated ones are kept as long as they are here."
    )
    pkeys: str = Field(default="", description="P_Keys for people, such as train=0x0a31.")
    qos_classes: str = Field(
        default="", description="QoS classes for people: name=DSCP, such as gradients=26."
    )
