"""The state machine of one connection's establishment and end: messages and time in, messages out.

InfiniBand Architecture Specification volume 1, 12.9. Pure: a step returns a new value, what to
send, and what to tell the owner. Requests are repeated until they are answered or there were too
many; whatever was lost, doubled or reordered meanwhile, the owner learns each thing once.
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
    seconds,
)


class State(Enum):
    """Where a connection is; SIDR states are those of datagrams."""

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


class Told(Enum):
    """What an owner learns."""

    RESPONSE = "the responder has accepted"
    ESTABLISHED = "established"
    REJECTED = "rejected"
    UNREACHABLE = "no answer"
    DISCONNECTED = "disconnected"
    TIMEWAIT_OVER = "timewait over"
    FOUND = "datagrams' queue pair"


class InvalidCall(Exception):
    """The connection is in no state for this; the text says in which it is."""


class Connection(NamedTuple):
    """One side. ``repeat`` is what a deadline, or a repeated message of the peer, sends again.

    A tuple: each step makes another, which takes a dataclass several times as long.
    """

    state: State
    local_id: int
    remote_id: int = 0
    qpn: int = 0
    """Ours: a DREQ names it."""
    remote_qpn: int = 0
    deadline: float | None = None
    retries: int = 0
    """How often ``repeat`` may be sent again; ``most_retries`` of each message."""
    most_retries: int = 15
    wait: float = 0.0
    repeat: Message | None = None
    timewait: float = 1.0
    latest: float = 0.0
    """To when repeated requests may put off the deadline of an answer."""


class Step(NamedTuple):
    """What comes of something. ``told`` is at most one thing, with the message that brought it."""

    connection: Connection
    send: Message | None = None
    told: Told | None = None
    message: Message | None = None


def request(req: Req, now: float) -> Step:
    """Begin to ask for a connection."""
    wait = seconds(req.response_timeout)
    timewait = seconds(req.path.ack_timeout)
    made = Connection(State.REQ_SENT, req.local_id, qpn=req.qpn, most_retries=req.max_retries)
    return Step(_repeating(made._replace(wait=wait, timewait=timewait), req, now), req)


def requested(req: Req, local_id: int, now: float) -> Connection:
    """Return the side of whoever was asked: an answer has as much time as the peer would wait."""
    made = Connection(State.REQ_RECEIVED, local_id, req.local_id, remote_qpn=req.qpn)
    wait = seconds(_within(req.response_timeout, *_WAITS))
    timewait = seconds(_within(req.path.ack_timeout, *_WAITS))
    known = made._replace(most_retries=req.max_retries, wait=wait, timewait=timewait)
    return known._replace(deadline=now + _patience(known), latest=now + LONGEST_ANSWER)


def search(req: SidrReq, now: float, wait: float, retries: int) -> Step:
    """Begin to ask for the queue pair of a service of datagrams."""
    made = Connection(State.SIDR_SENT, req.request, most_retries=retries, wait=wait)
    return Step(_repeating(made, req, now), req)


def searched(req: SidrReq, now: float) -> Connection:
    """Return the side of whoever was asked for a queue pair of datagrams."""
    made = Connection(State.SIDR_RECEIVED, req.request, req.request)
    return made._replace(deadline=now + LONGEST_ANSWER, wait=LONGEST_ANSWER)


def accept(one: Connection, rep: Rep | SidrRep, now: float) -> Step:
    """Say yes. Raises InvalidCall."""
    if isinstance(rep, SidrRep):
        _must(one, State.SIDR_RECEIVED)
        return Step(closed(one), rep)
    _must(one, State.REQ_RECEIVED)
    waiting = one._replace(state=State.REP_SENT, qpn=rep.qpn)
    return Step(_repeating(waiting, rep, now), rep)


def establish(one: Connection, data: bytes = b"") -> Step:
    """Confirm the responder's answer. Raises InvalidCall."""
    _must(one, State.REP_RECEIVED)
    rtu = Rtu(one.local_id, one.remote_id, data)
    return Step(one._replace(state=State.ESTABLISHED, deadline=None, repeat=rtu), rtu)


