"""Read an RDMANetwork's partitions, their members, and QoS classes, strictly."""

from contextlib import suppress
from typing import Final

from rdma.errors import PolicyError
from rdma.objects import Level, Member, Partition
from rdma.reading.fields import NAME, Fields
from rdma.reading.selector_fields import read_selector
from rdma.selectors import EVERYTHING
from rdma.tables import DEFAULT_PKEY, FULL, QosClass

MTUS: Final = (256, 512, 1024, 2048, 4096)
ALL_PODS: Final = Member(pod_selector=EVERYTHING)
_NO_PKEY: Final = 0


def read_mtu(spec: Fields) -> int | None:
    """Return the path MTU of a network in bytes, one of InfiniBand's sizes. Raises PolicyError."""
    mtu = spec.number("mtu", MTUS[0], MTUS[-1])
    if mtu is not None and mtu not in MTUS:
        spec.fail("mtu", f"{mtu} is not one of InfiniBand's", f"use {', '.join(map(str, MTUS))}")
    return mtu


def read_partitions(spec: Fields) -> tuple[Partition, ...]:
    """Return the partitions in a network's spec. Raises PolicyError."""
    partitions: list[Partition] = []
    for item in spec.items("partitions"):
        name = item.required_text("name", NAME)
        if any(name == partition.name for partition in partitions):
            item.fail("name", f"{name!r} occurs twice", "give each its own name")
        pkey = _pkey(item)
        members = tuple(_member(member) for member in item.items("members"))
        item.check_all_read()
        partitions.append(Partition(name, pkey, members))
    return tuple(partitions)


def closed_partition(*members: Member) -> Partition:
    """Return a partition without a P_Key.

    Membership in it has only one effect: its members are not in the default partition.
    """
    return Partition("", _NO_PKEY, members)


def read_closed_partitions(spec: Fields) -> tuple[Partition, ...]:
    """Return substitutes for the partitions of a network that is not completely readable.

    Each readable partition is replaced by one that has the same P_Key but no members. One more
    partition, without a P_Key, contains all pods that were selected as members; an unreadable
    selector counts as a selector of all pods. Raises PolicyError.
    """
    named: dict[str, Partition] = {}
    members: list[Member] = []
    for item in spec.items("partitions"):
        with suppress(PolicyError):
            partition = Partition(item.required_text("name", NAME), _pkey(item))
            named.setdefault(partition.name, partition)
        for member in item.items("members"):
            try:
                members.append(_member(member))
            except PolicyError:
                members.append(ALL_PODS)
    return (*named.values(), closed_partition(*members))


def _pkey(item: Fields) -> int | None:
    """Return the 15 bits of a P_Key, or None if the field is absent.

    0x0000 is invalid (IB 10.9.1.1); bit 15 states full membership.
    """
    pkey = item.number("pkey", 0, 0xFFFF)
    if pkey is None:
        return None
    if pkey & FULL:
        item.fail(
            "pkey",
            f"{pkey:#06x} has the membership bit",
            f"write {pkey & DEFAULT_PKEY:#06x}; membership of each member sets the bit",
        )
    if pkey == 0:
        item.fail(
            "pkey", "0x0000 is invalid in InfiniBand", "use 0x0001 to 0x7ffe, or leave it out"
        )
    return pkey


def _member(item: Fields) -> Member:
    namespaces = read_selector(item, "namespaceSelector")
    pods = read_selector(item, "podSelector")
    level = Level(item.choice("membership", (Level.FULL, Level.LIMITED), Level.FULL))
    item.check_all_read()
    if namespaces is None and pods is None:
        raise PolicyError(item.path, "names no pods", "give a selector; {} selects all pods")
    return Member(namespaces, pods, level)


def read_qos_classes(spec: Fields, network: str) -> tuple[QosClass, ...]:
    """Return the QoS classes in a network's spec. Raises PolicyError."""
    classes: list[QosClass] = []
    for item in spec.items("qosClasses"):
        qos_class = QosClass(
            name=item.required_text("name", NAME),
            dscp=item.number("dscp", 0, 63) or 0,
            sl=item.number("sl", 0, 15) or 0,
            weight=item.number("weight", 1, 256) or 1,
            min_rate=item.quantity("minRate"),
            max_rate=item.quantity("maxRate"),
            cnp_dscp=item.number("cnpDscp", 0, 63),
            network=network,
        )
        item.check_all_read()
        if any(qos_class.name == earlier_class.name for earlier_class in classes):
            item.fail("name", f"{qos_class.name!r} occurs twice", "give each its own name")
        low, high = qos_class.min_rate, qos_class.max_rate
        if low is not None and high is not None and low > high:
            item.fail("minRate", "is more than maxRate", "make it less")
        classes.append(qos_class)
    return tuple(classes)
