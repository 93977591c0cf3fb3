"""Counts, denials, verdicts and quotas of a party: each limit and one beyond it, each member."""

from collections import Counter
from dataclasses import fields, replace
from typing import Any

import pytest

from hca.binding.addresses import address_of
from hca.contract import hca, hca_frames
from hca.contract.hca_engine import HcaFlowCounts
from hca.contract.verbs import VerbsAccess
from hca.daemon.common import numbers
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects import checks
from hca.daemon.policy import memory_rules
from hca.daemon.policy.denials import MAX_KINDS, Denial, Denials
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.flows import Flows, Row
from hca.daemon.policy.guard import Guard
from hca.daemon.policy.parties import Parties, Party
from hca.daemon.policy.verdicts import Connection, ConnectionVerdict, denial_of, evaluate_raw
from rdma.tables import (
    Direction,
    Endpoint,
    Identity,
    Isolation,
    Limits,
    Memory,
    NodeTables,
    Rule,
    Verdict,
)
from rdma.verbs import ALL, NONE, Verb
from support.oracles.refusals import error
from support.rigs.recording_engine import Engine
from support.worlds.flow_rules import FLOW, rule


@pytest.fixture
def engine() -> Any:
    return Engine()


ONE, TWO = (Party.of(f"f{place}", address_of(place)) for place in range(2))


# Counts.


def make_counts(place: int, operations: int = 0, size: int = 0, denied: int = 0) -> HcaFlowCounts:
    made = HcaFlowCounts()
    made.operations[place], made.bytes[place], made.denied[place] = operations, size, denied
    return made


@pytest.mark.parametrize("verb", list(Verb))
def test_each_verb_is_counted_by_the_rules_that_match_and_have_it(engine: Any, verb: Verb) -> None:
    place = list(Verb).index(verb)
    denials = Denials()
    flows = Flows(engine, denials, lambda flow: "f0", Parties())
    has, lacks = replace(rule("a/has"), verbs=verb), replace(rule("a/lacks"), verbs=ALL & ~verb)
    beside = rule("a/beside")
    flows.set_rules((has, lacks, beside, Rule("", Direction.EGRESS, 0)))
    row = flows.row(
        FLOW, Verdict(ALL, audited=verb, rules=(0, 1, 4)), (has, lacks, beside, beside, beside)
    )
    assert flows.row(FLOW, row.verdict, (has, lacks, beside, beside, beside)) is row
    for counts in (make_counts(place, 3, 70, 2), make_counts(place, 5, 100, 2)):
        engine.counts = [counts]
        flows.collect_counts()
    rows = {one["policy"]: one for one in flows.to_json()}
    assert list(rows) == ["a/has", "a/lacks", "a/beside"]
    totals = {name: (one["operations"], one["bytes"], one["denied"]) for name, one in rows.items()}
    assert totals == {"a/has": (5, 100, 0), "a/lacks": (0, 0, 2), "a/beside": (0, 0, 0)}
    said = {one.audited: times for one, times in denials.take()[0].items()}
    assert said == {True: 5, False: 2}
    assert denials.total == 2
    engine.counts = [make_counts(place, 6, 101, 3)]
    flows.remove(row)
    flows.remove(row)
    assert len(flows) == 0
    assert [call[0] for call in engine.take("remove_flow")] == ["remove_flow"]
    assert next(iter(flows.to_json()))["operations"] == 6
    flows.set_rules((replace(has, index=1),))
    assert next(iter(flows.to_json()))["operations"] == 0


def denial(number: int, *, audited: bool = False) -> Denial:
    return Denial(
        "f0", f"10.0.0.{number}", "", "10.0.1.1", "b/q", "Send", ("a/p",), ("why",), audited
    )


def test_so_many_kinds_of_denials_are_kept_and_of_the_others_how_many() -> None:
    assert MAX_KINDS == 1024
    denials = Denials()
    for number in range(MAX_KINDS):
        denials.add(denial(number), 2)
    assert denials.pending == MAX_KINDS
    denials.add(denial(MAX_KINDS), 5)
    denials.add(denial(0), 3)
    denials.add(denial(1, audited=True), 4)
    taken, lost = denials.take()
    assert (len(taken), lost, taken[denial(0)], taken[denial(1)]) == (MAX_KINDS, 9, 5, 2)
    assert denials.total == 2 * MAX_KINDS + 5 + 3
    assert denials.take() == ({}, 0)
    denials.add(denial(MAX_KINDS))
    assert denials.take() == ({denial(MAX_KINDS): 1}, 0)
    assert str(denial(3)) == "Send of 10.0.0.3 to b/q (10.0.1.1) denied by a/p: why"
    assert str(replace(denial(3, audited=True), policies=())) == (
        "Send of 10.0.0.3 to b/q (10.0.1.1) would be denied: why"
    )
    assert set(denial(3).to_json()) == {field.name for field in fields(Denial)}