def notify(one: Connection) -> Step:
    """Take data that has come for the confirmation that may be lost. Raises InvalidCall."""
    if one.state is State.ESTABLISHED:
        return Step(one)
    _must(one, State.REP_SENT)
    return _established(one)


def reject(one: Connection, reason: int, data: bytes = b"") -> Step:
    """Say no. Raises InvalidCall."""
    _must(one, State.REQ_RECEIVED, State.REP_RECEIVED, State.SIDR_RECEIVED)
    if one.state is State.SIDR_RECEIVED:
        return Step(closed(one), SidrRep(one.remote_id, SidrStatus.REJECTED, data=data))
    return Step(closed(one), _rejection(one, reason, data))


def disconnect(one: Connection, now: float) -> Step:
    """End the connection, or agree to its end. Raises InvalidCall."""
    if one.state in (State.DREQ_SENT, State.TIMEWAIT, State.CLOSED):
        return Step(one)
    _must(one, State.ESTABLISHED, State.REP_SENT, State.DREQ_RECEIVED)
    if one.state is State.DREQ_RECEIVED:
        drep = Drep(one.local_id, one.remote_id)
        return Step(_timewait(one, drep, now), drep)
    dreq = Dreq(one.local_id, one.remote_id, one.remote_qpn)
    return Step(_repeating(one._replace(state=State.DREQ_SENT), dreq, now), dreq)


def destroy(one: Connection) -> Message | None:
    """Return what the peer is told when this side goes away."""
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


def expire(one: Connection, now: float) -> Step:
    """Do what the deadline asks for, if it has come."""
    if one.deadline is None or now < one.deadline:
        return Step(one)
    if one.state is State.TIMEWAIT:
        return Step(closed(one), told=Told.TIMEWAIT_OVER)
    if one.state is State.SIDR_RECEIVED:
        return Step(closed(one), destroy(one), Told.UNREACHABLE)
    if one.state in (State.REQ_RECEIVED, State.REP_RECEIVED):  # its own program says nothing
        return Step(closed(one), _rejection(one, Reason.TIMEOUT, b""), Told.UNREACHABLE)
    if one.retries > 0:
        again = one._replace(deadline=now + one.wait, retries=one.retries - 1)
        return Step(again, one.repeat)
    if one.state is State.DREQ_SENT:
        return Step(_timewait(one, None, now), told=Told.DISCONNECTED)
    if one.state is State.SIDR_SENT:
        return Step(closed(one), told=Told.UNREACHABLE)
    return Step(closed(one), _rejection(one, Reason.TIMEOUT, b""), Told.UNREACHABLE)


def receive(one: Connection, message: Message, now: float) -> Step:
    """Take a message of the peer; whatever does not fit the state changes nothing."""
    match message:
        case Req():
            return _receive_req(one, now)
        case Rep():
            return _receive_rep(one, message, now)
        case Rtu():
            return _established(one, message) if one.state is State.REP_SENT else Step(one)
        case Rej():
            return _receive_rej(one, message, now)
        case Mra():
            return _receive_mra(one, message, now)
        case Dreq():
            return _receive_dreq(one, message, now)
        case Drep():
            if one.state is not State.DREQ_SENT:
                return Step(one)
            return Step(_timewait(one, None, now), told=Told.DISCONNECTED, message=message)
        case SidrRep():
            if one.state is not State.SIDR_SENT:
                return Step(one)
            found = message.status == SidrStatus.VALID
            return Step(closed(one), None, Told.FOUND if found else Told.UNREACHABLE, message)
        case _:
            return Step(one)


_WAITS: Final = (16, 22)
"""What a peer may have us wait: from 0.3 s, so that one message of it makes no burst, to 17 s."""
_LONGEST_SERVICE: Final = 25  # 137 s
LONGEST_ANSWER: Final = 69.0
"""Seconds that a program has for an answer at most, from the peer's first request: so long an MRA
has the peer wait, and forged requests hold the queue pair that they name no longer."""


