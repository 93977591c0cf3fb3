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


def request(req: Req, current_time: float) -> Step:
    """Start the requester's side of a new connection.

    Return the step that sends the REQ ``req``.
    """
    wait = timeout_to_seconds(req.response_timeout)
    timewait = timeout_to_seconds(req.path.ack_timeout)
    connection = Connection(State.REQ_SENT, req.local_id, qpn=req.qpn, most_retries=req.max_retries)
    return Step(
        _with_repeat(connection._replace(wait=wait, timewait=timewait), req, current_time), req
    )


def new_responder(req: Req, local_id: int, current_time: float) -> Connection:
    """Return the responder's side of a connection that the peer's REQ requests.

    The responder's program has as much time to answer as the peer waits for the answer.
    """
    connection = Connection(State.REQ_RECEIVED, local_id, req.local_id, remote_qpn=req.qpn)
    wait = timeout_to_seconds(_within(req.response_timeout, *_WAITS))
    timewait = timeout_to_seconds(_within(req.path.ack_timeout, *_WAITS))
    responder = connection._replace(most_retries=req.max_retries, wait=wait, timewait=timewait)
    return responder._replace(
        deadline=current_time + _patience(responder), latest=current_time + LONGEST_ANSWER
    )


def resolve_service(req: SidrReq, current_time: float, wait: float, retries: int) -> Step:
    """Start the requester's side of a query for a service's datagram queue pair.

    Return the step that sends the SIDR_REQ ``req``.
    """
    connection = Connection(State.SIDR_SENT, req.request, most_retries=retries, wait=wait)
    return Step(_with_repeat(connection, req, current_time), req)


def new_sidr_responder(req: SidrReq, current_time: float) -> Connection:
    """Return the responder's side of a query for a datagram queue pair."""
    connection = Connection(State.SIDR_RECEIVED, req.request, req.request)
    return connection._replace(deadline=current_time + LONGEST_ANSWER, wait=LONGEST_ANSWER)


def accept(connection: Connection, rep: Rep | SidrRep, current_time: float) -> Step:
    """Accept the peer's request for a connection. Raises InvalidCall."""
    if isinstance(rep, SidrRep):
        _check_state(connection, State.SIDR_RECEIVED)
        return Step(to_closed(connection), rep)
    _check_state(connection, State.REQ_RECEIVED)
    waiting = connection._replace(state=State.REP_SENT, qpn=rep.qpn)
    return Step(_with_repeat(waiting, rep, current_time), rep)


def establish(connection: Connection, data: bytes = b"") -> Step:
    """Establish the connection, and confirm the responder's REP with an RTU. Raises InvalidCall."""
    _check_state(connection, State.REP_RECEIVED)
    rtu = Rtu(connection.local_id, connection.remote_id, data)
    return Step(connection._replace(state=State.ESTABLISHED, deadline=None, repeat=rtu), rtu)


def notify(connection: Connection) -> Step:
    """Establish the connection because data has arrived; the RTU may have been lost.

    The effect is the same as that of the RTU. Raises InvalidCall.
    """
    if connection.state is State.ESTABLISHED:
        return Step(connection)
    _check_state(connection, State.REP_SENT)
    return _establish(connection)


def reject(connection: Connection, reason: int, data: bytes = b"") -> Step:
    """Reject the REQ, REP or SIDR_REQ that the peer has sent. Raises InvalidCall."""
    _check_state(connection, State.REQ_RECEIVED, State.REP_RECEIVED, State.SIDR_RECEIVED)
    if connection.state is State.SIDR_RECEIVED:
        return Step(
            to_closed(connection), SidrRep(connection.remote_id, SidrStatus.REJECTED, data=data)
        )
    return Step(to_closed(connection), _rejection(connection, reason, data))


def disconnect(connection: Connection, current_time: float) -> Step:
    """End the connection, or confirm the peer's DREQ. Raises InvalidCall."""
    if connection.state in (State.DREQ_SENT, State.TIMEWAIT, State.CLOSED):
        return Step(connection)
    _check_state(connection, State.ESTABLISHED, State.REP_SENT, State.DREQ_RECEIVED)
    if connection.state is State.DREQ_RECEIVED:
        drep = Drep(connection.local_id, connection.remote_id)
        return Step(_to_timewait(connection, drep, current_time), drep)
    dreq = Dreq(connection.local_id, connection.remote_id, connection.remote_qpn)
    return Step(_with_repeat(connection._replace(state=State.DREQ_SENT), dreq, current_time), dreq)


