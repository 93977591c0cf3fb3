"""Rate limits, QoS classes, sources and groups, by the resulting calls of the engine.

Each is tested with two that differ in one member, at each limit and one beyond, and after a
refusal.
"""

import errno
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from hca.binding.addresses import address_of
from hca.contract.hca_engine import HcaPendingSource, HcaQosClass
from hca.daemon.policy.group_pairs import GroupPairs
from hca.daemon.policy.parties import Parties, Party
from hca.daemon.policy.qos import EngineClasses, find_unenforced
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


# Rate limits.


@pytest.mark.parametrize(
    ("limits", "expected"),
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
    engine: Any, limits: dict[str, int], expected: tuple[int, ...] | None
) -> None:
    rates = Rates(engine)
    rates.apply_limits(1, FLOW, Verdict(ALL, rules=(0,)), (rule(**limits),))
    assert [call[1:] for call in engine.take("add_limit")] == (
        [] if expected is None else [expected]
    )
    assert len(rates) == (expected is not None)


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
def test_flows_of_one_rule_and_one_pod_share_a_limit_for_all_peers(
    engine: Any, rules: tuple[Rule, Rule], flow: Flow, shared: bool
) -> None:
    rates = Rates(engine)
    rates.apply_limits(1, FLOW, Verdict(ALL, rules=(0,)), rules)
    rates.apply_limits(2, flow, Verdict(ALL, rules=(1,)), rules)
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
        rates.apply_limits(row, flow, Verdict(ALL, rules=(0,)), ingress)
    assert len(rates) == 2


def test_a_flow_is_held_by_all_that_match_and_let_go_of_by_those_that_no_longer_do(
    engine: Any,
) -> None:
    rates = Rates(engine)
    rules = (rule(index=0, **RATE), rule(index=1, **RATE), rule(index=2, **RATE))
    quick = QosClass("quick", max_rate=500)
    rates.apply_limits(1, FLOW, Verdict(ALL, rules=(0, 1), qos_class=quick), rules)
    first = engine.take()
    assert [call[1] for call in first if call[0] == "add_limit"].count(500) == 1
    assert [sorted(call[2]) for call in first if call[0] == "limit_flow"] == [[100, 101, 102]]
    rates.apply_limits(1, FLOW, Verdict(ALL, rules=(0, 1), qos_class=quick), rules)
    assert engine.take() == []  # unchanged
    rates.apply_limits(1, FLOW, Verdict(ALL, rules=(1, 2), qos_class=QosClass("slow")), rules)
    names = [call[0] for call in engine.take()]
    assert names == ["add_limit", "limit_flow", "remove_limit", "remove_limit"]
    assert len(rates) == 2
    rates.apply_limits(1, FLOW, Verdict(ALL), rules)
    assert [call for call in engine.take() if call[0] == "limit_flow"] == [("limit_flow", 1, [])]
    assert len(rates) == 0


# QoS classes.


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
    known.replace_classes((a, b))
    assert classes(engine) == [(6, 5, 3, 4, 192), (0, 0, 1, 8, 28)]
    known.replace_classes((a, b))
    assert engine.take() == []
    known.replace_classes((c, b))
    assert [known.place_of(one) for one in (a, b, c, None)] == [0, 2, 1, 0]
    assert classes(engine) == [(0, 0, 1, 0, 192), (0, 0, 1, 8, 28)]
    known.replace_classes((b,))
    assert classes(engine) == [(0, 0, 1, 0, 0), (0, 0, 1, 8, 28)]
    known.replace_classes(())
    assert classes(engine) == []


