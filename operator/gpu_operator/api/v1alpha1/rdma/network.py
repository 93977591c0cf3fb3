"""RDMANetwork: cluster-wide partitions and QoS classes."""

from enum import StrEnum

from pydantic import Field

from gpu_operator.api.v1alpha1.base import Model, StatusModel
from gpu_operator.api.v1alpha1.rdma.common import (
    LabelSelector,
    Quantity,
    RDMAStatus,
    with_cel_rules,
)

_NAME = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"


class Membership(StrEnum):
    """Membership of pods in a partition."""

    FULL = "Full"
    LIMITED = "Limited"


class Member(Model):
    """Pods that belong to a partition. If both selectors are given, both must match."""

    model_config = with_cel_rules(
        (
            "has(self.namespaceSelector) || has(self.podSelector)",
            "set namespaceSelector or podSelector; {} selects all",
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
        " members never reach each other, whatever an RDMANetworkPolicy allows. A pod that is both"
        " counts as full.",
    )


class Partition(Model):
    """A group of pods that can communicate: an InfiniBand partition, named by a P_Key in each
    packet.
    """

    name: str = Field(
        min_length=1,
        max_length=253,
        pattern=_NAME,
        description="Name, unique in this RDMANetwork; rules of an RDMANetworkPolicy refer to it.",
    )
    pkey: int | None = Field(
        default=None,
        ge=1,
        le=0x7FFF,
        description="The lower 15 bits of its P_Key, 1 to 0x7fff; bit 15 follows from each"
        " member's membership. Absent: a free P_Key is allocated and kept, see status.",
    )
    members: tuple[Member, ...] = Field(
        default=(),
        max_length=64,
        description="Pods that are members. A pod in no partition of"
        " any RDMANetwork is a full member of the default partition 0x7fff.",
    )


class QoSClass(Model):
    """How the packets of a class are sent.

    A packet is in the class if the packet's rule names the class, or if the packet has the class's
    DSCP. All packets without a class share the wire as a class of weight 1.
    """

    name: str = Field(
        min_length=1,
        max_length=253,
        pattern=_NAME,
        description="Name, unique in the cluster; egress rules refer to it as qosClassName.",
    )
    dscp: int | None = Field(
        default=None,
        ge=0,
        le=63,
        description="DSCP of the class's packets, whatever the program requested. Connections"
        " whose traffic class has this DSCP are in the class, too, unless a rule names another; a"
        " class with DSCP 0 (default) applies only to rules that name it. If two classes have the"
        " same DSCP, it selects the first by name.",
    )
    sl: int | None = Field(
        default=None,
        ge=0,
        le=15,
        description="InfiniBand service level. Frames without a VLAN tag do not carry it: nodes "
        "report it as not enforced.",
    )
    weight: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Share of a node's wire bandwidth, relative to other classes that have"
        " packets to send and to packets in no class (1). Default 1.",
    )
    min_rate: Quantity | None = Field(
        default=None,
        description="Bytes per second that the class gets on a node's wire before weights apply.",
    )
    max_rate: Quantity | None = Field(
        default=None,
        description="Bytes per second that each pod may send in this class over the wire, and "
        "separately to pods of its own node.",
    )
    cnp_dscp: int | None = Field(
        default=None,
        ge=0,
        le=63,
        description="DSCP of congestion notification packets from the receivers. Default 48.",
    )


class RDMANetworkSpec(Model):
    """Partitions and QoS classes. A flow must be allowed both by partitions and by policies."""

    mtu: int | None = Field(
        default=None,
        json_schema_extra={"enum": [256, 512, 1024, 2048, 4096]},
        description="Maximum path MTU in bytes (256, 512, 1024, 2048 or 4096) of its members' queue"
        " pairs. Accepted is False (MTUExceedsInterface) while the interface of a node supports"
        " less. Absent: the maximum that the interface supports.",
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
    """State of the network."""

    partitions: tuple[AllocatedPartition, ...] = Field(
        default=(), description="P_Keys; an allocated P_Key is kept as long as it is listed here."
    )
    pkeys: str = Field(default="", description="P_Keys in readable form, such as train=0x0a31.")
    qos_classes: str = Field(
        default="", description="QoS classes in readable form: name=DSCP, such as gradients=26."
    )