def removal_message(connection: Connection) -> Message | None:
    """Return the message that informs the peer of the removal of this side; None if none is
    needed.
    """
    match connection.state:
        case State.REQ_SENT:
            return _rejection(connection, Reason.TIMEOUT, b"")
        case State.REQ_RECEIVED | State.REP_RECEIVED | State.REP_SENT:
            return _rejection(connection, Reason.CONSUMER_DEFINED, b"")
        case State.ESTABLISHED:
            return Dreq(connection.local_id, connection.remote_id, connection.remote_qpn)
        case State.DREQ_RECEIVED:
            return Drep(connection.local_id, connection.remote_id)
        case State.SIDR_RECEIVED:
            return SidrRep(connection.remote_id, SidrStatus.REJECTED)
        case _:
            return None


def step_if_expired(connection: Connection, current_time: float) -> Step:
    """Return the step to take if the connection's deadline has passed.

    If the deadline has not passed, the step changes nothing.
    """
    if connection.deadline is None or current_time < connection.deadline:
        return Step(connection)
    if connection.state is State.TIMEWAIT:
        return Step(to_closed(connection), outcome=Outcome.TIMEWAIT_OVER)
    if connection.state is State.SIDR_RECEIVED:
        return Step(to_closed(connection), removal_message(connection), Outcome.UNREACHABLE)
    # its own program did not answer
    if connection.state in (State.REQ_RECEIVED, State.REP_RECEIVED):
        return Step(
            to_closed(connection), _rejection(connection, Reason.TIMEOUT, b""), Outcome.UNREACHABLE
        )
    if connection.retries > 0:
        again = connection._replace(
            deadline=current_time + connection.wait, retries=connection.retries - 1
        )
        return Step(again, connection.repeat)
    if connection.state is State.DREQ_SENT:
        return Step(_to_timewait(connection, None, current_time), outcome=Outcome.DISCONNECTED)
    if connection.state is State.SIDR_SENT:
        return Step(to_closed(connection), outcome=Outcome.UNREACHABLE)
    return Step(
        to_closed(connection), _rejection(connection, Reason.TIMEOUT, b""), Outcome.UNREACHABLE
    )


def receive(connection: Connection, message: Message, current_time: float) -> Step:
    """Process a message of the peer. A message that does not fit the connection's state changes
    nothing.
    """
    match message:
        case Req():
            return _receive_req(connection, current_time)
        case Rep():
            return _receive_rep(connection, message, current_time)
        case Rtu():
            return (
                _establish(connection, message)
                if connection.state is State.REP_SENT
                else Step(connection)
            )
        case Rej():
            return _receive_rej(connection, message, current_time)
        case Mra():
            return _receive_mra(connection, message, current_time)
        case Dreq():
            return _receive_dreq(connection, message, current_time)
        case Drep():
            if connection.state is not State.DREQ_SENT:
                return Step(connection)
            return Step(
                _to_timewait(connection, None, current_time),
                outcome=Outcome.DISCONNECTED,
                message=message,
            )
        case SidrRep():
            if connection.state is not State.SIDR_SENT:
                return Step(connection)
            is_valid = message.status == SidrStatus.VALID
            return Step(
                to_closed(connection),
                None,
                Outcome.FOUND if is_valid else Outcome.UNREACHABLE,
                message,
            )
        case _:
            return Step(connection)


_WAITS: Final = (16, 22)
"""Least and greatest exponent of the peer's timeouts, to which others are clamped: 0.3 s (to limit
bursts) and 17 s.
"""
_LONGEST_SERVICE: Final = 25  # 137 s
LONGEST_ANSWER: Final = 69.0
"""Most seconds that a program may take for its answer, counted from the peer's first request.

An MRA makes the peer wait as long. A forged request occupies its queue pair no longer than this.
"""


def _patience(connection: Connection) -> float:
    return min((1 + connection.most_retries) * connection.wait, LONGEST_ANSWER)


def _within(code: int, min_code: int, max_code: int) -> int:
    return min(max(code, min_code), max_code)


