"""Requests of librdmacm: read, carried out, answered."""

import ctypes
import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hca.contract import cm
from hca.contract.cm import CmMessage
from hca.contract.hca import HcaHandle
from hca.daemon.cm.identifiers import Ids
from hca.daemon.programs.requests import Reply, encode, parse


@dataclass(frozen=True, slots=True)
class _Row:
    structure: type[ctypes.Structure] | None
    carry_out: Callable[[Ids, Any], Reply]


def _handle(call: Callable[[Ids, int], None]) -> _Row:
    return _plain(HcaHandle, lambda ids, named: call(ids, named.handle))


def _plain(structure: type[ctypes.Structure], call: Callable[[Ids, Any], None]) -> _Row:
    def carry_out(ids: Ids, wanted: Any) -> Reply:
        call(ids, wanted)
        return Reply()

    return _Row(structure, carry_out)


def _made(structure: type[ctypes.Structure], call: Callable[[Ids, Any], ctypes.Structure]) -> _Row:
    return _Row(structure, lambda ids, wanted: Reply(call(ids, wanted)))


def _channel(ids: Ids, _: None) -> Reply:
    made, reading = ids.create_channel()
    return Reply(made, (reading,))


_ROWS: Final[Mapping[int, _Row]] = {
    CmMessage.CHANNEL_CREATE: _Row(None, _channel),
    CmMessage.CHANNEL_DESTROY: _handle(Ids.destroy_channel),
    CmMessage.ID_CREATE: _made(cm.CmIdCreate, Ids.create_id),
    CmMessage.ID_DESTROY: _handle(Ids.destroy_id),
    CmMessage.BIND: _made(cm.CmBind, Ids.bind),
    CmMessage.LISTEN: _made(cm.CmPair, Ids.listen),
    CmMessage.RESOLVE_ADDRESS: _plain(cm.CmBind, Ids.resolve_address),
    CmMessage.RESOLVE_ROUTE: _handle(Ids.resolve_route),
    CmMessage.CONNECT: _plain(cm.CmConnect, Ids.connect),
    CmMessage.ACCEPT: _plain(cm.CmConnect, Ids.accept),
    CmMessage.ESTABLISH: _handle(Ids.establish),
    CmMessage.REJECT: _plain(cm.CmReject, Ids.reject),
    CmMessage.DISCONNECT: _handle(Ids.disconnect),
    CmMessage.MIGRATE: _plain(cm.CmPair, Ids.migrate),
    CmMessage.NOTIFY: _handle(Ids.notify),
    CmMessage.JOIN: _plain(cm.CmBind, Ids.join),
}
_EXPECTED: Final = {kind: row.structure for kind, row in _ROWS.items()}


def answer(ids: Ids, data: bytes) -> tuple[bytes, tuple[int, ...], str]:
    """Carry a request out; return the reply, its descriptors, and why it was refused, or "".

    Raises:
        Malformed: no client library sends such a thing.
    """
    header, body = parse(data, _EXPECTED)
    try:
        reply = _ROWS[header.type].carry_out(ids, body)
    except OSError as err:
        return encode(header, None, err.errno or errno.EIO), (), str(err)
    return encode(header, reply.payload), reply.descriptors, ""