@pytest.mark.parametrize(("number", "most"), [(62, 62), (63, 63), (64, 63)])
def test_a_node_has_63_classes_and_names_those_beyond(engine: Any, number: int, most: int) -> None:
    many = [QosClass(f"c{place}", sl=place == 5) for place in range(number)]
    known = EngineClasses(engine)
    known.replace_classes(many)
    assert len(classes(engine)) == most
    assert [known.place_of(one) for one in many] == [*range(1, most + 1), *[0] * (number - most)]
    said = list(find_unenforced(many))
    beyond = ["qosClass c63: a node has 63 classes at most"] if number > 63 else []
    assert [line for line in said if "at most" in line] == beyond
    assert [line.partition(":")[0] for line in said if ".sl" in line] == ["qosClass c5.sl"]
    assert len(HcaQosClass._fields_) == 6


# Senders of datagrams over a wire.


class RecordingEnforcer:
    """The part of an enforcer that sources use."""

    def __init__(self, *parties: Party) -> None:
        self.parties = Parties()
        for party in parties:
            self.parties.add(party)
        self.calls: list[tuple[Any, ...]] = []

    def authorize_source(self, *arguments: Any) -> None:
        self.calls.append(("authorize", *arguments))

    def forget(self, *arguments: Any) -> None:
        self.calls.append(("forget", *arguments))


def pending_source(wire: int, own: bytes, source: int) -> HcaPendingSource:
    made = HcaPendingSource(wire)
    made.own[:] = own
    made.source[:] = source.to_bytes(16)
    return made


ONE, TWO = (Party.of(f"f{place}", address_of(place)) for place in range(2))


