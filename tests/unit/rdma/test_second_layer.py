"""The text of the second layer, and the properties of flows that it checks."""

import re

import pytest
from hypothesis import given, strategies as st

from rdma.evaluator import Evaluator
from rdma.opcodes import allowed_opcodes, allowed_opcodes_by_place
from rdma.reach import EVERY_QPN, Reach
from rdma.second_layer import TABLE, TOTALS, Interface, Present, removal, ruleset
from rdma.tables import (
    UNIDENTIFIED,
    Block,
    Direction,
    Endpoint,
    Flow,
    Identity,
    Isolation,
    Membership,
    NodeTables,
    Port,
    Rule,
)
from rdma.verbs import ALL, NONE, Verb

DEFAULT = (Membership(0x7FFF, full=True),)
OPEN = Identity(1, partitions=DEFAULT)
READABLE = Identity(2, Isolation((0,)), None, DEFAULT)
RULE = Rule("a/p", Direction.INGRESS, 0, Verb.READ, 1 << OPEN.number)


def _tables(*rules: Rule, identities: tuple[Identity, ...] = (OPEN, READABLE)) -> NodeTables:
    endpoints = (Endpoint("10.0.0.1", 1, "a/x"), Endpoint("10.0.0.2", 2, "a/y"))
    return NodeTables(1, "n", rules or (RULE,), identities, endpoints)


def _chain(text: str, name: str) -> list[str]:
    found = re.search(rf"chain {name} \{{\n(.*?)\n\}}", text, re.DOTALL)
    assert found, text
    return found[1].split("\n")


@pytest.mark.parametrize(
    ("forward", "back", "codes"),
    [
        (NONE, NONE, set()),
        (Verb.READ, NONE, {0x0C, 0x81}),
        (NONE, Verb.READ, {0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x81}),
        (NONE, Verb.UD, {0x81}),  # datagrams have no answer
        (Verb.WRITE, NONE, {0x06, 0x07, 0x08, 0x0A, 0x26, 0x27, 0x28, 0x2A, 0x81}),
        (Verb.ATOMIC_CAS, Verb.ATOMIC_FAA, {0x11, 0x12, 0x13, 0x81}),
    ],
)
def test_opcodes_of_requests_and_of_answers(forward: Verb, back: Verb, codes: set[int]) -> None:
    assert allowed_opcodes(forward, back) == codes


def test_reach_is_both_sides_and_partitions() -> None:
    reach = Reach(_tables())
    assert reach.possible_verbs(OPEN, READABLE) == Verb.READ
    assert reach.possible_verbs(READABLE, OPEN) == ALL
    assert reach.possible_verbs(READABLE, READABLE) == NONE
    assert reach.possible_verbs(None, READABLE) == NONE
    apart = Identity(3, partitions=(Membership(0x11, full=True),))
    assert reach.possible_verbs(OPEN, apart) == NONE
    limited = Identity(3, partitions=(Membership(0x7FFF, full=False),))
    assert reach.possible_verbs(limited, OPEN) == ALL
    assert reach.possible_verbs(limited, limited) == NONE


def test_a_block_may_hold_an_address_without_an_endpoint() -> None:
    outside = Rule("a/p", Direction.INGRESS, 0, Verb.SEND, 0, (Block("192.0.2.0/24"),))
    assert Reach(_tables(outside)).possible_verbs(None, READABLE) == Verb.SEND


_RULES = st.builds(
    Rule,
    policy=st.just("a/p"),
    direction=st.just(Direction.INGRESS),
    index=st.just(0),
    verbs=st.integers(0, ALL.value).map(Verb),
    peers=st.none() | st.integers(0, 15),
    blocks=st.sampled_from([(), (Block("192.0.2.0/24"),)]),
    ports=st.sampled_from([(), (Port(qpns=(17, 17)),), (Port(traffic_class=8),)]),
)
_ISOLATIONS = st.none() | st.builds(
    Isolation, rules=st.lists(st.integers(0, 2), max_size=3).map(tuple), enforced=st.booleans()
)
_PARTITIONS = st.lists(
    st.builds(Membership, pkey=st.sampled_from([0x7FFF, 0x11]), full=st.booleans()), max_size=2
).map(tuple)
_SIDES = st.tuples(_ISOLATIONS, _ISOLATIONS, _PARTITIONS)