def _patience(one: Connection) -> float:
    return min((1 + one.most_retries) * one.wait, LONGEST_ANSWER)


def _within(code: int, least: int, most: int) -> int:
    return min(max(code, least), most)


_BEFORE: Final = (State.REQ_SENT, State.REP_SENT, State.REQ_RECEIVED, State.REP_RECEIVED)


def _receive_req(one: Connection, now: float) -> Step:
    if one.state is State.REQ_RECEIVED:  # its owner thinks: the peer shall wait longer
        again = one._replace(deadline=min(now + _patience(one), one.latest))
        return Step(again, Mra(one.local_id, one.remote_id, Rejected.REQ))
    return Step(one, one.repeat if one.state is State.REP_SENT else None)


def _receive_rep(one: Connection, rep: Rep, now: float) -> Step:
    if one.state is State.REQ_SENT:
        known = one._replace(remote_id=rep.local_id, remote_qpn=rep.qpn)
        deadline = now + LONGEST_ANSWER
        answered = known._replace(state=State.REP_RECEIVED, deadline=deadline, repeat=None)
        return Step(answered, None, Told.RESPONSE, rep)
    repeated = one.state is State.ESTABLISHED and rep.local_id == one.remote_id
    return Step(one, one.repeat if repeated else None)  # the RTU, of whoever sends any


def _receive_rej(one: Connection, rej: Rej, now: float) -> Step:
    if one.state in _BEFORE:
        return Step(closed(one), None, Told.REJECTED, rej)
    if one.state is State.ESTABLISHED:  # the RTU was lost, and then the peer went away
        return Step(_timewait(one, None, now), told=Told.DISCONNECTED, message=rej)
    return Step(one)


def _receive_mra(one: Connection, mra: Mra, now: float) -> Step:
    about = {State.REQ_SENT: Rejected.REQ, State.REP_SENT: Rejected.REP}.get(one.state)
    if about is None or mra.about != about:
        return Step(one)
    service = seconds(min(mra.service_timeout, _LONGEST_SERVICE))
    return Step(one._replace(deadline=now + one.wait + service))


def _receive_dreq(one: Connection, dreq: Dreq, now: float) -> Step:
    if dreq.qpn != one.qpn:
        return Step(one)
    if one.state in (State.ESTABLISHED, State.REP_SENT):
        asked = one._replace(state=State.DREQ_RECEIVED, deadline=None, repeat=None)
        return Step(asked, None, Told.DISCONNECTED, dreq)
    drep = Drep(one.local_id, one.remote_id)
    if one.state is State.DREQ_SENT:  # both at once
        return Step(_timewait(one, drep, now), drep, Told.DISCONNECTED, dreq)
    return Step(one, drep if one.state is State.TIMEWAIT else None)


def _established(one: Connection, message: Message | None = None) -> Step:
    done = one._replace(state=State.ESTABLISHED, deadline=None, repeat=None)
    return Step(done, None, Told.ESTABLISHED, message)


def _repeating(one: Connection, message: Message, now: float) -> Connection:
    """Send it again until it is answered, or as often as may be."""
    return one._replace(repeat=message, deadline=now + one.wait, retries=one.most_retries)


def _timewait(one: Connection, repeat: Message | None, now: float) -> Connection:
    return one._replace(state=State.TIMEWAIT, repeat=repeat, deadline=now + one.timewait)


def closed(one: Connection) -> Connection:
    """Return it as it is when nothing of it is left."""
    return one._replace(state=State.CLOSED, deadline=None, repeat=None)


def _rejection(one: Connection, reason: int, data: bytes) -> Rej:
    about = {
        State.REQ_RECEIVED: Rejected.REQ,
        State.REP_RECEIVED: Rejected.REP,
        State.REQ_SENT: Rejected.OTHER,
        State.REP_SENT: Rejected.OTHER,
    }[one.state]
    return Rej(one.local_id, one.remote_id, about, reason, data)


def _must(one: Connection, *states: State) -> None:
    if one.state not in states:
        raise InvalidCall(one.state.value)