# Verdicts.


def test_policy_changes_of_a_queue_pair_and_of_an_address_handle() -> None:
    rows = tuple(Row(number, FLOW, "f0", Verdict(ALL)) for number in (11, 12))
    verdict = ConnectionVerdict(0x8001, Verb.SEND, Verb.READ, rows, 5, 6)
    names = ("queue_pair", "out", "in_", "generation", "sends", "receives", "revoke", "pkey")
    names += ("address_handle", "qos_class", "device_only")

    def change_of(one: ConnectionVerdict, *, is_path: bool = False) -> tuple[int, ...]:
        change = one.to_policy_change(9, 77, is_path=is_path)
        return tuple(getattr(change, name) for name in names)

    assert change_of(verdict) == (9, 11, 12, 77, 1, 8, 0, 0x8001, 0, 5, 6)
    assert change_of(verdict, is_path=True) == (0, 11, 12, 77, 1, 8, 0, 0x8001, 9, 5, 6)
    assert change_of(ConnectionVerdict()) == (9, 0, 0, 77, 0, 0, 1, 0, 0, 0, 0)
    assert (
        change_of(ConnectionVerdict(sends=Verb.SEND))[6]
        == change_of(ConnectionVerdict(receives=Verb.SEND))[6]
        == 0
    )


@pytest.mark.parametrize("egress", [None, True, False])
@pytest.mark.parametrize("ingress", [None, True, False])
def test_frames_go_each_way_that_no_policy_isolates(
    egress: bool | None, ingress: bool | None
) -> None:
    sides = [None if one is None else Isolation(enforced=one) for one in (ingress, egress)]
    found = evaluate_raw(Identity(1, *sides), 0x8001)
    assert found == ConnectionVerdict(0x8001, NONE if egress else ALL, NONE if ingress else ALL)
    assert evaluate_raw(None, 0x8001) == ConnectionVerdict()


def test_a_denial_names_what_is_known_of_both() -> None:
    peer = (bytes(range(16)), 0, 0, 0, 0)
    found = denial_of(Connection(ONE, peer), ConnectionVerdict())
    assert (found.function, found.source, found.source_pod) == ("f0", "198.18.0.1", "f0")
    assert (found.destination, found.verb) == ("0001:0203:0405:0607:0809:0a0b:0c0d:0e0f", "Connect")
    assert found.reasons == ("the tables do not contain one of the two addresses",)
    raw = denial_of(Connection(ONE, peer, is_raw=True), ConnectionVerdict())
    assert (raw.destination, raw.reasons) == (
        "",
        ("a pod that a policy isolates may not use raw frames",),
    )
    rows = tuple(Row(n, FLOW, "f1", Verdict(NONE, denied_by=(f"a/{n}",))) for n in (1, 2))
    assert denial_of(Connection(ONE, peer), ConnectionVerdict(rows=rows)).policies == ("a/1",)


@pytest.mark.parametrize(
    ("verbs", "flag"),
    [
        (Verb.WRITE, VerbsAccess.REMOTE_WRITE),
        (Verb.WRITE_IMM, VerbsAccess.REMOTE_WRITE),
        (Verb.READ, VerbsAccess.REMOTE_READ),
        (Verb.ATOMIC_CAS, VerbsAccess.REMOTE_ATOMIC),
        (Verb.ATOMIC_FAA, VerbsAccess.REMOTE_ATOMIC),
        (Verb.SEND, 0),
    ],
)
def test_memory_of_a_gpu_alone_is_a_flag_of_each_kind_of_access(verbs: Verb, flag: int) -> None:
    device = Memory(scope="Named", regions=("device",))
    assert memory_rules.device_only_access(Verdict(ALL, grants=((verbs, device),))) == flag
    beside = Verdict(ALL, grants=((verbs, device), (verbs, Memory())))
    assert memory_rules.device_only_access(beside) == 0


