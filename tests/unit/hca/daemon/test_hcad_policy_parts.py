"""Ceilings, classes, sources and groups: what the engine is asked for, of two that differ in one
member, at each limit and one beyond it, and after a refusal."""

import errno
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from hca.binding.addresses import address_of
from hca.contract.hca_engine import HcaAsked, HcaQosClass
from hca.daemon.policy.audience import Audience
from hca.daemon.policy.parties import Parties, Party
from hca.daemon.policy.qos import EngineClasses, refused
from hca.daemon.policy.rates import Rates
from hca.daemon.policy.sources import MAX_SOURCES, Sources
from rdma.tables import (
    Direction,
    Flow,
    QosClass,
    Rule,
    Verdict,
)
from rdma.verbs import ALL
from support.oracles.refusals import error
from support.rigs.recording_engine import Engine
from support.worlds.flow_rules import FLOW, rule


@pytest.fixture
def engine() -> Any:
    return Engine()


# Ceilings.


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        ({"bytes_per_second": 1000}, (1000, 65536, 0, 1)),
        ({"bytes_per_second": 6553600}, (6553600, 65536, 0, 1)),
        ({"bytes_per_second": 6553700}, (6553700, 65537, 0, 1)),
        ({"bytes_per_second": 1000, "burst_bytes": 7}, (1000, 7, 0, 1)),
        ({"operations_per_second": 99}, (0, 65536, 99, 1)),
        ({"operations_per_second": 250}, (0, 65536, 250, 2)),
        ({"bytes_per_second": 5, "operations_per_second": 300}, (5, 65536, 300, 3)),
        ({"burst_bytes": 9, "queue_pairs": 8}, None),
    ],
)
def test_a_ceiling_has_its_rate_and_a_burst_of_ten_milliseconds(
    engine: Any, limits: dict[str, int], asked: tuple[int, ...] | None
) -> None:
    rates = Rates(engine)
    rates.hold(1, FLOW, Verdict(ALL, rules=(0,)), (rule(**limits),))
    assert [call[1:] for call in engine.take("add_limit")] == ([] if asked is None else [asked])
    assert len(rates) == (asked is not None)


RATE = {"bytes_per_second": 1000}


@pytest.mark.parametrize(
    ("rules", "flow", "shared"),
    [
        ((rule(**RATE), rule(**RATE)), FLOW, True),
        ((rule(**RATE), rule("a/q", **RATE)), FLOW, False),
        ((rule(**RATE), rule(index=1, **RATE)), FLOW, False),
        ((rule(**RATE), rule(bytes_per_second=1001)), FLOW, False),
        ((rule(**RATE), rule(burst_bytes=1, **RATE)), FLOW, False),
        ((rule(**RATE), rule(direction=Direction.INGRESS, **RATE)), FLOW, False),
        ((rule(**RATE), rule(**RATE)), replace(FLOW, destination="10.0.0.3"), True),
        ((rule(**RATE), rule(**RATE)), replace(FLOW, source="10.0.0.3"), False),
        ((rule(**RATE), rule(**RATE)), replace(FLOW, service=7), True),
    ],
)
def test_flows_share_a_ceiling_of_one_rule_and_one_pod_whoever_the_peer_is(
    engine: Any, rules: tuple[Rule, Rule], flow: Flow, shared: bool
) -> None:
    rates = Rates(engine)
    rates.hold(1, FLOW, Verdict(ALL, rules=(0,)), rules)
    rates.hold(2, flow, Verdict(ALL, rules=(1,)), rules)
    assert len(rates) == (1 if shared else 2)
    limits = [call[2] for call in engine.take("limit_flow")]
    assert (limits[0] == limits[1]) is shared
    rates.forget(1)
    assert len(engine.take("remove_limit")) == (0 if shared else 1)
    rates.forget(2)
    assert len(engine.take("remove_limit")) == 1
    assert len(rates) == 0


def test_a_ceiling_of_ingress_is_the_destination_s(engine: Any) -> None:
    rates, ingress = Rates(engine), (rule(direction=Direction.INGRESS, **RATE),)
    for row, flow in (
        (1, FLOW),
        (2, replace(FLOW, source="10.0.0.9")),
        (3, replace(FLOW, destination="10.0.0.9")),
    ):
        rates.hold(row, flow, Verdict(ALL, rules=(0,)), ingress)
    assert len(rates) == 2


