"""Reads what an RDMANetwork says: partitions, their members, and QoS classes, strictly."""

from contextlib import suppress
from typing import Final

from rdma.errors import PolicyError
from rdma.objects import Level, Member, Partition
from rdma.reading.fields import NAME, Fields
from rdma.reading.selector_fields import read_selector
from rdma.selectors import EVERYTHING
from rdma.tables import DEFAULT_PKEY, FULL, QosClass

MTUS: Final = (256, 512, 1024, 2048, 4096)
EVERYBODY: Final = Member(pod_selector=EVERYTHING)
_NO_PKEY: Final = 0


def read_mtu(spec: Fields) -> int | None:
    """Return the path MTU in bytes, one of InfiniBand's. Raises PolicyError."""
    mtu = spec.number("mtu", MTUS[0], MTUS[-1])
    if mtu is not None and mtu not in MTUS:
        spec.fail("mtu", f"{mtu} is none of InfiniBand's", f"use {', '.join(map(str, MTUS))}")
    return mtu


def read_partitions(spec: Fields) -> tuple[Partition, ...]:
    """Return the partitions. Raises PolicyError."""
    partitions: list[Partition] = []
    for item in spec.items("partitions"):
        name = item.required("name", NAME)
        if any(name == other.name for other in partitions):
            item.fail("name", f"{name!r} is there twice", "give each a name of its own")
        pkey = _pkey(item)
        members = tuple(_member(member) for member in item.items("members"))
        item.done()
        partitions.append(Partition(name, pkey, members))
    return tuple(partitions)


def closed_partition(*members: Member) -> Partition:
    """Return what takes its members out of the default partition, and into none."""
    return Partition("", _NO_PKEY, members)


def read_closed_partitions(spec: Fields) -> tuple[Partition, ...]:
    """Return partitions that have nobody, for their P_Keys, and one that opens nothing to anybody.

    The latter is for all whom they select, as far as that can be read. Raises PolicyError.
    """
    named: dict[str, Partition] = {}
    members: list[Member] = []
    for item in spec.items("partitions"):
        with suppress(PolicyError):
            partition = Partition(item.required("name", NAME), _pkey(item))
            named.setdefault(partition.name, partition)
        for member in item.items("members"):
            try:
                members.append(_member(member))
            except PolicyError:
                members.append(EVERYBODY)
    return (*named.values(), closed_partition(*members))


def _pkey(item: Fields) -> int | None:
    """Return 15 bits: 0x0000 is invalid (IB 10.9.1.1), the bit above says who is a full member."""
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
    item.done()
    if namespaces is None and pods is None:
        raise PolicyError(item.path, "names nobody", "give a selector; {} is everybody")
    return Member(namespaces, pods, level)


def read_qos_classes(spec: Fields, network: str) -> tuple[QosClass, ...]:
    """Return the QoS classes. Raises PolicyError."""
    classes: list[QosClass] = []
    for item in spec.items("qosClasses"):
        found = QosClass(
            name=item.required("name", NAME),
            dscp=item.number("dscp", 0, 63) or 0,
            sl=item.number("sl", 0, 15) or 0,
            weight=item.number("weight", 1, 256) or 1,
            min_rate=item.quantity("minRate"),
            max_rate=item.quantity("maxRate"),
            cnp_dscp=item.number("cnpDscp", 0, 63),
            network=network,
        )
        item.done()
        if any(found.name == other.name for other in classes):
            item.fail("name", f"{found.name!r} is there twice", "give each a name of its own")
        low, high = found.min_rate, found.max_rate
        if low is not None and high is not None and low > high:
            item.fail("minRate", "is more than maxRate", "make it less")
        classes.append(found)
    return tuple(classes)