def tables(
    *rules: Rule, ingress: tuple[int, ...] = (), egress: tuple[int, ...] = (), enforced: bool = True
) -> NodeTables:
    sides = [Isolation(rules=of, enforced=enforced) if of else None for of in (ingress, egress)]
    people = (Identity(4), Identity(5, *sides))
    ends = (
        Endpoint("10.0.0.1", 5, "a/x"),
        Endpoint("10.0.0.2", 4, "a/y"),
        Endpoint("10.0.0.3", 9, "a/z"),
    )
    return NodeTables(1, "n", rules, people, ends)


def test_limits_are_the_least_of_both_directions_rules_that_are_enforced() -> None:
    rules = (
        rule(queue_pairs=7),
        rule(index=1, queue_pairs=5, region_bytes=900),
        rule(index=2, region_bytes=800),
        rule(index=3, queue_pairs=1, region_bytes=1),
    )
    limits_of = memory_rules.limits_of
    both = tables(*rules, ingress=(0, 2), egress=(1,))
    assert limits_of(both, "10.0.0.1") == Limits(queue_pairs=5, region_bytes=800)
    assert limits_of(tables(*rules, ingress=(0,)), "10.0.0.1") == Limits(queue_pairs=7)
    assert limits_of(tables(*rules, egress=(2,)), "10.0.0.1") == Limits(region_bytes=800)
    for address in ("10.0.0.2", "10.0.0.3", "10.0.0.4"):
        assert limits_of(both, address) == Limits()
    lax = tables(*rules, ingress=(0,), egress=(1,), enforced=False)
    assert limits_of(lax, "10.0.0.1") == Limits()


def test_named_regions_that_are_not_known_are_refused_by_five_names() -> None:
    names = tuple("abcdef")
    unknown = replace(rule(), memory=Memory(scope="Named", regions=("device", *names)))
    device = replace(rule(index=1), memory=Memory(scope="Named", regions=("device",)))
    (said,) = memory_rules.find_unenforced(tables(unknown, device))
    assert said.startswith("a/p egress[0].memory.regions a, b, c, d, e: ")


# Quotas of a party.


@pytest.fixture
def guard(engine: Any) -> Guard:
    enforcer = Enforcer(engine, Parties())
    party = Party("f0", "a/x", ("10.0.0.1",), address_of(0).gids)
    enforcer.parties.add(party)
    rules = (rule(queue_pairs=2, region_bytes=100),)
    enforcer.replace_tables(tables(*rules, ingress=(0,)))
    return Guard(enforcer, party)


def test_queue_pairs_and_bytes_up_to_the_limit_and_again_after_a_refusal(guard: Guard) -> None:
    for _ in range(2):
        guard.charge_qp()
    assert error(guard.charge_qp) == "EDQUOT"
    guard.release_qp()
    guard.charge_qp()
    assert guard.party.queue_pairs == 2
    guard.charge_bytes(99)
    assert error(lambda: guard.charge_bytes(2)) == "EDQUOT"
    guard.charge_bytes(1)
    assert error(lambda: guard.charge_bytes(1)) == "EDQUOT"
    guard.release_bytes(40)
    assert guard.party.region_bytes == 60
    guard.charge_adopted(queue_pairs=3, region_bytes=500)  # even beyond the limits
    assert (guard.party.queue_pairs, guard.party.region_bytes) == (5, 560)


