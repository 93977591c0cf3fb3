"""Tables as text: encoded tables are decoded; any other text is refused, with the place of the
error.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rdma import codec
from rdma.compiling.compiler import Compiler
from rdma.errors import TablesError
from rdma.tables import (
    MAX_POLICIES_OF_A_POD,
    MAX_RULES_OF_A_POD,
    Direction,
    Identity,
    Isolation,
    Membership,
    NodeTables,
    Rule,
)
from support.worlds.rdma_world import Dict, load, namespace, network, nine, policy


def world_tables() -> NodeTables:
    world = nine()
    world.namespaces.append(namespace("d"))
    world.networks = [
        network(
            [{"name": "train", "members": [{"podSelector": {"matchLabels": {"pod": "x"}}}]}],
            mtu=4096,
            qosClasses=[{"name": "bulk", "dscp": 26, "minRate": "1G"}],
        )
    ]
    world.policies = [
        policy(
            {
                "podSelector": {},
                "ingress": [
                    {
                        "from": [
                            {"podSelector": {}},
                            {"ipBlock": {"cidr": "fd00::/8", "except": ["fd01::/16"]}},
                        ],
                        "ports": [{"serviceID": 5}, {"qpn": 1}, {"dscp": 3}],
                        "memory": {"scope": "Named", "regions": ["weights"]},
                        "limits": {"bandwidth": "5Gi"},
                    }
                ],
                "egress": [{"verbs": ["Read"], "qosClassName": "bulk"}],
            }
        ),
        policy({"podSelector": {}, "enforcement": "Audit", "ingress": [{}]}, "audit"),
    ]
    return load(Compiler(), world).tables("node-x", 9)


TABLES = world_tables()
TEXT = codec.encode(TABLES)


def test_what_was_written_is_read() -> None:
    assert codec.decode(TEXT) == TABLES
    assert codec.decode(TEXT.encode()) == TABLES
    assert codec.decode(codec.encode(NodeTables(0, ""))) == NodeTables(0, "")


def set_in(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("version",), 2, "tables.version"),
        (("version",), True, "tables.version"),
        (("generation",), -1, "tables.generation"),
        (("generation",), 1 << 63, "tables.generation"),
        (("node",), 5, "tables.node"),
        (("node",), "a\nb", "tables.node"),
        (("more",), 1, "tables:"),
        (("rules",), {}, "tables.rules"),
        (("rules", 0, "verbs"), 0x200, "tables.rules[0].verbs"),
        (("rules", 0, "direction"), "Ingress", "tables.rules[0].direction"),
        (("rules", 0, "peers"), "0x1", "tables.rules[0].peers"),
        (("rules", 0, "peers"), "", "tables.rules[0].peers"),
        (("rules", 0, "peers"), "f" * (1 << 16), "tables.rules[0].peers"),
        (("rules", 0, "peers"), 5, "tables.rules[0].peers"),
        (("rules", 0, "blocks"), [["10.0.0.0/8"]], "tables.rules[0].blocks[0]"),
        (("rules", 0, "blocks"), [["10.0.0.1/8", []]], "tables.rules[0].blocks[0]"),
        (("rules", 0, "blocks"), [["10.0.0.0/8", ["11.0.0.0/9"]]], "tables.rules[0].blocks[0]"),
        (("rules", 0, "ports", 0, "services"), [6, 5], "tables.rules[0].ports[0].services"),
        (("rules", 0, "ports", 0, "space"), "SCTP", "tables.rules[0].ports[0].space"),
        (("rules", 0, "memory"), [True, "All", []], "tables.rules[0].memory[1]"),
        (("rules", 0, "limits"), [], "tables.rules[0].limits"),
        (("isolations", 0), [], "tables.isolations[0]"),
        (("isolations", 0), [[99], True, False, [], [], []], "tables.isolations[0][0][0]"),
        (("isolations", 0), [[0], False, False, [], [], []], "tables.isolations[0]"),
        (("isolations", 0), [[], True, False, [0], [], []], "tables.isolations[0]"),
        (("identities", 0, 0), 1 << 17, "tables.identities[0][0]"),
        (("identities", 1, 0), 0, "tables.identities[1]"),
        (("identities", 1, 1), 99, "tables.identities[1][1]"),
        (("identities", 1, 3), [[0, True, "", "", None]], "tables.identities[1][3][0][0]"),
        (("identities", 1, 3), [[0x8001, True, "", "", None]], "tables.identities[1][3][0][0]"),
        (("endpoints", 0, 0), "10.0.1", "tables.endpoints[0][0]"),
        (("endpoints", 0, 0), "::ffff:10.0.1.1", "tables.endpoints[0][0]"),
        (("endpoints", 0, 0), "10.0.1.2", "tables.endpoints[1]"),
        (("endpoints", 0, 1), 77, "tables.endpoints[0][1]"),
        (("pods", 0, 2), 77, "tables.pods[0][2]"),
        (("pods", 0, 3), ["FD00::1"], "tables.pods[0][3][0]"),
        (("qosClasses", 0, "sl"), 16, "tables.qosClasses[0].sl"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(path: tuple[Any, ...], value: Any, place: str) -> None:
    document = json.loads(TEXT)
    set_in(document, path, value)
    with pytest.raises(TablesError) as caught:
        codec.decode(json.dumps(document))
    assert str(caught.value).startswith(place)
    assert len(str(caught.value)) < 600


MOST = (1 << 63) - 1
ADDRESSES = [f"fd00::{number:x}" for number in range(1, 66)]
# A place in the document, with its minimum and maximum.
RANGES = [
    (("version",), 1, 1),
    (("generation",), 0, MOST),
    (("identities", 1, 3, 0, 0), 1, 0x7FFF),  # a P_Key without its membership bit
    (("identities", 1, 3, 0, 4), 256, 4096),
    (("qosClasses", 0, "dscp"), 0, 63),
    (("qosClasses", 0, "sl"), 0, 15),
    (("qosClasses", 0, "weight"), 1, 256),
    (("qosClasses", 0, "min_rate"), 1, MOST),
    (("qosClasses", 0, "max_rate"), 1, MOST),
    (("qosClasses", 0, "cnp_dscp"), 0, 63),
]


@pytest.mark.parametrize(("path", "least", "greatest"), RANGES, ids=str)
def test_a_number_at_both_ends_of_its_range_is_read_and_none_beyond(
    path: tuple[Any, ...], least: int, greatest: int
) -> None:
    document = json.loads(TEXT)
    document["identities"][1][3] = [[1, True, "lab", "train", None]]
    for value in (least, greatest):
        set_in(document, path, value)
        read = codec.decode(json.dumps(document))
        assert codec.decode(codec.encode(read)) == read
        written = json.loads(codec.encode(read))
        for key in path:
            written = written[key]
        assert written == value
    for value in (least - 1, greatest + 1):
        set_in(document, path, value)
        with pytest.raises(TablesError):
            codec.decode(json.dumps(document))


def test_a_pod_has_at_most_64_addresses() -> None:
    document = json.loads(TEXT)
    set_in(document, ("pods", 0, 3), ADDRESSES[:64])
    assert codec.decode(json.dumps(document)).pods[0].addresses == tuple(ADDRESSES[:64])
    set_in(document, ("pods", 0, 3), ADDRESSES)
    with pytest.raises(TablesError, match=r"tables\.pods\[0\]\[3\]"):
        codec.decode(json.dumps(document))


# A list in the document, the name of its limit, and the limit.
LISTS = [
    (("rules",), "MAX_RULES", 1 << 20),
    (("isolations",), "MAX_ISOLATIONS", 1 << 18),
    (("isolations", 1, 0), "MAX_RULES_OF_A_POD", 4096),
    (("isolations", 1, 3), "MAX_RULES_OF_A_POD", 4096),
    (("isolations", 1, 4), "MAX_POLICIES_OF_A_POD", 1024),
    (("isolations", 1, 5), "MAX_POLICIES_OF_A_POD", 1024),
    (("identities",), "MAX_IDENTITIES", 1 << 17),
    (("identities", 1, 3), "MAX_MEMBERSHIPS", 1 << 15),
    (("endpoints",), "MAX_PODS", 1 << 20),
    (("pods",), "MAX_PODS", 1 << 20),
    (("qosClasses",), "MAX_RULES", 1 << 20),
]


@pytest.mark.parametrize(("path", "limit", "value"), LISTS, ids=str)
def test_a_list_as_long_as_its_limit_is_read_and_no_longer_one(
    monkeypatch: pytest.MonkeyPatch, path: tuple[Any, ...], limit: str, value: int
) -> None:
    """Tried with a limit of nine or more, which equals the length to which the list is filled."""
    assert getattr(codec, limit) == value
    document = json.loads(TEXT)
    there = document
    for key in path:
        there = there[key]
    most = max(9, len(there))
    monkeypatch.setattr(codec, limit, most)
    there += there[:1] * (most - len(there))
    codec.decode(json.dumps(document))
    there += there[:1]
    with pytest.raises(TablesError, match=f"not a list of at most {most} items$") as caught:
        codec.decode(json.dumps(document))
    assert str(caught.value).startswith(f"tables.{path[0]}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        "1" * 5000,
        TEXT[:-1],
        TEXT + "x",
        '{"version":1,' + TEXT[1:],
        TEXT.replace('"generation":9', '"generation":9.0'),
        TEXT.replace('"generation":9', '"generation":NaN'),
        b"\xff\xfe\x00",
        b"\x80",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_what_is_no_text_of_ours_is_refused(text: str | bytes) -> None:
    with pytest.raises(TablesError):
        codec.decode(text)


def test_what_is_too_long_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_BYTES", len(TEXT) - 1)
    for act in (lambda: codec.decode(TEXT), lambda: codec.encode(TABLES)):
        with pytest.raises(TablesError, match="the limit is"):
            act()


def test_as_much_as_is_written_is_read() -> None:
    """A pod with as many rules, policies and partitions as the compiler permits."""
    rule = Rule("a/p", Direction.INGRESS, 0)
    places = tuple(range(MAX_RULES_OF_A_POD))
    names = tuple(f"a/p{number}" for number in range(MAX_POLICIES_OF_A_POD))
    isolation = Isolation(places, True, True, places, names, names)
    partitions = tuple(Membership(pkey, full=True) for pkey in range(1, 0x8000))
    identity = Identity(1, isolation, None, partitions)
    made = NodeTables(1, "n", (rule,) * len(places), (Identity(0), identity))
    assert codec.decode(codec.encode(made)) == made


def test_no_isolation_may_name_an_unused_place() -> None:
    world = nine()
    world.policies = [policy({"podSelector": {}, "ingress": [{}]})]
    compiler = load(Compiler(), world)
    compiler.tables("node-x")
    compiler.delete_policy("a/p")
    tables = compiler.tables("node-x")
    assert codec.decode(codec.encode(tables)) == tables
    document = json.loads(codec.encode(tables))
    document["isolations"][0] = [[0], True, False, [], [], []]
    with pytest.raises(TablesError, match="empty position"):
        codec.decode(json.dumps(document))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[Dict | Any] = []
    if isinstance(document, dict):
        inner = list(document.items())
    elif isinstance(document, list):
        inner = list(enumerate(document))
    found = [path] if path else []
    for key, value in inner:
        found += places(value, (*path, key))
    return found


PLACES = places(json.loads(TEXT))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), JSON), min_size=1, max_size=3))
def test_whatever_is_put_anywhere_it_is_read_or_refused(changes: list[tuple[Any, Any]]) -> None:
    document = json.loads(TEXT)
    for path, value in changes:
        try:
            set_in(document, path, value)
        except (TypeError, KeyError, IndexError):
            continue  # an earlier change has removed the place
    try:
        tables = codec.decode(json.dumps(document))
    except TablesError:
        return
    assert codec.decode(codec.encode(tables)) == tables
