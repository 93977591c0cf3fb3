"""Convert a client's requests to the connection manager's messages, and messages to events."""

import ctypes
import errno
from typing import Final

from hca.contract import cm
from hca.contract.cm import CmEvent, CmEventType
from hca.contract.hca import HCA_MAX_MTU, HCA_QPN_MASK, HcaQpAttributes
from hca.contract.verbs import VerbsState
from hca.daemon.cm.connection import Outcome
from hca.daemon.cm.endpoints import Function
from hca.daemon.cm.identifier import CmId
from hca.daemon.cm.messages import Message, Path, Rej, Rep, Req, SidrRep, SidrReq
from hca.daemon.cm.private_data import HEADER_BYTES

MULTICAST_QPN: Final = 0xFFFFFF

_TYPES: Final = {
    Outcome.RESPONSE: CmEventType.CONNECT_RESPONSE,
    Outcome.ESTABLISHED: CmEventType.ESTABLISHED,
    Outcome.REJECTED: CmEventType.REJECTED,
    Outcome.UNREACHABLE: CmEventType.UNREACHABLE,
    Outcome.DISCONNECTED: CmEventType.DISCONNECTED,
    Outcome.TIMEWAIT_OVER: CmEventType.TIMEWAIT_EXIT,
    Outcome.FOUND: CmEventType.ESTABLISHED,
}


def private_data(request: cm.CmConnect | cm.CmReject, max_bytes: int) -> bytes:
    """Return the private data in a client's request. Raises OSError if it is longer than
    ``max_bytes`` bytes.
    """
    if request.data_bytes > min(max_bytes, cm.CM_MAX_DATA):
        raise OSError(
            errno.EINVAL, f"{request.data_bytes} bytes of private data: the limit is {max_bytes}"
        )
    return bytes(request.data[: request.data_bytes])


def queue_pair(request: cm.CmConnect) -> int:
    """Return the queue pair number in a client's request. Raises OSError if the number is
    invalid.
    """
    if not 0 < request.qpn <= HCA_QPN_MASK:
        raise OSError(errno.EINVAL, f"queue pair {request.qpn}")
    number: int = request.qpn
    return number


def make_req(
    request: cm.CmConnect,
    number: int,
    service: int,
    path: Path,
    psn: int,
    data: bytes,
    mtu: int = HCA_MAX_MTU,
) -> Req:
    """Return the REQ for a client's request; ``mtu`` is the ibv_mtu of the path."""
    if request.ack_timeout:
        path = Path(path.source, path.destination, path.traffic_class, ack_timeout=_five(request))
    return Req(
        number,
        service,
        path,
        request.qpn & 0xFFFFFF,
        psn,
        responder_resources=request.responder_resources,
        initiator_depth=request.initiator_depth,
        retry_count=min(request.retry_count, 7),
        rnr_retry_count=min(request.rnr_retry_count, 7),
        flow_control=int(bool(request.flow_control)),
        srq=int(bool(request.srq)),
        mtu=mtu,
        data=data.ljust(92, b"\0"),
    )


def make_rep(
    request: cm.CmConnect, local_id: int, remote_id: int, qpn: int, psn: int, data: bytes
) -> Rep:
    """Return the REP for a client's request to accept a connection."""
    return Rep(
        local_id,
        remote_id,
        qpn,
        psn,
        responder_resources=request.responder_resources,
        initiator_depth=request.initiator_depth,
        rnr_retry_count=min(request.rnr_retry_count, 7),
        flow_control=int(bool(request.flow_control)),
        srq=int(bool(request.srq)),
        data=data.ljust(196, b"\0"),
    )


def make_event(cm_id: CmId, kind: CmEventType, status: int = 0) -> CmEvent:
    """Return an event of an id, with a type, a status and the id's addresses; other fields are
    zero.
    """
    return CmEvent(
        type=kind,
        status=status,
        handle=cm_id.handle,
        route=cm_id.route(),
        path=HcaQpAttributes(state=VerbsState.INIT),
        port_space=cm_id.port_space,
    )


