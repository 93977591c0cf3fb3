"""Pacing of several queue pairs: classes, maximum rates and ports, packet by packet."""

import pytest

from hca.contract.hca_engine import HcaQosClass
from support.rigs.hca_parts import Parts

LEAD = 65536
"""How far a class of weight 1 may be ahead of another ready class."""

SECOND = 1_000_000_000
CNP = 0x81
WRITE_ONLY = 10
WAITS_FOR_WIRE, WAITS_FOR_PEER = 4, 1


@pytest.fixture
def parts(compiled_parts) -> Parts:
    compiled_parts.begin()
    return compiled_parts


class Sender:
    """A queue pair that always has data to send."""

    def __init__(self, parts: Parts, number: int, qos_class: int = 0, wire: int = 0) -> None:
        self.parts, self.number, self.wire = parts, number, wire
        self.qp = parts.qp(number, wire)
        parts.library.parts_class(wire, number, qos_class)

    def is_held(self) -> bool:
        """Begin a turn; return whether the next packet must wait."""
        self.parts.library.wire_pace_begin(self.qp)
        return bool(self.parts.library.wire_pace_must_wait(self.parts.engine, self.qp))

    def spend(self, size: int) -> None:
        self.parts.library.parts_spend(self.wire, self.number, size)

    def end(self, more: bool) -> bool:
        return bool(self.parts.library.wire_pace_end(self.parts.engine, self.qp, more))

    @property
    def wake_ns(self) -> int:
        return int(self.parts.library.parts_wake_ns(self.wire, self.number))

    def stop(self) -> None:
        self.parts.library.hca_wire_stop(self.parts.engine, self.qp)


@pytest.mark.parametrize("weight", [1, 2, 5])
@pytest.mark.parametrize("over", [0, 1])
def test_a_class_may_be_ahead_by_its_weight_and_no_byte_more(parts, weight, over):
    parts.set_classes(HcaQosClass(weight=weight), HcaQosClass(weight=1))
    one, other = Sender(parts, 0, 1), Sender(parts, 1, 2)
    assert not other.is_held()
    assert not one.is_held()
    one.spend(weight * LEAD)
    assert not one.is_held()
    one.spend(over)
    assert one.is_held() == (over == 1)
    assert one.wake_ns == 0, "it is not known how long"
    assert one.end(more=False) == (over == 1), "and so it needs another turn"
    assert not other.is_held(), "it is the other's turn"


def test_a_single_class_does_not_wait_and_a_later_one_has_no_credit(parts):
    parts.set_classes(HcaQosClass(weight=1), HcaQosClass(weight=1), HcaQosClass(weight=1))
    one, other, third = (Sender(parts, number, number + 1) for number in range(3))
    for _ in range(8):
        assert not one.is_held()
        one.spend(LEAD)
    assert not other.is_held()
    other.spend(LEAD)
    assert not other.is_held()
    other.spend(1)
    assert other.is_held(), "it begins where the other is"
    assert not third.is_held()
    third.spend(LEAD + 1)
    assert third.is_held(), "it begins with the one that got least"
    assert not one.is_held()


def test_an_idle_class_keeps_its_debt(parts):
    parts.set_classes(HcaQosClass(weight=1), HcaQosClass(weight=1))
    one, other = Sender(parts, 0, 1), Sender(parts, 1, 2)
    assert not other.is_held()
    assert not one.is_held()
    one.spend(2 * LEAD)
    one.end(more=False)
    assert not other.is_held(), "no other could send"
    assert one.is_held()
    other.spend(LEAD)
    assert not one.is_held()


def test_queue_pairs_of_one_class_do_not_wait_for_each_other(parts):
    parts.set_classes(HcaQosClass(weight=1))
    first, second, without = Sender(parts, 0, 1), Sender(parts, 1, 1), Sender(parts, 2)
    for sender in (first, second):
        assert not sender.is_held()
        sender.spend(10 * LEAD)
        assert not sender.is_held()
    assert parts.library.parts_ready() == 2
    assert not without.is_held()
    assert not first.is_held(), "one without a class begins beside them"
    first.spend(LEAD + 1)
    assert first.is_held()
    assert second.is_held()
    without.stop()
    assert not second.is_held()