@given(
    rules=st.tuples(_RULES, _RULES, _RULES),
    sides=st.tuples(_SIDES, _SIDES),
    ends=st.permutations(["10.0.0.1", "10.0.0.2", "192.0.2.1"]),
    pkey=st.sampled_from([0xFFFF, 0x8011, 0x7FFF]),
    qpn=st.sampled_from([None, 17]),
)
def test_reach_permits_what_the_evaluator_permits(
    rules: tuple[Rule, ...],
    sides: tuple[tuple[Isolation | None, Isolation | None, tuple[Membership, ...]], ...],
    ends: list[str],
    pkey: int,
    qpn: int | None,
) -> None:
    kinds = tuple(Identity(place, *side) for place, side in enumerate(sides, 1))
    tables = _tables(*rules, identities=kinds)
    whose = {"10.0.0.1": kinds[0], "10.0.0.2": kinds[1], "192.0.2.1": None}
    flow = Flow(ends[0], ends[1], pkey, destination_qpn=qpn, traffic_class=8)
    passing = Evaluator(tables).evaluate(flow).verbs
    assert passing & ~Reach(tables).possible_verbs(whose[ends[0]], whose[ends[1]]) == NONE
    ranges = Reach(tables).ranges(whose[ends[0]], whose[ends[1]])
    for verb in passing & ~Verb.CM:
        assert qpn is None or any(first <= qpn <= last for first, last in ranges[verb])


def test_ranges_are_what_both_sides_let_and_cm_is_for_queue_pair_1() -> None:
    out = Rule("a/p", Direction.EGRESS, 0, ALL, ports=(Port(qpns=(5, 9)), Port(qpns=(10, 12))))
    into = Rule("a/p", Direction.INGRESS, 0, Verb.READ | Verb.CM, ports=(Port(qpns=(11, 20)),))
    one = Identity(1, None, Isolation((0,)), DEFAULT)
    other = Identity(2, Isolation((1,)), None, DEFAULT)
    reach = Reach(_tables(out, into, identities=(one, other)))
    assert reach.ranges(one, other) == {Verb.READ: ((11, 12),)}
    assert reach.ranges(other, one)[Verb.CM] == ((1, 1),)
    assert reach.ranges(other, one)[Verb.UD] == EVERY_QPN
    assert reach.ranges(other, other) == {Verb.READ: ((11, 20),)}  # no CM, which needs queue pair 1


def test_requests_go_where_rules_say_and_answers_anywhere() -> None:
    found = allowed_opcodes_by_place({Verb.READ: ((7, 7),)}, Verb.READ, EVERY_QPN)
    assert found == {
        ((7, 7),): {0x0C},
        EVERY_QPN: {0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x81},
    }


def test_what_only_audits_denies_nothing() -> None:
    audited = Identity(2, Isolation((0,), enforced=False, audited=True), None, DEFAULT)
    assert Reach(_tables()).possible_verbs(OPEN, audited) == ALL


def test_a_pod_is_let_do_to_a_peer_what_both_allow() -> None:
    text = ruleset(_tables(), [Interface("veth1", ("10.0.0.1",), 1)])
    leaving = _chain(text, "leaving_1")
    (towards,) = [line for line in leaving if line.startswith("ip daddr @identity_2_v4 ")]
    partition, operations, answers, rest = _chain(text, towards.rpartition(" ")[2])
    assert operations.startswith("@th,64,8 { 0x0c, ")
    assert " 0x0a" not in operations
    assert partition == "@th,80,16 & 0x7fff != { 0x7fff } counter name partition return"
    # It may not connect, but the peer may: its answers go to queue pair 1 only.
    assert answers == "@th,64,8 { 0x64, 0x65 } @th,104,24 { 1 } accept"
    assert rest == "counter name operation return"