def test_a_flow_is_held_by_all_that_match_and_let_go_of_by_those_that_no_longer_do(
    engine: Any,
) -> None:
    rates = Rates(engine)
    rules = (rule(index=0, **RATE), rule(index=1, **RATE), rule(index=2, **RATE))
    quick = QosClass("quick", max_rate=500)
    rates.hold(1, FLOW, Verdict(ALL, rules=(0, 1), qos_class=quick), rules)
    first = engine.take()
    assert [call[1] for call in first if call[0] == "add_limit"].count(500) == 1
    assert [sorted(call[2]) for call in first if call[0] == "limit_flow"] == [[100, 101, 102]]
    rates.hold(1, FLOW, Verdict(ALL, rules=(0, 1), qos_class=quick), rules)
    assert engine.take() == []  # as it was
    rates.hold(1, FLOW, Verdict(ALL, rules=(1, 2), qos_class=QosClass("slow")), rules)
    names = [call[0] for call in engine.take()]
    assert names == ["add_limit", "limit_flow", "remove_limit", "remove_limit"]
    assert len(rates) == 2
    rates.hold(1, FLOW, Verdict(ALL), rules)
    assert [call for call in engine.take() if call[0] == "limit_flow"] == [("limit_flow", 1, [])]
    assert len(rates) == 0


# Classes.


def classes(engine: Any) -> list[tuple[int, ...]]:
    (call,) = engine.take("set_qos_classes")
    names = ("bytes_at_most", "bytes_at_least", "weight", "traffic_class", "cnp_traffic_class")
    return [tuple(getattr(one, name) for name in names) for one in call[1]]


def test_a_class_keeps_its_place_and_the_first_that_is_free_goes_to_the_next(engine: Any) -> None:
    known = EngineClasses(engine)
    a, b, c = (
        QosClass("a", 1, weight=3, min_rate=5, max_rate=6),
        QosClass("b", 2, cnp_dscp=7),
        QosClass("c"),
    )
    known.follow((a, b))
    assert classes(engine) == [(6, 5, 3, 4, 192), (0, 0, 1, 8, 28)]
    known.follow((a, b))
    assert engine.take() == []
    known.follow((c, b))
    assert [known.place_of(one) for one in (a, b, c, None)] == [0, 2, 1, 0]
    assert classes(engine) == [(0, 0, 1, 0, 192), (0, 0, 1, 8, 28)]
    known.follow((b,))
    assert classes(engine) == [(0, 0, 1, 0, 0), (0, 0, 1, 8, 28)]
    known.follow(())
    assert classes(engine) == []


@pytest.mark.parametrize(("number", "most"), [(62, 62), (63, 63), (64, 63)])
def test_a_node_has_63_classes_and_names_those_beyond(engine: Any, number: int, most: int) -> None:
    many = [QosClass(f"c{place}", sl=place == 5) for place in range(number)]
    known = EngineClasses(engine)
    known.follow(many)
    assert len(classes(engine)) == most
    assert [known.place_of(one) for one in many] == [*range(1, most + 1), *[0] * (number - most)]
    said = list(refused(many))
    beyond = ["qosClass c63: a node has 63 classes at most"] if number > 63 else []
    assert [line for line in said if "at most" in line] == beyond
    assert [line.partition(":")[0] for line in said if ".sl" in line] == ["qosClass c5.sl"]
    assert len(HcaQosClass._fields_) == 6


# Who sends datagrams over a wire.


class Judges:
    """An enforcer, as far as sources need one."""

    def __init__(self, *parties: Party) -> None:
        self.parties = Parties()
        for party in parties:
            self.parties.enter(party)
        self.calls: list[tuple[Any, ...]] = []

    def connect_source(self, *arguments: Any) -> None:
        self.calls.append(("connect", *arguments))

    def forget(self, *arguments: Any) -> None:
        self.calls.append(("forget", *arguments))


def asked(wire: int, own: bytes, source: int) -> HcaAsked:
    made = HcaAsked(wire)
    made.own[:] = own
    made.source[:] = source.to_bytes(16)
    return made


ONE, TWO = (Party.of(f"f{place}", address_of(place)) for place in range(2))


@pytest.fixture
def sources(engine: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Sources, Judges, list[Any]]:
    watched: list[Any] = []

    class Loop:
        def add_reader(self, descriptor: Any, call: Any) -> None:
            watched.append(call)

        def remove_reader(self, descriptor: Any) -> None:
            watched.pop()

    monkeypatch.setattr("hca.daemon.policy.sources.asyncio.get_running_loop", Loop)
    judges = Judges(ONE, TWO)
    return Sources(engine, judges), judges, watched  # type: ignore[arg-type]


