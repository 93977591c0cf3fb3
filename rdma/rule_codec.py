"""Encode one rule of the tables as a JSON value, and decode it."""

from typing import Any, Final

from rdma import addresses
from rdma.tables import Block, Direction, Limits, Memory, Port, Rule
from rdma.tables_reader import Reader
from rdma.verbs import ALL, Verb

_MAX_ITEMS: Final = 1024
_MAX_NUMBER: Final = (1 << 63) - 1
_PORT: Final = Port.__slots__
_LIMITS: Final = Limits.__slots__
_RULE: Final = Rule.__slots__


def rule_document(rule: Rule) -> dict[str, Any]:
    """Return a rule of the tables as a JSON object; the set of peers becomes hexadecimal text."""
    memory = rule.memory
    return {
        "policy": rule.policy,
        "direction": rule.direction,
        "index": rule.index,
        "verbs": rule.verbs.value,
        "peers": None if rule.peers is None else f"{rule.peers:x}",
        "blocks": [[block.cidr, block.excepted] for block in rule.blocks],
        "ports": [{name: getattr(port, name) for name in _PORT} for port in rule.ports],
        "memory": [memory.read_only, memory.scope, memory.regions],
        "limits": [getattr(rule.limits, name) for name in _LIMITS],
        "qos_class": rule.qos_class,
    }


def read_rule(item: Reader, max_identities: int) -> Rule:
    """Decode a rule of the tables from a JSON value.

    ``max_identities`` bounds the set of peers. Raises TablesError.
    """
    policy, direction, index, verbs, peers, blocks, ports, memory, limits, qos_class = item.fields(
        *_RULE
    )
    return Rule(
        policy.text(),
        Direction(direction.choice(*Direction)),
        index.integer(0, _MAX_ITEMS - 1),
        Verb(verbs.integer(0, ALL.value)),
        _peers(peers, max_identities),
        tuple(_block(block) for block in blocks.items(_MAX_ITEMS)),
        tuple(_port(port) for port in ports.items(_MAX_ITEMS)),
        _memory(memory),
        Limits(*(_optional(limit, 0, _MAX_NUMBER) for limit in limits.tuple(len(_LIMITS)))),
        qos_class.text(),
    )


def _peers(reader: Reader, max_identities: int) -> int | None:
    chosen = reader.unless_null()
    if chosen is None:
        return None
    text = chosen.text(max_identities // 4)
    if not text or not set(text) <= set("0123456789abcdef"):
        raise chosen.fail("is not a hexadecimal number")
    return int(text, 16)


def _optional(reader: Reader, low: int, high: int) -> int | None:
    chosen = reader.unless_null()
    return None if chosen is None else chosen.integer(low, high)


def _block(item: Reader) -> Block:
    cidr, excepted = item.tuple(2)
    texts = tuple(excepted_cidr.text(64) for excepted_cidr in excepted.items(_MAX_ITEMS))
    try:
        block = addresses.block(cidr.text(64), texts)
    except ValueError as error:
        raise item.fail(str(error)[:200]) from error
    if block != Block(cidr.text(64), texts):
        raise item.fail("is not in canonical form")
    return block


def _range(reader: Reader, high: int) -> tuple[int, int] | None:
    chosen = reader.unless_null()
    if chosen is None:
        return None
    first, last = (bound.integer(0, high) for bound in chosen.tuple(2))
    if first > last:
        raise chosen.fail("ends before it begins")
    return first, last


def _port(item: Reader) -> Port:
    services, space, qpns, traffic_class, dscp = item.fields(*_PORT)
    return Port(
        _range(services, 0xFFFF),
        None if space.unless_null() is None else space.choice("TCP", "UDP"),
        _range(qpns, 0xFF_FFFF),
        _optional(traffic_class, 0, 255),
        _optional(dscp, 0, 63),
    )


def _memory(item: Reader) -> Memory:
    read_only, scope, regions = item.tuple(3)
    return Memory(
        read_only.flag(),
        scope.choice("Pod", "ProtectionDomain", "Named"),
        tuple(region.text(64) for region in regions.items(_MAX_ITEMS)),
    )
