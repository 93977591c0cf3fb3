"""Read an RDMANetworkPolicy's rules: peers, verbs, ports, memory and limits, strictly."""

from typing import Final

from rdma import addresses
from rdma.errors import PolicyError
from rdma.objects import Level, PartitionPeer, Peer, PolicyRule
from rdma.operations import CHANGES_MEMORY
from rdma.reading.fields import LABEL_VALUE, NAME, Fields
from rdma.reading.selector_fields import read_selector
from rdma.tables import Block, Direction, Limits, Memory, Port
from rdma.verbs import ALL, NAMES, NONE, Verb

MAX_SERVICE: Final = 0xFFFF
MAX_QPN: Final = 0xFF_FFFF


def read_rules(spec: Fields, direction: Direction) -> tuple[PolicyRule, ...]:
    """Return the rules of one direction in a policy's spec. Raises PolicyError."""
    return tuple(_rule(item, direction) for item in spec.items(direction))


def _rule(item: Fields, direction: Direction) -> PolicyRule:
    egress = direction is Direction.EGRESS
    peers = tuple(_peer(peer) for peer in item.items("to" if egress else "from"))
    verbs = _verbs(item)
    ports = tuple(_port(port) for port in item.items("ports"))
    limits = _limits(item)
    memory, qos_class = Memory(), ""
    if egress:
        if item.has("memory"):
            item.fail(
                "memory",
                "an egress rule cannot restrict the peer's memory",
                "restrict it in an ingress rule of the pods that own the memory",
            )
        qos_class = item.text("qosClassName", NAME) or ""
    else:
        if item.has("qosClassName"):
            item.fail("qosClassName", "the sender marks packets", "put it into egress")
        memory = _memory(item)
    item.check_all_read()
    if memory.read_only:
        verbs &= ~CHANGES_MEMORY
        if not verbs:
            item.fail("verbs", "all of them write to read-only memory", "add Read, or ReadWrite")
    return PolicyRule(peers, verbs, ports, memory, limits, qos_class)


def _verbs(item: Fields) -> Verb:
    verbs = NONE
    for index, value in enumerate(item.sequence("verbs")):
        verbs |= NAMES[item.checked_choice(f"verbs[{index}]", value, tuple(NAMES))]
    return verbs or ALL


def _peer(item: Fields) -> Peer:
    pod_selector = read_selector(item, "podSelector")
    namespace_selector = read_selector(item, "namespaceSelector")
    block = _block(item)
    partition = _partition(item)
    item.check_all_read()
    chosen = (pod_selector, namespace_selector, partition)
    if block is not None and any(selector is not None for selector in chosen):
        item.fail("ipBlock", "cannot be combined with a selector", "make it a separate item")
    if block is None and all(selector is None for selector in chosen):
        raise PolicyError(item.path, "names no peer", "give a selector, partition or ipBlock")
    return Peer(pod_selector, namespace_selector, block, partition)


def _block(item: Fields) -> Block | None:
    fields = item.inner("ipBlock")
    if fields is None:
        return None
    cidr = fields.required_text("cidr")
    excepted = tuple(
        fields.checked_text(f"except[{index}]", value)
        for index, value in enumerate(fields.sequence("except"))
    )
    fields.check_all_read()
    try:
        return addresses.block(cidr, excepted)
    except ValueError as error:
        raise PolicyError(fields.path, str(error), "write blocks such as 10.9.0.0/16") from error


def _partition(item: Fields) -> PartitionPeer | None:
    fields = item.inner("partition")
    if fields is None:
        return None
    name = fields.required_text("name", NAME)
    network = fields.text("network", NAME)
    level = Level(fields.choice("membership", tuple(Level), Level.ANY))
    fields.check_all_read()
    return PartitionPeer(name, level, network)


def _port(item: Fields) -> Port:
    services = _range(item, "serviceID", "endServiceID", 1, MAX_SERVICE)
    if services is None and item.has("space"):
        item.fail("space", "requires serviceID", "give serviceID")
    space = item.choice("space", ("TCP", "UDP"), "TCP") if services is not None else None
    qpns = _range(item, "qpn", "endQPN", 0, MAX_QPN)
    traffic_class = item.number("trafficClass", 0, 255)
    dscp = item.number("dscp", 0, 63)
    item.check_all_read()
    if traffic_class is not None and dscp is not None:
        item.fail("dscp", "is the upper part of trafficClass, which is given", "give one")
    port = Port(services, space, qpns, traffic_class, dscp)
    if port == Port():
        raise PolicyError(
            item.path, "has no condition", "give serviceID, qpn, trafficClass or dscp"
        )
    return port


def _range(item: Fields, first: str, last: str, low: int, high: int) -> tuple[int, int] | None:
    if item.has(last) and not item.has(first):
        item.fail(last, f"has no {first} to begin at", f"give {first}")
    start = item.number(first, low, high)
    if start is None:
        return None
    end = item.number(last, start, high)
    return start, start if end is None else end


def _memory(item: Fields) -> Memory:
    fields = item.inner("memory")
    if fields is None:
        return Memory()
    access = fields.choice("maxAccess", ("ReadOnly", "ReadWrite"), "ReadWrite")
    scope = fields.choice("scope", ("Pod", "ProtectionDomain", "Named"), "Pod")
    regions = tuple(
        fields.checked_text(f"regions[{index}]", value, LABEL_VALUE)
        for index, value in enumerate(fields.sequence("regions"))
    )
    fields.check_all_read()
    if (scope == "Named") != bool(regions):
        fields.fail("regions", f"do not go with scope {scope}", "scope Named, and its regions")
    return Memory(access == "ReadOnly", scope, tuple(sorted(set(regions))))


def _limits(item: Fields) -> Limits:
    fields = item.inner("limits")
    if fields is None:
        return Limits()
    limits = Limits(
        bytes_per_second=fields.quantity("bandwidth"),
        burst_bytes=fields.quantity("burst"),
        operations_per_second=fields.quantity("ops"),
        queue_pairs=fields.number("maxQPs", 0, MAX_QPN),
        region_bytes=fields.quantity("maxMRBytes"),
    )
    fields.check_all_read()
    if limits.burst_bytes is not None and limits.bytes_per_second is None:
        fields.fail("burst", "bounds nothing without bandwidth", "give bandwidth")
    return limits