def test_nothing_of_rdma_passes_a_pod_of_whom_nothing_is_known() -> None:
    for identity in (None, 77):
        text = ruleset(_tables(), [Interface("veth1", ("10.0.0.1",), identity)])
        for place in ("from", "to"):
            denied = f"counter name link_1_{place}_denied drop"
            assert _chain(text, f"check_{place}_1")[-2:] == ["counter name peer", denied]
    unidentified = _tables(identities=(Identity(UNIDENTIFIED, Isolation(), Isolation()),))
    text = ruleset(unidentified, [Interface("veth1", ("10.0.0.1",), UNIDENTIFIED)])
    assert _chain(text, "leaving_0") == [
        "ip daddr @identity_1_v4 counter name peer return",
        "ip daddr @identity_2_v4 counter name peer return",
        "counter name peer return",
    ]


def test_sources_of_what_leaves_are_checked_whatever_the_port() -> None:
    """tests/integration/rdma/test_second_layer_sources.py checks the effect in the kernel."""
    text = ruleset(_tables(), [Interface("veth1", ("10.0.0.1", "fd00::1"), 1)], others=())
    leaving, coming = _chain(text, "check_from_1"), _chain(text, "check_to_1")
    before = leaving[: leaving.index("udp dport != 4791 accept")]
    assert before[0].startswith("ip saddr != { 0.0.0.0, 10.0.0.1 } counter name spoofed")
    assert before[1].startswith("ip6 saddr != { fd00::1, fe80::/10 } counter name spoofed")
    assert not any("accept" in rule for rule in before[:2])
    assert coming[0].endswith("accept"), "what comes to another port is not looked at"
    assert "udp dport 4791 ct status dnat counter name translated drop" in _chain(text, "forward")


@pytest.mark.parametrize("address", ["10.0.0.1 accept", "fe80::1%x", "10.0.0.0/8", ""])
def test_text_that_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"address|does not appear"):
        ruleset(_tables(), [Interface("veth1", (address,), 1)])


@pytest.mark.parametrize("name", ['a" accept', "a/b", "", "a\nb", "a b", "\\"])
def test_text_that_is_no_name_of_a_link_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid name of a network interface"):
        ruleset(_tables(), [Interface(name, ("10.0.0.1",), 1)])


def test_counters_that_are_loaded_continue_and_others_go() -> None:
    """tests/integration/rdma/test_linkd.py checks the effect in the kernel."""
    names = map(frozenset, (("from_9",), ("identity_9_v4",), ("spoofed", "link_9_from_spoofed")))
    text = ruleset(
        _tables(), [Interface("v", ("10.0.0.1",), 1)], present={"netdev": Present(*names)}
    )
    cleared, _, table = text.partition(f"table netdev {TABLE} {{")
    assert cleared.splitlines() == [
        f"flush table netdev {TABLE}",
        f"add chain netdev {TABLE} from_9",
        f"delete chain netdev {TABLE} from_9",
        f"delete set netdev {TABLE} identity_9_v4",
        f"delete counter netdev {TABLE} link_9_from_spoofed",
        f"table inet {TABLE}",
        f"delete table inet {TABLE}",
    ]
    assert "counter spoofed {" not in table
    assert "counter fragment {" in table


def test_removal_leaves_no_table() -> None:
    assert ruleset(_tables(), []).startswith(removal())


@pytest.mark.parametrize("others", [None, (), ("veth9",)])
@pytest.mark.parametrize("links", [1, 2, 3])
def test_each_table_declares_the_counters_and_sets_of_its_rules_once(
    links: int, others: tuple[str, ...] | None
) -> None:
    """nft refuses a table that uses an undeclared name, and an unused one never counts."""
    identities = (1, 2, UNIDENTIFIED)
    interfaces = [
        Interface(f"veth{n}", (f"10.0.0.{n + 1}", f"fd00::{n + 1}"), identities[n])
        for n in range(links)
    ]
    text = ruleset(_tables(), interfaces, others=others)
    _, *tables = re.split(r"^table \w+ \w+ \{$", text, flags=re.MULTILINE)
    assert len(tables) >= 1
    for table in tables:
        declared = re.findall(r"^\s*counter (\w+) \{", table, re.MULTILINE)
        assert len(declared) == len(set(declared))
        used = set(re.findall(r"counter name (\w+)", table))
        assert used <= set(declared) <= used | set(TOTALS)
        sets = re.findall(r"^\s*set (\w+) \{", table, re.MULTILINE)
        assert len(sets) == len(set(sets))
        assert set(re.findall(r"@(identity_\w+)", table)) <= set(sets)
