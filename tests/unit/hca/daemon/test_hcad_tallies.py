"""Cumulative counts by pairs of pods, and of data that stays on the node."""

from typing import Any

import pytest

from hca.binding.addresses import address_of
from hca.contract.hca_engine import HcaFlowCounts
from hca.daemon.policy.denials import Denial, Denials
from hca.daemon.policy.flows import Flows
from hca.daemon.policy.parties import Parties, Party
from hca.daemon.policy.tallies import MOST_POLICIES, DenialKind, PodPair, Tally
from rdma.tables import DEFAULT_PKEY, FULL, Flow, Verdict
from rdma.verbs import ALL, Verb
from support.rigs.recording_engine import Engine

A, B = address_of(0), address_of(1)


@pytest.fixture
def engine() -> Engine:
    return Engine()


def pod(number: int, function: str = "") -> Party:
    address = address_of(number)
    return Party.of(function or f"f{number}", address, (), f"ns/p{number}", f"{number}" * 32)


def test_the_kind_that_was_idle_longest_is_dropped_and_its_counts_are_not_lost() -> None:
    tally: Tally[str] = Tally(most=2)
    tally.add("a", 1, 10)
    tally.add("b", 2, 20)
    tally.add("a", 3, 30)
    tally.add("c", 5, 50)
    assert {kind: (one.operations, one.bytes) for kind, one in tally.counts.items()} == {
        "a": (4, 40),
        "c": (5, 50),
    }
    assert (tally.dropped.operations, tally.dropped.bytes) == (2, 20)
    tally.add("b", 1, 1)
    assert tally.counts["b"].operations == 1, "a counter that begins again"
    assert (tally.dropped.operations, tally.dropped.bytes) == (6, 60)


def test_denials_are_counted_by_pods_and_policies_even_after_they_were_taken() -> None:
    denials = Denials()
    for address in ("10.0.0.1", "10.0.0.2"):
        for audited in (False, True):
            denial = Denial("f", address, "a/p", "10.1.0.1", "b/q", "Read", ("b/x",), (), audited)
            denials.add(denial, 2)
    denials.take()
    denials.add(Denial("f", "10.0.0.1", "a/p", "10.1.0.1", "b/q", "Read", ("b/x",)), 3)
    assert {kind: one.operations for kind, one in denials.by_pods.counts.items()} == {
        DenialKind("a/p", "b/q", "Read", ("b/x",), audited=True): 4,
        DenialKind("a/p", "b/q", "Read", ("b/x",), audited=False): 7,
    }


def test_of_many_policies_the_first_are_kept() -> None:
    denials = Denials()
    for number in range(2):  # kinds that differ in the fifth policy are one
        policies = (*(f"ns/{one}" for one in range(MOST_POLICIES)), f"ns/last{number}")
        denials.add(Denial("f", "10.0.0.1", "a/p", "10.1.0.1", "b/q", "Read", policies))
    ((kind, count),) = denials.by_pods.counts.items()
    assert (kind.policies, count.operations) == (("ns/0", "ns/1", "ns/2", "ns/3"), 2)


@pytest.mark.parametrize(
    ("verb", "moved"),
    [(Verb.WRITE, (0, 70)), (Verb.SEND, (0, 70)), (Verb.READ, (70, 0)), (Verb.ATOMIC_CAS, (70, 0))],
)
def test_data_between_functions_of_a_node_is_counted_at_both(
    engine: Any, verb: Verb, moved: tuple[int, int]
) -> None:
    parties = Parties()
    one, other = pod(0), pod(1)
    parties.add(one)
    parties.add(other)
    flows = Flows(engine, Denials(), lambda flow: "f0", parties)
    verdict = Verdict(ALL, source_pod="ns/p0", destination_pod="ns/p1")
    flows.row(Flow(str(A.ip), str(B.ip), DEFAULT_PKEY | FULL), verdict, ())
    counts = HcaFlowCounts()
    place = list(Verb).index(verb)
    counts.operations[place], counts.bytes[place] = 3, 70
    engine.counts = [counts]
    flows.collect_counts()
    flows.collect_counts()
    received, sent = moved
    assert (one.local_received_bytes, one.local_sent_bytes) == (received, sent)
    assert (other.local_received_bytes, other.local_sent_bytes) == (sent, received)
    ((pair, count),) = flows.by_pods.counts.items()
    assert (pair.source, pair.destination) == ("ns/p0", "ns/p1")
    assert isinstance(pair, PodPair)
    assert (count.operations, count.bytes) == (3, 70)


def test_data_to_another_node_is_not_counted_as_local(engine: Any) -> None:
    parties = Parties()
    one = pod(0)
    parties.add(one)
    flows = Flows(engine, Denials(), lambda flow: "f0", parties)
    flows.row(Flow(str(A.ip), str(B.ip), DEFAULT_PKEY | FULL), Verdict(ALL), ())
    counts = HcaFlowCounts()
    counts.operations[0], counts.bytes[0] = 1, 9
    engine.counts = [counts]
    flows.collect_counts()
    assert one.local_sent_bytes == 0


def test_an_address_is_its_first_function_s_until_that_one_is_released() -> None:
    parties, address = Parties(), str(A.ip)
    first, second = pod(0, "f"), pod(0, "g")
    parties.add(first)
    parties.add(second)
    assert parties.at(address) is first
    parties.remove(first)
    assert parties.at(address) is second
    parties.remove(second)
    assert parties.at(address) is None
