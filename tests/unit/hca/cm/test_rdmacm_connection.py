"""The connection's state machine on unreliable networks: messages lost, duplicated, reordered."""

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings, strategies as st

from hca.daemon.cm import connection as cm
from hca.daemon.cm.connection import Connection, InvalidCall, Outcome, State, Step
from hca.daemon.cm.messages import (
    Drep,
    Dreq,
    Message,
    Mra,
    Path,
    Reason,
    Rej,
    Rejected,
    Rep,
    Req,
    Rtu,
    SidrRep,
    SidrReq,
    SidrStatus,
    timeout_to_seconds,
)

REQ = Req(1, 0x0106_1234, Path(bytes(16), bytes(16)), qpn=11, psn=5)
WAIT = timeout_to_seconds(REQ.response_timeout)


@dataclass
class Side:
    """One side and the results reported to it."""

    connection: Connection | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    sent: list[Message] = field(default_factory=list)

    def take(self, step: Step) -> None:
        self.connection = step.connection
        if step.send is not None:
            self.sent.append(step.send)
        if step.outcome is not None:
            self.outcomes.append(step.outcome)

    @property
    def state(self) -> State:
        assert self.connection is not None
        return self.connection.state


class Pair:
    """A requester and a responder, whose messages ``carry`` delivers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.here, self.there = Side(), Side()
        self.here.take(cm.request(REQ, self.now))

    def deliver(self, to: Side, message: Message) -> None:
        if to is self.there and to.connection is None:
            if isinstance(message, Req):
                to.connection = cm.new_responder(message, 2, self.now)
            return
        assert to.connection is not None
        to.take(cm.receive(to.connection, message, self.now))

    def carry(self) -> None:
        """Deliver messages until no side sends any."""
        while self.here.sent or self.there.sent:
            for source, to in ((self.here, self.there), (self.there, self.here)):
                for message in [source.sent.pop(0) for _ in list(source.sent)]:
                    self.deliver(to, message)

    def act(self) -> None:
        """Respond as cooperating programs do: accept, confirm."""
        if self.there.connection and self.there.state is State.REQ_RECEIVED:
            rep = Rep(2, 1, qpn=22, psn=7)
            self.there.take(cm.accept(self.there.connection, rep, self.now))
        if self.here.connection and self.here.state is State.REP_RECEIVED:
            self.here.take(cm.establish(self.here.connection))

    def connect(self) -> None:
        while (self.here.state, self.there.connection and self.there.state) != (
            State.ESTABLISHED,
            State.ESTABLISHED,
        ):
            self.carry()
            self.act()

    def expire(self) -> None:
        for side in (self.here, self.there):
            if side.connection is not None:
                side.take(cm.step_if_expired(side.connection, self.now))


def test_connect_and_disconnect():
    pair = Pair()
    pair.connect()
    assert pair.here.outcomes == [Outcome.RESPONSE]
    assert pair.there.outcomes == [Outcome.ESTABLISHED]
    assert pair.here.connection.remote_qpn == 22
    pair.here.take(cm.disconnect(pair.here.connection, pair.now))
    pair.carry()
    assert pair.there.outcomes == [Outcome.ESTABLISHED, Outcome.DISCONNECTED]
    assert (pair.here.state, pair.there.state) == (State.DREQ_SENT, State.DREQ_RECEIVED)
    pair.there.take(cm.disconnect(pair.there.connection, pair.now))
    pair.carry()
    assert pair.here.outcomes == [Outcome.RESPONSE, Outcome.DISCONNECTED]
    pair.now += pair.here.connection.timewait
    pair.expire()
    assert (pair.here.state, pair.there.state) == (State.CLOSED, State.CLOSED)
    assert pair.here.outcomes[-1] is pair.there.outcomes[-1] is Outcome.TIMEWAIT_OVER


def test_both_disconnect_at_once():
    pair = Pair()
    pair.connect()
    for side in (pair.here, pair.there):
        side.take(cm.disconnect(side.connection, pair.now))
    pair.carry()
    for side in (pair.here, pair.there):
        assert side.state is State.TIMEWAIT
        assert side.outcomes.count(Outcome.DISCONNECTED) == 1


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 1 << 32), loss=st.floats(0, 0.4))
def test_a_bad_network_only_delays_connections(seed, loss):
    """Messages are lost, duplicated and reordered: both sides still get every result once."""
    choice = random.Random(seed)
    pair = Pair()
    flight: list[tuple[Side, Message]] = []
    disconnected = False
    for _ in range(4000):
        for source, to in ((pair.here, pair.there), (pair.there, pair.here)):
            while source.sent:
                message = source.sent.pop(0)
                copies = 0 if choice.random() < loss else choice.choice((1, 1, 2))
                flight += [(to, message)] * copies
        if flight and choice.random() < 0.8:
            pair.deliver(*flight.pop(choice.randrange(len(flight))))
        else:
            pair.now += WAIT * 1.01
            pair.expire()
        pair.act()
        both = pair.there.connection is not None
        done = both and pair.here.state is pair.there.state is State.ESTABLISHED
        if done and not disconnected:
            disconnected = True
            assert pair.here.outcomes == [Outcome.RESPONSE]
            assert pair.there.outcomes == [Outcome.ESTABLISHED]
            pair.here.take(cm.disconnect(pair.here.connection, pair.now))
            if choice.random() < 0.5:
                pair.there.take(cm.disconnect(pair.there.connection, pair.now))
        if disconnected and pair.there.state is State.DREQ_RECEIVED:
            pair.there.take(cm.disconnect(pair.there.connection, pair.now))
        if both and {pair.here.state, pair.there.state} == {State.CLOSED}:
            break
    for side in (pair.here, pair.there):
        assert len(side.outcomes) == len(set(side.outcomes)), "each thing once"
        assert side.connection is None or side.state is State.CLOSED or loss > 0
    if disconnected:
        assert Outcome.DISCONNECTED in pair.here.outcomes
        assert Outcome.DISCONNECTED in pair.there.outcomes


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_message_in_any_state_is_ignored_or_answered(data):
    """Any message at any time: no exception, no result reported twice, and CLOSED stays."""
    pair = Pair()
    pair.connect()
    messages = st.sampled_from(
        [
            *(REQ, Rep(2, 1, 22, 7), Rtu(2, 1), Rej(2, 1, 0, 28), Mra(2, 1, 0), Mra(2, 1, 1)),
            *(Dreq(2, 1, 11), Dreq(2, 1, 99), Drep(2, 1), SidrReq(5, 5), SidrRep(5, 0)),
        ]
    )
    state = data.draw(st.sampled_from(list(State)))
    one = pair.here.connection._replace(state=state, deadline=None)
    if state in (State.REQ_SENT, State.DREQ_SENT, State.TIMEWAIT):
        one = one._replace(deadline=1.0)
    for _ in range(6):
        step = cm.receive(one, data.draw(messages), 0.0)
        if one.state is State.CLOSED:
            assert step == Step(one)
        one = step.connection
        cm.removal_message(one)


def test_an_unanswered_request_is_repeated_and_then_fails():
    side = Side()
    side.take(cm.request(REQ, 0.0))
    now = 0.0
    while side.state is State.REQ_SENT:
        now += WAIT
        side.take(cm.step_if_expired(side.connection, now))
    assert side.outcomes == [Outcome.UNREACHABLE]
    assert side.sent == [REQ] * (1 + REQ.max_retries) + [Rej(1, 0, Rejected.OTHER, Reason.TIMEOUT)]
    assert now == pytest.approx(WAIT * (1 + REQ.max_retries))


def test_nothing_expires_before_its_time():
    side = Side()
    side.take(cm.request(REQ, 0.0))
    assert cm.step_if_expired(side.connection, WAIT * 0.99) == Step(side.connection)


def test_a_repeated_request_makes_the_peer_wait_while_the_owner_thinks():
    pair = Pair()
    pair.carry()
    pair.deliver(pair.there, REQ)
    assert pair.there.sent == [Mra(2, 1, Rejected.REQ)]
    pair.carry()
    assert pair.here.connection.deadline == pytest.approx(WAIT + timeout_to_seconds(24))
    pair.deliver(pair.here, Mra(2, 1, Rejected.REP))
    assert pair.here.connection.deadline == pytest.approx(WAIT + timeout_to_seconds(24)), (
        "another message's"
    )


def test_a_repeated_request_after_the_answer_is_answered_again():
    pair = Pair()
    pair.carry()
    pair.act()
    first = pair.there.sent[0]
    pair.deliver(pair.there, REQ)
    assert pair.there.sent == [first, first]


def test_a_lost_rtu_is_repeated_when_the_rep_is():
    pair = Pair()
    pair.carry()
    pair.act()
    rep = pair.there.sent[0]
    pair.carry()
    pair.act()
    assert pair.here.sent == [Rtu(1, 2)]
    pair.here.sent.clear()
    pair.deliver(pair.here, rep)
    assert pair.here.sent == [Rtu(1, 2)]
    pair.carry()
    assert pair.there.outcomes == [Outcome.ESTABLISHED]


def test_data_replaces_a_lost_rtu():
    pair = Pair()
    pair.carry()
    pair.act()
    pair.there.take(cm.notify(pair.there.connection))
    pair.there.take(cm.notify(pair.there.connection))
    assert pair.there.outcomes == [Outcome.ESTABLISHED]


def test_a_dreq_follows_a_lost_rtu():
    """The responder disconnects before it has received the RTU: the requester is notified."""
    pair = Pair()
    pair.carry()
    pair.act()
    pair.carry()
    pair.act()
    pair.here.sent.clear()
    goodbye = cm.removal_message(pair.there.connection)
    assert isinstance(goodbye, Rej)
    pair.deliver(pair.here, goodbye)
    assert pair.here.outcomes == [Outcome.RESPONSE, Outcome.DISCONNECTED]


def test_a_rejection_carries_reason_and_data_and_ends_it():
    pair = Pair()
    pair.carry()
    pair.there.take(cm.reject(pair.there.connection, Reason.CONSUMER_DEFINED, b"no"))
    assert pair.there.sent == [Rej(2, 1, Rejected.REQ, 28, b"no")]
    pair.carry()
    assert pair.here.outcomes == [Outcome.REJECTED]
    assert (pair.here.state, pair.there.state) == (State.CLOSED, State.CLOSED)


def test_a_dreq_for_another_queue_pair_is_ignored():
    pair = Pair()
    pair.connect()
    pair.deliver(pair.there, Dreq(1, 2, 23))
    assert pair.there.state is State.ESTABLISHED
    pair.deliver(pair.there, Dreq(1, 2, 22))
    assert pair.there.state is State.DREQ_RECEIVED


def test_an_unanswered_dreq_ends_in_timewait():
    pair = Pair()
    pair.connect()
    pair.here.take(cm.disconnect(pair.here.connection, pair.now))
    while pair.here.state is State.DREQ_SENT:
        pair.now += WAIT
        pair.here.take(cm.step_if_expired(pair.here.connection, pair.now))
    assert pair.here.state is State.TIMEWAIT
    assert pair.here.outcomes[-1] is Outcome.DISCONNECTED


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (State.REQ_SENT, Rej),
        (State.REQ_RECEIVED, Rej),
        (State.REP_RECEIVED, Rej),
        (State.REP_SENT, Rej),
        (State.ESTABLISHED, Dreq),
        (State.DREQ_RECEIVED, Drep),
        (State.DREQ_SENT, None),
        (State.TIMEWAIT, None),
        (State.CLOSED, None),
        (State.SIDR_SENT, None),
        (State.SIDR_RECEIVED, SidrRep),
    ],
)
def test_a_side_that_ends_notifies_its_peer(state, message):
    said = cm.removal_message(Connection(state, 1, 2))
    assert said is None if message is None else isinstance(said, message)


def test_calls_in_the_wrong_state_are_refused():
    one = cm.request(REQ, 0.0).connection
    with pytest.raises(InvalidCall, match="REQ sent"):
        cm.accept(one, Rep(1, 2, 3, 4), 0.0)
    for call in (cm.establish, cm.notify):
        with pytest.raises(InvalidCall):
            call(one)
    with pytest.raises(InvalidCall):
        cm.disconnect(one, 0.0)
    with pytest.raises(InvalidCall):
        cm.reject(one, 28)


def test_a_sidr_request_finds_a_queue_pair_or_the_reason_for_none():
    req = SidrReq(9, 0x0111_0007)
    active = cm.resolve_service(req, 0.0, 1.0, 2).connection
    passive = cm.new_sidr_responder(req, 0.0)
    yes = cm.accept(passive, SidrRep(9, SidrStatus.VALID, 33), 0.0)
    assert cm.receive(active, yes.send, 0.0).outcome is Outcome.FOUND
    no = cm.reject(passive, 28, b"why")
    assert no.send == SidrRep(9, SidrStatus.REJECTED, data=b"why")
    assert cm.receive(active, no.send, 0.0).outcome is Outcome.UNREACHABLE
    now, sent = 0.0, 0
    while active.state is State.SIDR_SENT:
        now += 1.0
        step = cm.step_if_expired(active, now)
        sent += step.send is not None
        active = step.connection
    assert (sent, step.outcome) == (2, Outcome.UNREACHABLE)


def new_passive(state: State) -> Connection:
    """Return a responder's side whose program must answer."""
    if state is State.SIDR_RECEIVED:
        return cm.new_sidr_responder(SidrReq(7, REQ.service), 0.0)
    if state is State.REQ_RECEIVED:
        return cm.new_responder(REQ, 2, 0.0)
    sent = cm.request(REQ, 0.0).connection
    return cm.receive(sent, Rep(9, REQ.local_id, 3, 1), 0.0).connection