def test_a_queue_pair_that_could_send_is_counted_once_and_in_its_class(parts):
    parts.set_classes(HcaQosClass(weight=1), HcaQosClass(weight=1))
    ready, ready_of = parts.library.parts_ready, parts.library.parts_ready_of
    one, other = Sender(parts, 0, 1), Sender(parts, 1, 1)
    seen = []
    for act in (
        *(one.is_held, one.is_held, other.is_held, lambda: one.end(more=True)),
        *(lambda: one.end(more=False), lambda: one.end(more=False), other.stop, other.stop),
    ):
        act()
        seen.append((ready(), ready_of(0), ready_of(1), ready_of(2)))
    assert seen == [(n, 0, n, 0) for n in (1, 1, 2, 2, 1, 1, 0, 0)]
    one.is_held()
    parts.library.parts_class(0, 0, 2)
    one.is_held()
    assert (ready(), ready_of(1), ready_of(2)) == (1, 0, 1)
    parts.library.parts_class(0, 0, 3)
    one.is_held()
    assert (ready(), ready_of(0), ready_of(2)) == (1, 1, 0), "there is no such class"
    parts.set_classes(HcaQosClass(weight=1))
    one.end(more=False)
    assert (ready(), ready_of(0)) == (0, 0), "it was counted in the classes before"


@pytest.mark.parametrize(("spent", "held"), [(0, True), (1, False)])
def test_a_class_below_its_minimum_goes_first(parts, spent, held):
    """When it has sent ``spent`` bytes beyond its minimum, it is like any other class."""
    parts.set_classes(HcaQosClass(weight=1), HcaQosClass(weight=1, bytes_at_least=1000))
    one, promised = Sender(parts, 0, 1), Sender(parts, 1, 2)
    assert not promised.is_held()
    promised.spend(spent)
    assert one.is_held() == held
    parts.set_clock(parts.now_ns + 1_000_000)
    assert one.is_held(), "a byte a millisecond"


def test_a_class_below_its_minimum_may_send_however_far_it_is_ahead(parts):
    parts.set_classes(
        HcaQosClass(weight=1, bytes_at_least=SECOND), HcaQosClass(weight=1, bytes_at_least=SECOND)
    )
    one, other = Sender(parts, 0, 1), Sender(parts, 1, 2)
    for sender in (one, other):
        assert not sender.is_held()
    parts.set_clock(parts.now_ns + 10 * SECOND)
    assert not one.is_held()
    burst = SECOND // 100
    one.spend(burst)
    assert not one.is_held()
    one.spend(1)
    assert one.is_held(), "the other has its promise"
    assert not other.is_held()
    other.spend(burst + 1)
    assert not other.is_held(), "as far as the other"


