"""Process requests of librdmacm: parse a request, execute it, and reply."""

import ctypes
import errno
from collections.abc import Callable, Mapping
from typing import Any, Final

from hca.contract import cm
from hca.contract.cm import CmMessage
from hca.contract.hca import HcaHandle
from hca.daemon.cm.identifiers import Ids
from hca.daemon.programs.requests import Reply, encode, parse
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class _Row:
    structure: type[ctypes.Structure] | None
    carry_out: Callable[[Ids, Any], Reply]


def _handle(call: Callable[[Ids, int], None]) -> _Row:
    return _row_without_reply(HcaHandle, lambda ids, named: call(ids, named.handle))


def _row_without_reply(structure: type[ctypes.Structure], call: Callable[[Ids, Any], None]) -> _Row:
    def carry_out(ids: Ids, request: Any) -> Reply:
        call(ids, request)
        return Reply()

    return _Row(structure, carry_out)


def _row_returning(
    structure: type[ctypes.Structure], call: Callable[[Ids, Any], ctypes.Structure]
) -> _Row:
    return _Row(structure, lambda ids, request: Reply(call(ids, request)))


def _channel(ids: Ids, _: None) -> Reply:
    handle, reading = ids.create_channel()
    return Reply(handle, (reading,))


_ROWS: Final[Mapping[int, _Row]] = {
    CmMessage.CHANNEL_CREATE: _Row(None, _channel),
    CmMessage.CHANNEL_DESTROY: _handle(Ids.destroy_channel),
    CmMessage.ID_CREATE: _row_returning(cm.CmIdCreate, Ids.create_id),
    CmMessage.ID_DESTROY: _handle(Ids.destroy_id),
    CmMessage.BIND: _row_returning(cm.CmBind, Ids.bind),
    CmMessage.LISTEN: _row_returning(cm.CmPair, Ids.listen),
    CmMessage.RESOLVE_ADDRESS: _row_without_reply(cm.CmBind, Ids.resolve_address),
    CmMessage.RESOLVE_ROUTE: _handle(Ids.resolve_route),
    CmMessage.CONNECT: _row_without_reply(cm.CmConnect, Ids.connect),
    CmMessage.ACCEPT: _row_without_reply(cm.CmConnect, Ids.accept),
    CmMessage.ESTABLISH: _handle(Ids.establish),
    CmMessage.REJECT: _row_without_reply(cm.CmReject, Ids.reject),
    CmMessage.DISCONNECT: _handle(Ids.disconnect),
    CmMessage.MIGRATE: _row_without_reply(cm.CmPair, Ids.migrate),
    CmMessage.NOTIFY: _handle(Ids.notify),
    CmMessage.JOIN: _row_without_reply(cm.CmBind, Ids.join),
}
_EXPECTED: Final = {kind: row.structure for kind, row in _ROWS.items()}


def answer(ids: Ids, data: bytes) -> tuple[bytes, tuple[int, ...], str]:
    """Execute a request of librdmacm.

    Return the reply, its descriptors, and the reason for a refusal ("" if there was none).

    Raises:
        Malformed: no client library sends such a message.
    """
    header, body = parse(data, _EXPECTED)
    try:
        reply = _ROWS[header.type].carry_out(ids, body)
    except OSError as err:
        return encode(header, None, err.errno or errno.EIO), (), str(err)
    return encode(header, reply.payload), reply.descriptors, ""