def make_request_event(cm_id: CmId, function: Function, message: Req | SidrReq) -> CmEvent:
    """Return the CONNECT_REQUEST event for ``cm_id``, the id that was made for the peer's request.

    ``message`` is that request.
    """
    event = make_event(cm_id, CmEventType.CONNECT_REQUEST)
    assert cm_id.listener is not None
    event.listener = cm_id.listener.handle
    _put(event, message.data[HEADER_BYTES:])
    if isinstance(message, Req):
        event.qpn = message.qpn
        # Exchanged: the peer initiates the operations to which this side responds, and vice versa.
        event.responder_resources = message.initiator_depth
        event.initiator_depth = message.responder_resources
        event.flow_control, event.srq = message.flow_control, message.srq
        event.retry_count, event.rnr_retry_count = message.retry_count, message.rnr_retry_count
        event.path = path_to(cm_id, function, message)
    return event


def path_to(cm_id: CmId, function: Function, request: Req) -> HcaQpAttributes:
    """Return the attributes that the id's queue pair needs to connect to a requester's queue
    pair.
    """
    path = _path(cm_id, function, request, request.qpn, request.psn)
    path.rnr_retry = request.rnr_retry_count
    return path


def make_outcome_event(
    cm_id: CmId, function: Function, outcome: Outcome, message: Message | None
) -> CmEvent:
    """Return the event that reports a connection's outcome to the client of the id ``cm_id``."""
    event = make_event(cm_id, _TYPES[outcome])
    if outcome is Outcome.UNREACHABLE:
        event.status = message.status if isinstance(message, SidrRep) else -errno.ETIMEDOUT
    if isinstance(message, Rej):
        event.status = message.reason if outcome is Outcome.REJECTED else 0
    if message is not None and not isinstance(message, SidrReq):
        _put(event, getattr(message, "data", b""))
    if isinstance(message, Rep) and isinstance(cm_id.request, Req):
        event.qpn = message.qpn
        event.responder_resources = message.initiator_depth
        event.initiator_depth = message.responder_resources
        event.flow_control, event.srq = message.flow_control, message.srq
        event.rnr_retry_count = message.rnr_retry_count
        event.path = _path(cm_id, function, cm_id.request, message.qpn, message.psn)
        event.path.rnr_retry = message.rnr_retry_count
    if outcome is Outcome.FOUND and isinstance(message, SidrRep):
        event.qpn, event.qkey = message.qpn, message.qkey
        event.path = _path(cm_id, function, None, message.qpn, 0)
    return event


def make_join_event(cm_id: CmId, function: Function, group: bytes, source: bytes) -> CmEvent:
    """Return the event that reports that an id has joined a multicast group.

    The event contains ``group``, the group's GID. ``source`` is the GID of the function from
    which the id sends to the group.
    """
    event = make_event(cm_id, CmEventType.MULTICAST_JOIN)
    event.qpn, event.qkey = MULTICAST_QPN, cm.CM_UDP_QKEY
    event.path = _path(cm_id, function, None, MULTICAST_QPN, 0)
    event.path.sgid_index = function.gids.index(source)
    ctypes.memmove(event.path.dgid, group, 16)
    return event


def _path(cm_id: CmId, function: Function, req: Req | None, qpn: int, psn: int) -> HcaQpAttributes:
    """Return the attributes that connect a queue pair to the peer's queue pair ``qpn``."""
    path = HcaQpAttributes(
        state=VerbsState.RTR,
        path_mtu=min(req.mtu, function.mtu) if req else function.mtu,
        rq_psn=psn,
        sq_psn=cm_id.psn,
        dest_qpn=qpn,
        traffic_class=req.path.traffic_class if req else 0,
        timeout=req.path.ack_timeout if req else 0,
        retry_count=req.retry_count if req else 0,
        sgid_index=function.gids.index(cm_id.gid),
        hop_limit=64,
        is_global=1,
        port=1,
        av_port=1,
    )
    ctypes.memmove(path.dgid, cm_id.peer, 16)
    return path


def _put(event: CmEvent, data: bytes) -> None:
    event.data_bytes = len(data)
    ctypes.memmove(event.data, data, len(data))


def _five(request: cm.CmConnect) -> int:
    return min(int(request.ack_timeout), 31)
