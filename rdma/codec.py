"""Encode tables as JSON text and decode them strictly, as the text's source may be hostile.

The text contains each isolation once, and identities refer to an isolation by its position.
``decode`` refuses the whole text if a field is unknown, a number is out of range or a rule is
missing; the tables in force then stay.
"""

import json
from typing import Any, Final, NoReturn

from rdma import addresses
from rdma.errors import TablesError
from rdma.rule_codec import read_rule, rule_document
from rdma.tables import (
    MAX_POLICIES_OF_A_POD,
    MAX_RULES_OF_A_POD,
    TABLES_VERSION,
    Endpoint,
    Identity,
    Isolation,
    Membership,
    NodeTables,
    Pod,
    QosClass,
    Rule,
)
from rdma.tables_reader import Reader

MAX_BYTES: Final = 64 << 20
"""Largest accepted text in bytes; this is enough for the tables of about 100,000 pods."""
MAX_RULES: Final = 1 << 20
MAX_IDENTITIES: Final = 1 << 17
MAX_PODS: Final = 1 << 20
MAX_ISOLATIONS: Final = 2 * MAX_IDENTITIES
MAX_MEMBERSHIPS: Final = 1 << 15
_MAX_NUMBER: Final = (1 << 63) - 1
_QOS: Final = QosClass.__slots__


def encode(tables: NodeTables) -> str:
    """Return tables as JSON text. Raises TablesError if the text is larger than ``decode``
    accepts.
    """
    text = shared_text(tables) + own_text(tables)
    if len(text) > MAX_BYTES:
        raise TablesError(f"the tables have {len(text)} bytes; the limit is {MAX_BYTES}")
    return text


def shared_text(tables: NodeTables) -> str:
    """Return the first part of the tables' JSON text, which is the same for all nodes.

    ``own_text`` returns the rest. Raises TablesError if the text is larger than ``decode`` accepts.
    """
    isolations: dict[Isolation, int] = {}
    if any(identity.number >= MAX_IDENTITIES for identity in tables.identities):
        raise TablesError(f"more than {MAX_IDENTITIES} identities: use fewer labels in selectors")
    for kind, rows, limit in (
        ("rules", tables.rules, MAX_RULES),
        ("addresses", tables.endpoints, MAX_PODS),
    ):
        if len(rows) > limit:
            raise TablesError(f"the tables have {len(rows)} {kind}; the limit is {limit}")

    def place(isolation: Isolation | None) -> int | None:
        return None if isolation is None else isolations.setdefault(isolation, len(isolations))

    identities = [
        [
            identity.number,
            place(identity.ingress),
            place(identity.egress),
            [[m.pkey, m.full, m.network, m.partition, m.mtu] for m in identity.partitions],
        ]
        for identity in tables.identities
    ]
    return _json(
        {
            "version": TABLES_VERSION,
            "rules": [rule_document(rule) for rule in tables.rules],
            "isolations": [
                [i.rules, i.enforced, i.audited, i.audited_rules, i.policies, i.audited_policies]
                for i in isolations
            ],
            "identities": identities,
            "endpoints": [[e.address, e.identity, e.pod] for e in tables.endpoints],
            "qosClasses": [
                {name: getattr(qos_class, name) for name in _QOS}
                for qos_class in tables.qos_classes
            ],
        }
    ).removesuffix("}")


def own_text(tables: NodeTables) -> str:
    """Return the end of the tables' JSON text, with one node's own fields.

    ``shared_text`` followed by this text is a whole document.
    """
    own = _json(
        {
            "generation": tables.generation,
            "node": tables.node,
            "pods": [[pod.uid, pod.name, pod.identity, pod.addresses] for pod in tables.pods],
        }
    )
    return f",{own.removeprefix('{')}"


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))


def decode(text: str | bytes) -> NodeTables:
    """Decode tables from JSON text.

    Raises:
        TablesError: the text does not contain valid tables of this version. The message names the
            position of the error.
    """
    if len(text) > MAX_BYTES:
        raise TablesError(f"the tables have {len(text)} bytes; the limit is {MAX_BYTES}")
    try:
        document = json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_no_number
        )
    except (ValueError, RecursionError) as error:
        raise TablesError(f"tables: not JSON: {str(error)[:200]}") from error
    return _tables(Reader(document))