@pytest.fixture
def sources(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> tuple[Sources, RecordingEnforcer, list[Any]]:
    watched: list[Any] = []

    class Loop:
        def add_reader(self, descriptor: Any, call: Any) -> None:
            watched.append(call)

        def remove_reader(self, descriptor: Any) -> None:
            watched.pop()

    monkeypatch.setattr("hca.daemon.policy.sources.asyncio.get_running_loop", Loop)
    enforcer = RecordingEnforcer(ONE, TWO)
    return Sources(engine, enforcer), enforcer, watched  # type: ignore[arg-type]


def test_a_source_is_evaluated_once_for_the_party_with_the_address(
    engine: Any, sources: Any
) -> None:
    known, enforcer, _ = sources
    wire, other = known.add_wire(None), known.add_wire(None)
    engine.take()
    engine.waiting = [
        pending_source(wire, TWO.gids[0], 7),
        pending_source(wire, ONE.gids[1], 8),
        pending_source(other, ONE.gids[1], 7),
    ]
    known.evaluate_pending()
    made = engine.take("add_source", "process_source", "drop_source")
    assert [call[0] for call in made] == ["add_source", "process_source"] * 3
    assert [call[1:] for call in made[::2]] == [
        (wire, (7).to_bytes(16)),
        (wire, (8).to_bytes(16)),
        (other, (7).to_bytes(16)),
    ]
    assert [call[1] for call in enforcer.calls] == [TWO, ONE, ONE]
    assert [call[2] for call in enforcer.calls] == [call[1] for call in made[1::2]]
    assert (known.count_sources(wire), known.count_sources(other)) == (2, 1)
    # The same for a GID of no local party, and for a wire that does not exist.
    engine.waiting = [
        pending_source(wire, TWO.gids[0], 7),
        pending_source(wire, address_of(9).gids[1], 6),
    ]
    known.evaluate_pending()
    assert engine.take("add_source", "drop_source") == [
        ("drop_source", wire, (7).to_bytes(16)),
        ("drop_source", wire, (6).to_bytes(16)),
    ]
    assert known.count_sources(wire) == 2


@pytest.mark.parametrize(
    ("senders", "forgotten"), [(MAX_SOURCES, 0), (MAX_SOURCES + 1, 1), (MAX_SOURCES + 2, 2)]
)
def test_of_more_sources_than_a_wire_remembers_the_oldest_is_forgotten(
    engine: Any, sources: Any, senders: int, forgotten: int
) -> None:
    assert MAX_SOURCES == 1024
    known, enforcer, _ = sources
    wire = known.add_wire(None)
    engine.take()
    engine.waiting = [pending_source(wire, ONE.gids[1], number) for number in range(senders)]
    known.evaluate_pending()
    made = [call[2] for call in enforcer.calls if call[0] == "authorize"]
    gone = [call[1] for call in enforcer.calls if call[0] == "forget"]
    assert gone == made[:forgotten]
    assert [call[1] for call in engine.take("remove_source")] == gone
    assert known.count_sources(wire) == senders - forgotten


def test_a_wire_that_goes_takes_its_own_sources_and_the_last_the_watch(
    engine: Any, sources: Any
) -> None:
    known, enforcer, watched = sources
    first, second = known.add_wire(None), known.add_wire(None)
    assert watched == [known.evaluate_pending]
    engine.waiting = [pending_source(first, ONE.gids[1], 1), pending_source(second, ONE.gids[1], 2)]
    known.evaluate_pending()
    made = [call[2] for call in enforcer.calls]
    enforcer.calls.clear()
    engine.take()
    known.remove_wire(first)
    assert enforcer.calls == [("forget", made[0])]
    assert engine.take() == [("remove_source", made[0]), ("remove_wire", first)]
    assert (known.wires, watched) == ((second,), [known.evaluate_pending])
    known.close()
    assert [call[1] for call in engine.take("remove_source", "remove_wire")] == [made[1], second]
    assert (known.wires, watched) == ((), [])
    engine.refuses = "add_wire"
    assert error(lambda: known.add_wire(None)) == "ENOMEM"
    assert (known.wires, watched) == ((), [])


# Pairs of senders and members in groups.


def test_each_member_has_a_pair_with_each_sender_while_both_exist(engine: Any) -> None:
    three = Party("f3", "f3", (), (bytes(16), bytes(16)))  # has no address yet
    evaluated: list[Any] = []
    forgotten: list[Any] = []
    group_pairs = GroupPairs(engine, lambda *given: evaluated.append(given), forgotten.append)
    for party in (ONE, ONE, TWO, three):
        group_pairs.add_member(party)
    assert engine.take() == []
    group_pairs.add_sender(TWO)
    group_pairs.add_sender(TWO)
    pairs = engine.take("add_pair")
    assert [call[1:] for call in pairs] == [(ONE.gids[1], TWO.gids[1]), (TWO.gids[1], TWO.gids[1])]
    assert [(one[0], one[2]) for one in evaluated] == [(ONE, TWO.gids[1]), (TWO, TWO.gids[1])]
    group_pairs.remove_member(ONE)
    group_pairs.remove_sender(TWO)
    assert (engine.take(), forgotten) == ([], [])
    group_pairs.remove_member(ONE)
    assert [call[0] for call in engine.take()] == ["remove_pair"]
    assert forgotten == [evaluated[0][1]]
    group_pairs.add_member(ONE)
    assert len(engine.take("add_pair")) == 1
    group_pairs.remove_sender(TWO)
    assert len(engine.take("remove_pair")) == 2
    assert sorted(forgotten[1:]) == sorted(one[1] for one in evaluated[1:])


@pytest.mark.parametrize("call", ["add_sender", "add_member"])
def test_a_failed_evaluation_leaves_no_pair_and_no_count(engine: Any, call: str) -> None:
    calls = count()

    def evaluate(*given: Any) -> None:
        if next(calls) == 1:
            raise OSError(errno.ENOMEM, "no more")

    group_pairs = GroupPairs(engine, evaluate, lambda made: None)
    before = group_pairs.add_member if call == "add_sender" else group_pairs.add_sender
    for party in (ONE, TWO):
        before(party)
    last = getattr(group_pairs, call)
    assert error(lambda: last(ONE)) == "ENOMEM"
    made = [one[0] for one in engine.take()]
    assert made == ["add_pair", "add_pair", "remove_pair", "remove_pair"]
    last(ONE)  # nothing is left for the next call
    assert [one[0] for one in engine.take()] == ["add_pair"] * 2
