"""The state machine that establishes and ends connections: messages and time in, messages out.

The states follow InfiniBand Architecture Specification volume 1, 12.9. The functions are pure: a
step returns the new connection, a message to send and an outcome for the owner. A message that
needs an answer is repeated until the answer arrives or the retries are used up. The owner
receives each outcome once, even if messages are lost, duplicated or reordered.
"""

from enum import Enum
from typing import Final, NamedTuple

from hca.daemon.cm.messages import (
    Drep,
    Dreq,
    Message,
    Mra,
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


class State(Enum):
    """The state of a connection; the SIDR states belong to queries for a datagram queue pair."""

    REQ_SENT = "REQ sent"
    REQ_RECEIVED = "REQ received"
    REP_SENT = "REP sent"
    REP_RECEIVED = "REP received"
    ESTABLISHED = "established"
    DREQ_SENT = "DREQ sent"
    DREQ_RECEIVED = "DREQ received"
    TIMEWAIT = "timewait"
    SIDR_SENT = "SIDR_REQ sent"
    SIDR_RECEIVED = "SIDR_REQ received"
    CLOSED = "closed"


class Outcome(Enum):
    """An event that a connection reports to its owner."""

    RESPONSE = "the responder has accepted"
    ESTABLISHED = "established"
    REJECTED = "rejected"
    UNREACHABLE = "no answer"
    DISCONNECTED = "disconnected"
    TIMEWAIT_OVER = "timewait over"
    FOUND = "datagrams' queue pair"


class InvalidCall(Exception):
    """The connection's state does not permit the call; the exception's message names the state."""


class Connection(NamedTuple):
    """One side of a connection.

    The message ``repeat`` is sent again at the deadline, and also when the peer repeats its own
    message. The class is a tuple and not a dataclass: each step makes a new value, and making a
    dataclass takes several times as long.
    """

    state: State
    local_id: int
    remote_id: int = 0
    qpn: int = 0
    """This side's queue pair, which a DREQ from the peer names."""
    remote_qpn: int = 0
    deadline: float | None = None
    retries: int = 0
    """How often ``repeat`` may still be sent again; a new message starts with ``most_retries``."""
    most_retries: int = 15
    wait: float = 0.0
    repeat: Message | None = None
    timewait: float = 1.0
    latest: float = 0.0
    """The latest time to which the peer's repeated requests may postpone the deadline for this
    side's answer.
    """


class Step(NamedTuple):
    """The result of an event: the new state of the connection, and what must be done because of it.

    ``send`` is a message that must be sent to the peer. ``outcome`` must be reported to the
    connection's owner. ``message`` is the peer's message that caused the outcome, or None if no
    message caused it.
    """

    connection: Connection
    send: Message | None = None
    outcome: Outcome | None = None
    message: Message | None = None


def request(req: Req, now: float) -> Step:
    """Start the requester's side of a new connection.

    Return the step that sends the REQ ``req``.
    """
    wait = timeout_to_seconds(req.response_timeout)
    timewait = timeout_to_seconds(req.path.ack_timeout)
    made = Connection(State.REQ_SENT, req.local_id, qpn=req.qpn, most_retries=req.max_retries)
    return Step(_with_repeat(made._replace(wait=wait, timewait=timewait), req, now), req)


def new_responder(req: Req, local_id: int, now: float) -> Connection:
    """Return the responder's side of a connection that the peer's REQ requests.

    The responder's program has as much time to answer as the peer waits for the answer.
    """
    made = Connection(State.REQ_RECEIVED, local_id, req.local_id, remote_qpn=req.qpn)
    wait = timeout_to_seconds(_within(req.response_timeout, *_WAITS))
    timewait = timeout_to_seconds(_within(req.path.ack_timeout, *_WAITS))
    known = made._replace(most_retries=req.max_retries, wait=wait, timewait=timewait)
    return known._replace(deadline=now + _patience(known), latest=now + LONGEST_ANSWER)


def resolve_service(req: SidrReq, now: float, wait: float, retries: int) -> Step:
    """Start the requester's side of a query for a service's datagram queue pair.

    Return the step that sends the SIDR_REQ ``req``.
    """
    made = Connection(State.SIDR_SENT, req.request, most_retries=retries, wait=wait)
    return Step(_with_repeat(made, req, now), req)


def new_sidr_responder(req: SidrReq, now: float) -> Connection:
    """Return the responder's side of a query for a datagram queue pair."""
    made = Connection(State.SIDR_RECEIVED, req.request, req.request)
    return made._replace(deadline=now + LONGEST_ANSWER, wait=LONGEST_ANSWER)


def accept(one: Connection, rep: Rep | SidrRep, now: float) -> Step:
    """Accept the peer's request for a connection. Raises InvalidCall."""
    if isinstance(rep, SidrRep):
        _check_state(one, State.SIDR_RECEIVED)
        return Step(to_closed(one), rep)
    _check_state(one, State.REQ_RECEIVED)
    waiting = one._replace(state=State.REP_SENT, qpn=rep.qpn)
    return Step(_with_repeat(waiting, rep, now), rep)


def establish(one: Connection, data: bytes = b"") -> Step:
    """Establish the connection, and confirm the responder's REP with an RTU. Raises InvalidCall."""
    _check_state(one, State.REP_RECEIVED)
    rtu = Rtu(one.local_id, one.remote_id, data)
    return Step(one._replace(state=State.ESTABLISHED, deadline=None, repeat=rtu), rtu)


def notify(one: Connection) -> Step:
    """Establish the connection because data has arrived; the RTU may have been lost.

    The effect is the same as that of the RTU. Raises InvalidCall.
    """
    if one.state is State.ESTABLISHED:
        return Step(one)
    _check_state(one, State.REP_SENT)
    return _establish(one)


def reject(one: Connection, reason: int, data: bytes = b"") -> Step:
    """Reject the REQ, REP or SIDR_REQ that the peer has sent. Raises InvalidCall."""
    _check_state(one, State.REQ_RECEIVED, State.REP_RECEIVED, State.SIDR_RECEIVED)
    if one.state is State.SIDR_RECEIVED:
        return Step(to_closed(one), SidrRep(one.remote_id, SidrStatus.REJECTED, data=data))
    return Step(to_closed(one), _rejection(one, reason, data))


def disconnect(one: Connection, now: float) -> Step:
    """End the connection, or confirm the peer's DREQ. Raises InvalidCall."""
    if one.state in (State.DREQ_SENT, State.TIMEWAIT, State.CLOSED):
        return Step(one)
    _check_state(one, State.ESTABLISHED, State.REP_SENT, State.DREQ_RECEIVED)
    if one.state is State.DREQ_RECEIVED:
        drep = Drep(one.local_id, one.remote_id)
        return Step(_to_timewait(one, drep, now), drep)
    dreq = Dreq(one.local_id, one.remote_id, one.remote_qpn)
    return Step(_with_repeat(one._replace(state=State.DREQ_SENT), dreq, now), dreq)


def removal_message(one: Connection) -> Message | None:
    """Return the message that informs the peer of the removal of this side; None if none is
    needed.
    """
    match one.state:
        case State.REQ_SENT:
            return _rejection(one, Reason.TIMEOUT, b"")
        case State.REQ_RECEIVED | State.REP_RECEIVED | State.REP_SENT:
            return _rejection(one, Reason.CONSUMER_DEFINED, b"")
        case State.ESTABLISHED:
            return Dreq(one.local_id, one.remote_id, one.remote_qpn)
        case State.DREQ_RECEIVED:
            return Drep(one.local_id, one.remote_id)
        case State.SIDR_RECEIVED:
            return SidrRep(one.remote_id, SidrStatus.REJECTED)
        case _:
            return None


def step_if_expired(one: Connection, now: float) -> Step:
    """Return the step to take if the connection's deadline has passed.

    If the deadline has not passed, the step changes nothing.
    """
    if one.deadline is None or now < one.deadline:
        return Step(one)
    if one.state is State.TIMEWAIT:
        return Step(to_closed(one), outcome=Outcome.TIMEWAIT_OVER)
    if one.state is State.SIDR_RECEIVED:
        return Step(to_closed(one), removal_message(one), Outcome.UNREACHABLE)
    if one.state in (State.REQ_RECEIVED, State.REP_RECEIVED):  # its own program did not answer
        return Step(to_closed(one), _rejection(one, Reason.TIMEOUT, b""), Outcome.UNREACHABLE)
    if one.retries > 0:
        again = one._replace(deadline=now + one.wait, retries=one.retries - 1)
        return Step(again, one.repeat)
    if one.state is State.DREQ_SENT:
        return Step(_to_timewait(one, None, now), outcome=Outcome.DISCONNECTED)
    if one.state is State.SIDR_SENT:
        return Step(to_closed(one), outcome=Outcome.UNREACHABLE)
    return Step(to_closed(one), _rejection(one, Reason.TIMEOUT, b""), Outcome.UNREACHABLE)


def receive(one: Connection, message: Message, now: float) -> Step:
    """Process a message of the peer. A message that does not fit the connection's state changes
    nothing.
    """
    match message:
        case Req():
            return _receive_req(one, now)
        case Rep():
            return _receive_rep(one, message, now)
        case Rtu():
            return _establish(one, message) if one.state is State.REP_SENT else Step(one)
        case Rej():
            return _receive_rej(one, message, now)
        case Mra():
            return _receive_mra(one, message, now)
        case Dreq():
            return _receive_dreq(one, message, now)
        case Drep():
            if one.state is not State.DREQ_SENT:
                return Step(one)
            return Step(_to_timewait(one, None, now), outcome=Outcome.DISCONNECTED, message=message)
        case SidrRep():
            if one.state is not State.SIDR_SENT:
                return Step(one)
            found = message.status == SidrStatus.VALID
            return Step(
                to_closed(one), None, Outcome.FOUND if found else Outcome.UNREACHABLE, message
            )
        case _:
            return Step(one)


_WAITS: Final = (16, 22)
"""Least and greatest exponent of the peer's timeouts, to which others are clamped: 0.3 s (to limit
bursts) and 17 s.
"""
_LONGEST_SERVICE: Final = 25  # 137 s
LONGEST_ANSWER: Final = 69.0
"""Most seconds that a program may take for its answer, counted from the peer's first request.

An MRA makes the peer wait as long. A forged request occupies its queue pair no longer than this.
"""


def _patience(one: Connection) -> float:
    return min((1 + one.most_retries) * one.wait, LONGEST_ANSWER)


def _within(code: int, least: int, most: int) -> int:
    return min(max(code, least), most)


_BEFORE: Final = (State.REQ_SENT, State.REP_SENT, State.REQ_RECEIVED, State.REP_RECEIVED)


def _receive_req(one: Connection, now: float) -> Step:
    if one.state is State.REQ_RECEIVED:  # not answered yet: the peer must wait longer
        again = one._replace(deadline=min(now + _patience(one), one.latest))
        return Step(again, Mra(one.local_id, one.remote_id, Rejected.REQ))
    return Step(one, one.repeat if one.state is State.REP_SENT else None)


def _receive_rep(one: Connection, rep: Rep, now: float) -> Step:
    if one.state is State.REQ_SENT:
        known = one._replace(remote_id=rep.local_id, remote_qpn=rep.qpn)
        deadline = now + LONGEST_ANSWER
        answered = known._replace(state=State.REP_RECEIVED, deadline=deadline, repeat=None)
        return Step(answered, None, Outcome.RESPONSE, rep)
    repeated = one.state is State.ESTABLISHED and rep.local_id == one.remote_id
    return Step(one, one.repeat if repeated else None)  # the RTU, if this side has sent one


def _receive_rej(one: Connection, rej: Rej, now: float) -> Step:
    if one.state in _BEFORE:
        return Step(to_closed(one), None, Outcome.REJECTED, rej)
    if one.state is State.ESTABLISHED:  # the RTU was lost, and the peer has ended the connection
        return Step(_to_timewait(one, None, now), outcome=Outcome.DISCONNECTED, message=rej)
    return Step(one)


def _receive_mra(one: Connection, mra: Mra, now: float) -> Step:
    about = {State.REQ_SENT: Rejected.REQ, State.REP_SENT: Rejected.REP}.get(one.state)
    if about is None or mra.about != about:
        return Step(one)
    service = timeout_to_seconds(min(mra.service_timeout, _LONGEST_SERVICE))
    return Step(one._replace(deadline=now + one.wait + service))


def _receive_dreq(one: Connection, dreq: Dreq, now: float) -> Step:
    if dreq.qpn != one.qpn:
        return Step(one)
    if one.state in (State.ESTABLISHED, State.REP_SENT):
        disconnecting = one._replace(state=State.DREQ_RECEIVED, deadline=None, repeat=None)
        return Step(disconnecting, None, Outcome.DISCONNECTED, dreq)
    drep = Drep(one.local_id, one.remote_id)
    if one.state is State.DREQ_SENT:  # both sides have sent a DREQ at the same time
        return Step(_to_timewait(one, drep, now), drep, Outcome.DISCONNECTED, dreq)
    return Step(one, drep if one.state is State.TIMEWAIT else None)


def _establish(one: Connection, message: Message | None = None) -> Step:
    done = one._replace(state=State.ESTABLISHED, deadline=None, repeat=None)
    return Step(done, None, Outcome.ESTABLISHED, message)


def _with_repeat(one: Connection, message: Message, now: float) -> Connection:
    """Return the connection, with repetitions of a message scheduled.

    They end when the peer answers or the retries are used up.
    """
    return one._replace(repeat=message, deadline=now + one.wait, retries=one.most_retries)


def _to_timewait(one: Connection, repeat: Message | None, now: float) -> Connection:
    return one._replace(state=State.TIMEWAIT, repeat=repeat, deadline=now + one.timewait)


def to_closed(one: Connection) -> Connection:
    """Return the connection in the state CLOSED, without a deadline."""
    return one._replace(state=State.CLOSED, deadline=None, repeat=None)


def _rejection(one: Connection, reason: int, data: bytes) -> Rej:
    about = {
        State.REQ_RECEIVED: Rejected.REQ,
        State.REP_RECEIVED: Rejected.REP,
        State.REQ_SENT: Rejected.OTHER,
        State.REP_SENT: Rejected.OTHER,
    }[one.state]
    return Rej(one.local_id, one.remote_id, about, reason, data)


def _check_state(one: Connection, *states: State) -> None:
    if one.state not in states:
        raise InvalidCall(one.state.value)
