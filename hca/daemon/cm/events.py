"""What the connection manager's messages and a client's requests and events have in common."""

import ctypes
import errno
from typing import Final

from hca.contract import cm
from hca.contract.cm import CmEvent, CmEventType
from hca.contract.hca import HCA_MAX_MTU, HCA_QPN_MASK, HcaQpAttributes
from hca.contract.verbs import VerbsState
from hca.daemon.cm.connection import Told
from hca.daemon.cm.endpoints import Function
from hca.daemon.cm.identifier import CmId
from hca.daemon.cm.messages import Message, Path, Rej, Rep, Req, SidrRep, SidrReq
from hca.daemon.cm.private_data import HEADER_BYTES

MULTICAST_QPN: Final = 0xFFFFFF

_TYPES: Final = {
    Told.RESPONSE: CmEventType.CONNECT_RESPONSE,
    Told.ESTABLISHED: CmEventType.ESTABLISHED,
    Told.REJECTED: CmEventType.REJECTED,
    Told.UNREACHABLE: CmEventType.UNREACHABLE,
    Told.DISCONNECTED: CmEventType.DISCONNECTED,
    Told.TIMEWAIT_OVER: CmEventType.TIMEWAIT_EXIT,
    Told.FOUND: CmEventType.ESTABLISHED,
}


def private_data(wanted: cm.CmConnect | cm.CmReject, most: int) -> bytes:
    """Return a client's private data. Raises OSError where it is longer than ``most``."""
    if wanted.data_bytes > min(most, cm.CM_MAX_DATA):
        raise OSError(errno.EINVAL, f"{wanted.data_bytes} bytes of private data: at most {most}")
    return bytes(wanted.data[: wanted.data_bytes])


def queue_pair(wanted: cm.CmConnect) -> int:
    """Return the number of a client's queue pair. Raises OSError where there is no such number."""
    if not 0 < wanted.qpn <= HCA_QPN_MASK:
        raise OSError(errno.EINVAL, f"queue pair {wanted.qpn}")
    number: int = wanted.qpn
    return number


def request(
    wanted: cm.CmConnect,
    number: int,
    service: int,
    path: Path,
    psn: int,
    data: bytes,
    mtu: int = HCA_MAX_MTU,
) -> Req:
    """Return the REQ of a client's parameters; ``mtu`` is the path's, as ibv_mtu."""
    if wanted.ack_timeout:
        path = Path(path.source, path.destination, path.traffic_class, ack_timeout=_five(wanted))
    return Req(
        *(number, service, path, wanted.qpn & 0xFFFFFF, psn),
        responder_resources=wanted.responder_resources,
        initiator_depth=wanted.initiator_depth,
        retry_count=min(wanted.retry_count, 7),
        rnr_retry_count=min(wanted.rnr_retry_count, 7),
        flow_control=int(bool(wanted.flow_control)),
        srq=int(bool(wanted.srq)),
        mtu=mtu,
        data=data.ljust(92, b"\0"),
    )


def reply(
    wanted: cm.CmConnect, local_id: int, remote_id: int, qpn: int, psn: int, data: bytes
) -> Rep:
    """Return the REP of a client's parameters."""
    return Rep(
        *(local_id, remote_id, qpn, psn),
        responder_resources=wanted.responder_resources,
        initiator_depth=wanted.initiator_depth,
        rnr_retry_count=min(wanted.rnr_retry_count, 7),
        flow_control=int(bool(wanted.flow_control)),
        srq=int(bool(wanted.srq)),
        data=data.ljust(196, b"\0"),
    )


def plain(one: CmId, kind: CmEventType, status: int = 0) -> CmEvent:
    """Return an event that says no more than its type, a status and the id's addresses."""
    return CmEvent(
        type=kind,
        status=status,
        handle=one.handle,
        route=one.route(),
        path=HcaQpAttributes(state=VerbsState.INIT),
        port_space=one.port_space,
    )