def test_a_source_is_judged_once_for_the_party_that_has_the_address(
    engine: Any, sources: Any
) -> None:
    known, judges, _ = sources
    wire, other = known.add_wire(None), known.add_wire(None)
    engine.take()
    engine.waiting = [
        asked(wire, TWO.gids[0], 7),
        asked(wire, ONE.gids[1], 8),
        asked(other, ONE.gids[1], 7),
    ]
    known.answer()
    made = engine.take("add_source", "take_source", "drop_source")
    assert [call[0] for call in made] == ["add_source", "take_source"] * 3
    assert [call[1:] for call in made[::2]] == [
        (wire, (7).to_bytes(16)),
        (wire, (8).to_bytes(16)),
        (other, (7).to_bytes(16)),
    ]
    assert [call[1] for call in judges.calls] == [TWO, ONE, ONE]
    assert [call[2] for call in judges.calls] == [call[1] for call in made[1::2]]
    assert (known.known(wire), known.known(other)) == (2, 1)
    # Again, of nobody here, and of a wire that is not there.
    engine.waiting = [asked(wire, TWO.gids[0], 7), asked(wire, address_of(9).gids[1], 6)]
    known.answer()
    assert engine.take("add_source", "drop_source") == [
        ("drop_source", wire, (7).to_bytes(16)),
        ("drop_source", wire, (6).to_bytes(16)),
    ]
    assert known.known(wire) == 2


@pytest.mark.parametrize(
    ("senders", "forgotten"), [(MAX_SOURCES, 0), (MAX_SOURCES + 1, 1), (MAX_SOURCES + 2, 2)]
)
def test_of_more_sources_than_a_wire_remembers_the_oldest_is_forgotten(
    engine: Any, sources: Any, senders: int, forgotten: int
) -> None:
    assert MAX_SOURCES == 1024
    known, judges, _ = sources
    wire = known.add_wire(None)
    engine.take()
    engine.waiting = [asked(wire, ONE.gids[1], number) for number in range(senders)]
    known.answer()
    made = [call[2] for call in judges.calls if call[0] == "connect"]
    gone = [call[1] for call in judges.calls if call[0] == "forget"]
    assert gone == made[:forgotten]
    assert [call[1] for call in engine.take("remove_source")] == gone
    assert known.known(wire) == senders - forgotten


def test_a_wire_that_goes_takes_its_own_sources_and_the_last_the_watch(
    engine: Any, sources: Any
) -> None:
    known, judges, watched = sources
    first, second = known.add_wire(None), known.add_wire(None)
    assert watched == [known.answer]
    engine.waiting = [asked(first, ONE.gids[1], 1), asked(second, ONE.gids[1], 2)]
    known.answer()
    made = [call[2] for call in judges.calls]
    judges.calls.clear()
    engine.take()
    known.remove_wire(first)
    assert judges.calls == [("forget", made[0])]
    assert engine.take() == [("remove_source", made[0]), ("remove_wire", first)]
    assert (known.wires, watched) == ((second,), [known.answer])
    known.close()
    assert [call[1] for call in engine.take("remove_source", "remove_wire")] == [made[1], second]
    assert (known.wires, watched) == ((), [])
    engine.refuses = "add_wire"
    assert error(lambda: known.add_wire(None)) == "ENOMEM"
    assert (known.wires, watched) == ((), [])


# Who hears whom in groups.


def test_each_member_hears_each_sender_while_both_are_there(engine: Any) -> None:
    three = Party("f3", "f3", (), (bytes(16), bytes(16)))  # has no address yet
    judged: list[Any] = []
    forgotten: list[Any] = []
    audience = Audience(engine, lambda *given: judged.append(given), forgotten.append)
    for party in (ONE, ONE, TWO, three):
        audience.enter(party)
    assert engine.take() == []
    audience.speak(TWO)
    audience.speak(TWO)
    pairs = engine.take("add_pair")
    assert [call[1:] for call in pairs] == [(ONE.gids[1], TWO.gids[1]), (TWO.gids[1], TWO.gids[1])]
    assert [(one[0], one[2]) for one in judged] == [(ONE, TWO.gids[1]), (TWO, TWO.gids[1])]
    audience.leave(ONE)
    audience.hush(TWO)
    assert (engine.take(), forgotten) == ([], [])
    audience.leave(ONE)
    assert [call[0] for call in engine.take()] == ["remove_pair"]
    assert forgotten == [judged[0][1]]
    audience.enter(ONE)
    assert len(engine.take("add_pair")) == 1
    audience.hush(TWO)
    assert len(engine.take("remove_pair")) == 2
    assert sorted(forgotten[1:]) == sorted(one[1] for one in judged[1:])


@pytest.mark.parametrize("call", ["speak", "enter"])
def test_what_cannot_be_judged_leaves_no_pair_and_counts_nobody(engine: Any, call: str) -> None:
    calls = count()

    def judge(*given: Any) -> None:
        if next(calls) == 1:
            raise OSError(errno.ENOMEM, "no more")

    audience = Audience(engine, judge, lambda made: None)
    before = audience.enter if call == "speak" else audience.speak
    for party in (ONE, TWO):
        before(party)
    last = getattr(audience, call)
    assert error(lambda: last(ONE)) == "ENOMEM"
    made = [one[0] for one in engine.take()]
    assert made == ["add_pair", "add_pair", "remove_pair", "remove_pair"]
    last(ONE)  # the next call finds nothing of it
    assert [one[0] for one in engine.take()] == ["add_pair"] * 2