def test_steers_and_members_of_a_group_are_bounded_for_a_party(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(hca_frames.HCA_MAX_STEERS):
        guard.charge_steering_rule()
    assert error(guard.charge_steering_rule) == "ENOMEM"
    guard.release_steering_rule()
    guard.charge_steering_rule()
    group, other = bytes([0xFF, *range(15)]), bytes([0xFF, *range(1, 16)])
    entered = [guard.as_group_member(group) for _ in range(hca.HCA_MAX_MCAST_ATTACH)]
    for one in entered:
        one.__enter__()
    assert error(guard.as_group_member(group).__enter__) == "ENOMEM"
    with guard.as_group_member(other):
        assert guard.party.members == Counter({group: hca.HCA_MAX_MCAST_ATTACH, other: 1})
    assert other not in guard.party.members
    for one in entered:
        one.__exit__(None, None, None)
    assert guard.party.members == Counter()


# Parties and numbers.


def test_a_party_is_known_by_each_of_its_addresses_and_towards_a_peer_by_that_of_its_family() -> (
    None
):
    parties = Parties()
    both = Party("f0", "a/x", ("10.0.0.1", "fd00::1"), address_of(0).gids, "uid")
    alone = Party("f1", "a/y", ("10.0.0.2",), address_of(1).gids)
    for one in (both, alone):
        parties.add(one)
    assert [parties.at(text) for text in ("10.0.0.1", "fd00::1", "10.0.0.2", "10.0.0.3")] == [
        both,
        both,
        alone,
        None,
    ]
    assert [both.address_towards(peer) for peer in ("10.9.9.9", "fd99::9")] == [
        "10.0.0.1",
        "fd00::1",
    ]
    assert alone.address_towards("fd99::9") == "10.0.0.2"
    # A function's own address, in addition to its pod's address in the tables.
    assert parties.address_in_tables("198.18.0.1", "fd99::9") == "fd00::1"
    assert parties.address_in_tables("198.18.0.2", "fd99::9") == "10.0.0.2"
    assert parties.address_in_tables("198.18.0.3", "10.9.9.9") == "198.18.0.3"
    assert parties.address_in_tables("10.0.0.1", "fd99::9") == "10.0.0.1"
    assert parties.address_of_gid(address_of(1).gids[1]) == "198.18.0.2"
    assert parties.address_of_gid(address_of(1).gids[0]) == "10.0.0.2"  # link-local: of this node
    assert parties.address_of_gid(address_of(7).gids[0]) is None
    parties.remove(alone)
    assert parties.all() == (both,)
    made = Party.of("f2", address_of(2))
    assert (made.owner, made.addresses, made.pod_uid) == ("f2", ("198.18.0.3",), "")
    named = Party.of("f2", address_of(2), ("10.0.0.4",), "a/z", "uid")
    assert (named.owner, named.addresses, named.pod_uid) == ("a/z", ("10.0.0.4",), "uid")


def test_numbers_are_drawn_from_their_whole_range_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    draws: list[int] = []
    answers = [0, 0, 0xFFFFFD, 0, 0xFE, 0, 0xFFFFFE, 0xFF]
    monkeypatch.setattr(
        numbers.secrets, "randbelow", lambda below: draws.append(below) or answers.pop(0)
    )
    made = Numbers()
    assert [made.new_qpn(), made.new_qpn()] == [2, 0xFFFFFF]
    assert draws == [0xFFFFFE] * 3
    draws.clear()
    assert [made.new_key(), made.new_key()] == [0x1FE, 0xFFFFFFFF]
    assert draws == [0xFFFFFF, 256, 0xFFFFFF, 0xFFFFFF, 256]
    with pytest.raises(ValueError, match="twice"):
        made.adopt_key(0x101)  # no two have the same upper 24 bits
    with pytest.raises(ValueError, match="twice"):
        made.adopt_qpn(2)
    made.free_key(0x1FE)
    made.adopt_key(0x101)
    made.free_qpn(2)
    made.adopt_qpn(2)
    made.adopt_pds(5)
    made.adopt_pds(3)
    assert (made.last_pd, made.new_pd(), made.last_pd) == (5, 6, 6)


@pytest.mark.parametrize(
    ("size", "pages", "power"),
    [(0, 0, 1), (1, 4096, 1), (2, 4096, 2), (3, 4096, 4), (4096, 4096, 4096), (4097, 8192, 8192)],
)
def test_sizes_are_rounded_up(size: int, pages: int, power: int) -> None:
    assert (checks.round_up_to_pages(size), checks.round_up_to_power_of_two(size)) == (pages, power)


def test_a_table_has_its_limit_and_a_range_its_ends() -> None:
    checks.check_room([1], 2)
    assert error(lambda: checks.check_room([1, 2], 2)) == "ENOMEM"
    for value in (3, 5):
        checks.check_range(value, 3, 5)
    for value in (2, 6):
        assert error(lambda value=value: checks.check_range(value, 3, 5)) == "EINVAL"
    assert checks.get({1: "x"}, 1) == "x"
    assert error(lambda: checks.get({1: "x"}, 2)) == "EINVAL"