def test_a_class_s_excess_over_its_minimum_counts_for_a_burst_at_most(parts):
    parts.set_classes(HcaQosClass(weight=1), HcaQosClass(weight=1, bytes_at_least=SECOND))
    one, promised = Sender(parts, 0, 1), Sender(parts, 1, 2)
    assert not promised.is_held()
    promised.spend(SECOND)
    assert not one.is_held()
    parts.set_clock(parts.now_ns + SECOND // 100 - 1)
    assert not one.is_held()
    parts.set_clock(parts.now_ns + 1)
    assert one.is_held(), "a burst later it has less than its promise again"


@pytest.mark.parametrize("per_second", [1000, SECOND])
def test_a_class_is_held_by_its_ceiling_on_each_wire(parts, per_second):
    parts.set_classes(HcaQosClass(weight=1, bytes_at_most=per_second), HcaQosClass(weight=1))
    one, same, other = Sender(parts, 0, 1), Sender(parts, 1, 1), Sender(parts, 2, 2)
    elsewhere = Sender(parts, 0, 1, wire=1)
    assert not one.is_held()
    one.spend(500)
    wake = parts.now_ns + 500 * SECOND // per_second
    for sender in (one, same):
        assert sender.is_held()
        assert sender.wake_ns == pytest.approx(wake, abs=1)
    for sender in (other, elsewhere):
        assert not sender.is_held()
    held = one.wake_ns
    parts.set_clock(held - 2)
    assert one.is_held()
    parts.set_clock(held)
    assert not one.is_held()
    one.spend(10)
    assert one.is_held()
    parts.set_classes(HcaQosClass(weight=1, bytes_at_most=per_second))
    assert not one.is_held(), "new classes begin with nothing spent"


def test_a_port_s_rate_limits_all_that_it_sends(parts):
    parts.library.parts_port(0, 1000)
    one, other, elsewhere = Sender(parts, 0), Sender(parts, 1), Sender(parts, 0, wire=1)
    assert not one.is_held()
    one.spend(7)
    for sender in (one, other):
        assert sender.is_held()
        assert sender.wake_ns == pytest.approx(parts.now_ns + 7_000_000, abs=1)
    assert not elsewhere.is_held()
    assert not one.end(more=True), "it waits until then"
    assert parts.library.parts_waited_ns() == one.wake_ns


@pytest.mark.parametrize(
    ("why", "before", "waits"),
    [
        *((0, 0, 1), (WAITS_FOR_WIRE, -1, 0), (WAITS_FOR_WIRE, 0, 1), (WAITS_FOR_WIRE, 1, 1)),
        (WAITS_FOR_PEER, -1, 1),
    ],
)
def test_a_queue_pair_that_wakes_sooner_for_its_wire_keeps_its_time(parts, why, before, waits):
    parts.library.parts_port(0, 1000)
    one = Sender(parts, 0)
    one.spend(7)
    assert one.is_held()
    parts.library.parts_waiting(0, 0, why, one.wake_ns + before)
    assert not one.end(more=True)
    assert parts.library.parts_waits() == waits


@pytest.mark.parametrize("more", [True, False])
def test_an_unlimited_queue_pair_continues_if_it_has_more(parts, more):
    parts.set_classes(HcaQosClass(weight=1))
    one = Sender(parts, 0, 1)
    assert not one.is_held()
    assert one.end(more) == more
    assert parts.library.parts_ready() == more
    assert parts.library.parts_waits() == 0


def test_classes_wait_for_one_limited_by_the_port_but_not_by_its_own_maximum(parts):
    parts.library.parts_port(0, 1000)
    parts.set_classes(HcaQosClass(weight=1, bytes_at_most=10), HcaQosClass(weight=1))
    one, other = Sender(parts, 0, 1), Sender(parts, 1, 2)
    assert not one.is_held()
    one.spend(100)
    assert one.is_held()
    one.end(more=True)
    assert parts.library.parts_ready() == 0, "its own ceiling"
    assert other.is_held()
    other.end(more=False)
    assert parts.library.parts_ready_of(2) == 1, "the port: it could send"


def test_congestion_limits_a_queue_pair_before_its_class_does(parts):
    parts.set_classes(HcaQosClass(weight=1))
    one, other = Sender(parts, 0, 1), Sender(parts, 1, 1)
    congestion = parts.library.parts_congestion(0, 0)
    parts.library.wire_congestion_cut(congestion, parts.ns(parts.now_ns))
    one.spend(2500)
    assert congestion.contents.sent == 1
    assert one.is_held()
    assert one.wake_ns == parts.now_ns + 1001, "20 Gb/s"
    assert parts.library.parts_ready() == 0
    assert not other.is_held()
    for _ in range(300):
        other.spend(1)
    assert parts.library.parts_congestion(0, 1).contents.sent == 256, "no more are noted"


def test_the_time_of_a_turn_is_that_of_its_first_packet(parts):
    parts.library.parts_port(0, 1000)
    one = Sender(parts, 0)
    one.spend(1)
    assert one.is_held()
    parts.set_clock(parts.now_ns + 2_000_000)
    assert parts.library.wire_pace_must_wait(parts.engine, one.qp), "the turn goes on"
    assert not one.is_held(), "another begins"


@pytest.mark.parametrize(
    ("qos_class", "opcode", "tos"),
    [
        *((0, WRITE_ONLY, 0x6A), (0, CNP, 192), (1, WRITE_ONLY, 42), (1, CNP, 96)),
        *((2, WRITE_ONLY, 2), (2, CNP, 0), (3, WRITE_ONLY, 0x6A), (3, CNP, 192)),
    ],
)
def test_a_class_sets_what_its_packets_are_marked_with(parts, qos_class, opcode, tos):
    """The program's value does not matter. There are two classes, so the third number has none."""
    parts.set_classes(
        HcaQosClass(weight=1, traffic_class=40, cnp_traffic_class=96), HcaQosClass(weight=1)
    )
    one = Sender(parts, 0, qos_class)
    parts.library.parts_traffic_class(0, 0, 0x6B)
    assert parts.library.wire_tos(parts.engine, one.qp, opcode) == tos
    parts.set_classes()
    marked = 192 if opcode == CNP else 0x6A
    assert parts.library.wire_tos(parts.engine, one.qp, opcode) == marked


@pytest.mark.parametrize(("count", "error"), [(0, 0), (1, 0), (63, 0), (64, 22)])
def test_there_are_so_many_classes_and_no_more(parts, count, error):
    assert parts.set_classes(*(HcaQosClass(weight=1) for _ in range(count))) == error
    one = Sender(parts, 0, count)
    assert parts.library.wire_class_of(parts.engine, one.qp) == (0 if error else count)