_BEFORE: Final = (State.REQ_SENT, State.REP_SENT, State.REQ_RECEIVED, State.REP_RECEIVED)


def _receive_req(connection: Connection, current_time: float) -> Step:
    if connection.state is State.REQ_RECEIVED:  # not answered yet: the peer must wait longer
        again = connection._replace(
            deadline=min(current_time + _patience(connection), connection.latest)
        )
        return Step(again, Mra(connection.local_id, connection.remote_id, Rejected.REQ))
    return Step(connection, connection.repeat if connection.state is State.REP_SENT else None)


def _receive_rep(connection: Connection, rep: Rep, current_time: float) -> Step:
    if connection.state is State.REQ_SENT:
        updated_connection = connection._replace(remote_id=rep.local_id, remote_qpn=rep.qpn)
        deadline = current_time + LONGEST_ANSWER
        answered = updated_connection._replace(
            state=State.REP_RECEIVED, deadline=deadline, repeat=None
        )
        return Step(answered, None, Outcome.RESPONSE, rep)
    repeated = connection.state is State.ESTABLISHED and rep.local_id == connection.remote_id
    # the RTU, if this side has sent one
    return Step(connection, connection.repeat if repeated else None)


def _receive_rej(connection: Connection, rej: Rej, current_time: float) -> Step:
    if connection.state in _BEFORE:
        return Step(to_closed(connection), None, Outcome.REJECTED, rej)
    # the RTU was lost, and the peer has ended the connection
    if connection.state is State.ESTABLISHED:
        return Step(
            _to_timewait(connection, None, current_time), outcome=Outcome.DISCONNECTED, message=rej
        )
    return Step(connection)


def _receive_mra(connection: Connection, mra: Mra, current_time: float) -> Step:
    about = {State.REQ_SENT: Rejected.REQ, State.REP_SENT: Rejected.REP}.get(connection.state)
    if about is None or mra.about != about:
        return Step(connection)
    service = timeout_to_seconds(min(mra.service_timeout, _LONGEST_SERVICE))
    return Step(connection._replace(deadline=current_time + connection.wait + service))


def _receive_dreq(connection: Connection, dreq: Dreq, current_time: float) -> Step:
    if dreq.qpn != connection.qpn:
        return Step(connection)
    if connection.state in (State.ESTABLISHED, State.REP_SENT):
        disconnecting = connection._replace(state=State.DREQ_RECEIVED, deadline=None, repeat=None)
        return Step(disconnecting, None, Outcome.DISCONNECTED, dreq)
    drep = Drep(connection.local_id, connection.remote_id)
    if connection.state is State.DREQ_SENT:  # both sides have sent a DREQ at the same time
        return Step(_to_timewait(connection, drep, current_time), drep, Outcome.DISCONNECTED, dreq)
    return Step(connection, drep if connection.state is State.TIMEWAIT else None)


def _establish(connection: Connection, message: Message | None = None) -> Step:
    established_connection = connection._replace(
        state=State.ESTABLISHED, deadline=None, repeat=None
    )
    return Step(established_connection, None, Outcome.ESTABLISHED, message)


def _with_repeat(connection: Connection, message: Message, current_time: float) -> Connection:
    """Return the connection, with repetitions of a message scheduled.

    They end when the peer answers or the retries are used up.
    """
    return connection._replace(
        repeat=message, deadline=current_time + connection.wait, retries=connection.most_retries
    )


def _to_timewait(connection: Connection, repeat: Message | None, current_time: float) -> Connection:
    return connection._replace(
        state=State.TIMEWAIT, repeat=repeat, deadline=current_time + connection.timewait
    )


def to_closed(connection: Connection) -> Connection:
    """Return the connection in the state CLOSED, without a deadline."""
    return connection._replace(state=State.CLOSED, deadline=None, repeat=None)


def _rejection(connection: Connection, reason: int, data: bytes) -> Rej:
    about = {
        State.REQ_RECEIVED: Rejected.REQ,
        State.REP_RECEIVED: Rejected.REP,
        State.REQ_SENT: Rejected.OTHER,
        State.REP_SENT: Rejected.OTHER,
    }[connection.state]
    return Rej(connection.local_id, connection.remote_id, about, reason, data)


def _check_state(connection: Connection, *states: State) -> None:
    if connection.state not in states:
        raise InvalidCall(connection.state.value)