def requested(one: CmId, function: Function, message: Req | SidrReq) -> CmEvent:
    """Return the event of a request that ``one`` was made for."""
    event = plain(one, CmEventType.CONNECT_REQUEST)
    assert one.listener is not None
    event.listener = one.listener.handle
    _put(event, message.data[HEADER_BYTES:])
    if isinstance(message, Req):
        event.qpn = message.qpn
        # The peer's view turned around: what it initiates is what we respond to.
        event.responder_resources = message.initiator_depth
        event.initiator_depth = message.responder_resources
        event.flow_control, event.srq = message.flow_control, message.srq
        event.retry_count, event.rnr_retry_count = message.retry_count, message.rnr_retry_count
        event.path = path_to(one, function, message)
    return event


def path_to(one: CmId, function: Function, asked: Req) -> HcaQpAttributes:
    """Return what the queue pair is to be set to of who was ``asked``."""
    path = _path(one, function, asked, asked.qpn, asked.psn)
    path.rnr_retry = asked.rnr_retry_count
    return path


def told(one: CmId, function: Function, told: Told, message: Message | None) -> CmEvent:
    """Return the event of what became of a connection."""
    event = plain(one, _TYPES[told])
    if told is Told.UNREACHABLE:
        event.status = message.status if isinstance(message, SidrRep) else -errno.ETIMEDOUT
    if isinstance(message, Rej):
        event.status = message.reason if told is Told.REJECTED else 0
    if message is not None and not isinstance(message, SidrReq):
        _put(event, getattr(message, "data", b""))
    if isinstance(message, Rep) and isinstance(one.request, Req):
        event.qpn = message.qpn
        event.responder_resources = message.initiator_depth
        event.initiator_depth = message.responder_resources
        event.flow_control, event.srq = message.flow_control, message.srq
        event.rnr_retry_count = message.rnr_retry_count
        event.path = _path(one, function, one.request, message.qpn, message.psn)
        event.path.rnr_retry = message.rnr_retry_count
    if told is Told.FOUND and isinstance(message, SidrRep):
        event.qpn, event.qkey = message.qpn, message.qkey
        event.path = _path(one, function, None, message.qpn, 0)
    return event


def joined(one: CmId, function: Function, group: bytes, source: bytes) -> CmEvent:
    """Return the event of a multicast group that an id may use: its address is the group's GID.

    ``source`` is the function's GID from which the group is reached.
    """
    event = plain(one, CmEventType.MULTICAST_JOIN)
    event.qpn, event.qkey = MULTICAST_QPN, cm.CM_UDP_QKEY
    event.path = _path(one, function, None, MULTICAST_QPN, 0)
    event.path.sgid_index = function.gids.index(source)
    ctypes.memmove(event.path.dgid, group, 16)
    return event


def _path(one: CmId, function: Function, req: Req | None, qpn: int, psn: int) -> HcaQpAttributes:
    """Return what a queue pair is to be set to that talks with the peer's ``qpn``."""
    path = HcaQpAttributes(
        state=VerbsState.RTR,
        path_mtu=min(req.mtu, function.mtu) if req else function.mtu,
        rq_psn=psn,
        sq_psn=one.psn,
        dest_qpn=qpn,
        traffic_class=req.path.traffic_class if req else 0,
        timeout=req.path.ack_timeout if req else 0,
        retry_count=req.retry_count if req else 0,
        sgid_index=function.gids.index(one.gid),
        hop_limit=64,
        is_global=1,
        port=1,
        av_port=1,
    )
    ctypes.memmove(path.dgid, one.peer, 16)
    return path


def _put(event: CmEvent, data: bytes) -> None:
    event.data_bytes = len(data)
    ctypes.memmove(event.data, data, len(data))


def _five(wanted: cm.CmConnect) -> int:
    return min(int(wanted.ack_timeout), 31)