@pytest.mark.parametrize("state", [State.REQ_RECEIVED, State.REP_RECEIVED, State.SIDR_RECEIVED])
def test_a_program_must_answer_by_a_deadline(state):
    owes = new_passive(state)
    assert owes.state is state
    assert owes.deadline is not None
    assert 0 < owes.deadline <= cm.LONGEST_ANSWER
    assert cm.step_if_expired(owes, owes.deadline - 0.001) == Step(owes)
    over = cm.step_if_expired(owes, owes.deadline)
    assert over.connection.state is State.CLOSED
    assert over.outcome is Outcome.UNREACHABLE
    if state is State.SIDR_RECEIVED:
        assert isinstance(over.send, SidrRep)
        assert over.send.status == SidrStatus.REJECTED
    else:
        assert isinstance(over.send, Rej)
        assert over.send.reason == Reason.TIMEOUT


def test_repeated_requests_extend_the_deadline_of_an_answer_to_a_limit():
    """Each repeated request extends it, up to LONGEST_ANSWER: forged ones gain no more."""
    one = replace(REQ, response_timeout=18, max_retries=3)
    begun, patience = 1000.0, 4 * timeout_to_seconds(18)
    owes = cm.new_responder(one, 2, begun)
    assert owes.deadline == pytest.approx(begun + patience)
    for second in range(1, 200):
        now = begun + second
        if owes.deadline <= now:
            break
        step = cm.receive(owes, one, now)
        assert isinstance(step.send, Mra)
        owes = step.connection
        assert owes.deadline == pytest.approx(min(now + patience, begun + cm.LONGEST_ANSWER))
    assert cm.step_if_expired(owes, begun + cm.LONGEST_ANSWER).outcome is Outcome.UNREACHABLE


def test_the_longest_wait_cannot_be_extended():
    one = replace(REQ, response_timeout=31, max_retries=15)
    owes = cm.new_responder(one, 2, 0.0)
    assert cm.receive(owes, one, cm.LONGEST_ANSWER - 1).connection == owes


@pytest.mark.parametrize("state", [State.REQ_RECEIVED, State.REP_RECEIVED])
def test_after_an_answer_the_next_message_s_deadline_applies(state):
    owes = new_passive(state)
    if state is State.REP_RECEIVED:
        assert cm.establish(owes).connection.deadline is None
        return
    step = cm.accept(owes, Rep(2, 1, 3, 1), 1.0)
    assert step.connection.deadline == 1.0 + owes.wait
    assert step.connection.retries == owes.most_retries