def _tables(whole: Reader) -> NodeTables:
    version, generation, node, rules, isolations, identities, endpoints, pods, classes = (
        whole.fields(
            "version",
            "generation",
            "node",
            "rules",
            "isolations",
            "identities",
            "endpoints",
            "pods",
            "qosClasses",
        )
    )
    version.integer(TABLES_VERSION, TABLES_VERSION)
    read_rules = tuple(read_rule(item, MAX_IDENTITIES) for item in rules.items(MAX_RULES))
    read_isolations = [_isolation(item, read_rules) for item in isolations.items(MAX_ISOLATIONS)]
    identities_by_number: dict[int, Identity] = {}
    for item in identities.items(MAX_IDENTITIES):
        identity = _identity(item, read_isolations)
        if identity.number in identities_by_number:
            raise item.fail(f"identity {identity.number} occurs twice")
        identities_by_number[identity.number] = identity
    addressed: dict[str, Endpoint] = {}
    for item in endpoints.items(MAX_PODS):
        endpoint = _endpoint(item, identities_by_number)
        if endpoint.address in addressed:
            raise item.fail(f"address {endpoint.address} occurs twice")
        addressed[endpoint.address] = endpoint
    return NodeTables(
        generation.integer(0, _MAX_NUMBER),
        node.text(),
        read_rules,
        tuple(identities_by_number.values()),
        tuple(addressed.values()),
        tuple(_pod(item, identities_by_number) for item in pods.items(MAX_PODS)),
        tuple(_qos_class(item) for item in classes.items(MAX_RULES)),
    )


def _isolation(item: Reader, rules: tuple[Rule, ...]) -> Isolation:
    places, enforced, audited, audited_places, policies, audited_policies = item.tuple(6)
    isolation = Isolation(
        _places(places, rules),
        enforced.flag(),
        audited.flag(),
        _places(audited_places, rules),
        tuple(name.text() for name in policies.items(MAX_POLICIES_OF_A_POD)),
        tuple(name.text() for name in audited_policies.items(MAX_POLICIES_OF_A_POD)),
    )
    if isolation.rules and not isolation.enforced:
        raise item.fail("has rules that no policy enforces")
    if isolation.audited_rules and not isolation.audited:
        raise item.fail("has rules that no policy audits")
    return isolation


def _places(items: Reader, rules: tuple[Rule, ...]) -> tuple[int, ...]:
    places = tuple(item.integer(0, len(rules) - 1) for item in items.items(MAX_RULES_OF_A_POD))
    if any(not rules[place].policy for place in places):
        raise items.fail("refers to an empty position of the list of rules")
    return places


def _identity(item: Reader, isolations: list[Isolation]) -> Identity:
    number, ingress, egress, partitions = item.tuple(4)

    def side(reader: Reader) -> Isolation | None:
        chosen = reader.unless_null()
        return None if chosen is None else isolations[chosen.integer(0, len(isolations) - 1)]

    return Identity(
        number.integer(0, MAX_IDENTITIES - 1),
        side(ingress),
        side(egress),
        tuple(_membership(membership) for membership in partitions.items(MAX_MEMBERSHIPS)),
    )


def _membership(item: Reader) -> Membership:
    pkey, full, network, partition, mtu = item.tuple(5)
    return Membership(
        pkey.integer(1, 0x7FFF),
        full.flag(),
        network.text(),
        partition.text(),
        _optional(mtu, 256, 4096),
    )


def _known_number(reader: Reader, identities: dict[int, Identity]) -> int:
    number = reader.integer(0, MAX_IDENTITIES - 1)
    if number not in identities:
        raise reader.fail(f"identity {number} does not exist")
    return number


def _endpoint(item: Reader, identities: dict[int, Identity]) -> Endpoint:
    address, identity, pod = item.tuple(3)
    return Endpoint(_address(address), _known_number(identity, identities), pod.text())


def _address(reader: Reader) -> str:
    text = reader.text(64)
    try:
        right = addresses.canonical(text)
    except ValueError as error:
        raise reader.fail(str(error)[:200]) from error
    if right != text:
        raise reader.fail(f"is not in canonical form: write {right}")
    return text


def _pod(item: Reader, identities: dict[int, Identity]) -> Pod:
    uid, name, identity, addresses = item.tuple(4)
    return Pod(
        uid.text(),
        name.text(),
        _known_number(identity, identities),
        tuple(_address(address) for address in addresses.items(64)),
    )


def _qos_class(item: Reader) -> QosClass:
    name, dscp, sl, weight, low, high, cnp, network = item.fields(*_QOS)
    return QosClass(
        name.text(),
        dscp.integer(0, 63),
        sl.integer(0, 15),
        weight.integer(1, 256),
        _optional(low, 1, _MAX_NUMBER),
        _optional(high, 1, _MAX_NUMBER),
        _optional(cnp, 0, 63),
        network.text(),
    )


def _optional(reader: Reader, low: int, high: int) -> int | None:
    chosen = reader.unless_null()
    return None if chosen is None else chosen.integer(low, high)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field occurs twice")
    return fields


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is not an integer")
