"""Process requests of a client that has opened its function: parse, execute, reply."""

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from hca.contract import hca, hca_frames, hca_objects
from hca.contract.hca import HcaHandle, HcaMessage
from hca.daemon.objects.client_objects import Objects
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import Header
from vgpu_sim.records import dataclass

HEADER_BYTES: Final = ctypes.sizeof(Header)
_HEADER: Final = struct.Struct("=IHHIiII")


class Malformed(Exception):
    """A message that no client library sends; hcad then closes the connection."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply to a request. Its descriptors are sent with it and then closed."""

    payload: ctypes.Structure | None = None
    descriptors: tuple[int, ...] = ()


def _with_descriptor(structure_and_descriptor: tuple[ctypes.Structure, int]) -> Reply:
    return Reply(structure_and_descriptor[0], (structure_and_descriptor[1],))


def _destroying(destroy: Callable[[Objects, int], None]) -> Callable[[Objects, Any], Reply]:
    def carry_out(objects: Objects, named: HcaHandle) -> Reply:
        destroy(objects, named.handle)
        return Reply()

    return carry_out


def _silent(change: Callable[[Objects, Any], None]) -> Callable[[Objects, Any], Reply]:
    def carry_out(objects: Objects, request: Any) -> Reply:
        change(objects, request)
        return Reply()

    return carry_out


@dataclass(frozen=True, slots=True)
class _Row:
    structure: type[ctypes.Structure] | None
    carry_out: Callable[[Objects, Any], Reply]


_ROWS: Final[Mapping[HcaMessage, _Row]] = {
    HcaMessage.ASYNC: _Row(None, lambda o, _: Reply(None, (os.dup(o.async_fd),))),
    HcaMessage.PD_CREATE: _Row(None, lambda o, _: Reply(o.create_pd())),
    HcaMessage.PD_DESTROY: _Row(HcaHandle, _destroying(Objects.destroy_pd)),
    HcaMessage.CHANNEL_CREATE: _Row(None, lambda o, _: _with_descriptor(o.create_channel())),
    HcaMessage.CHANNEL_DESTROY: _Row(HcaHandle, _destroying(Objects.destroy_channel)),
    HcaMessage.CQ_CREATE: _Row(hca.HcaCqCreate, lambda o, m: _with_descriptor(o.create_cq(m))),
    HcaMessage.CQ_DESTROY: _Row(HcaHandle, _destroying(Objects.destroy_cq)),
    HcaMessage.SEGMENT_CREATE: _Row(
        hca.HcaSegmentCreate, lambda o, m: _with_descriptor(o.create_segment(m))
    ),
    HcaMessage.SEGMENT_DESTROY: _Row(HcaHandle, _destroying(Objects.destroy_segment)),
    HcaMessage.MR_CREATE: _Row(hca.HcaMrCreate, lambda o, m: Reply(o.create_region(m))),
    HcaMessage.MR_DESTROY: _Row(HcaHandle, _destroying(Objects.destroy_region)),
    HcaMessage.QP_CREATE: _Row(hca.HcaQpCreate, lambda o, m: _with_descriptor(o.create_qp(m))),
    HcaMessage.QP_MODIFY: _Row(hca.HcaQpModify, lambda o, m: Reply(o.modify_qp(m))),
    HcaMessage.QP_QUERY: _Row(HcaHandle, lambda o, m: Reply(o.query_qp(m.handle))),
    HcaMessage.QP_DESTROY: _Row(HcaHandle, _destroying(Objects.destroy_qp)),
    HcaMessage.CQ_RESIZE: _Row(
        hca_objects.HcaCqResize, lambda o, m: _with_descriptor(o.resize_cq(m))
    ),
    HcaMessage.SRQ_CREATE: _Row(
        hca_objects.HcaSrqCreate, lambda o, m: _with_descriptor(o.create_srq(m))
    ),
    HcaMessage.SRQ_MODIFY: _Row(hca_objects.HcaSrqModify, _silent(Objects.modify_srq)),
    HcaMessage.SRQ_QUERY: _Row(HcaHandle, lambda o, m: Reply(o.query_srq(m.handle))),
    HcaMessage.SRQ_DESTROY: _Row(HcaHandle, _destroying(Objects.destroy_srq)),
    HcaMessage.AH_CREATE: _Row(hca_objects.HcaAhCreate, lambda o, m: Reply(o.create_ah(m))),
    HcaMessage.AH_DESTROY: _Row(HcaHandle, _destroying(Objects.destroy_ah)),
    HcaMessage.MW_CREATE: _Row(hca_objects.HcaMwCreate, lambda o, m: Reply(o.create_window(m))),
    HcaMessage.MW_DESTROY: _Row(HcaHandle, _destroying(Objects.destroy_window)),
    HcaMessage.MCAST_ATTACH: _Row(hca_objects.HcaMcast, _silent(Objects.attach)),
    HcaMessage.MCAST_DETACH: _Row(hca_objects.HcaMcast, _silent(Objects.detach)),
    HcaMessage.STEER_CREATE: _Row(hca_frames.HcaSteerCreate, lambda o, m: Reply(o.create_steer(m))),
    HcaMessage.STEER_DESTROY: _Row(HcaHandle, _destroying(Objects.destroy_steer)),
}
_BY_NUMBER: Final[Mapping[int, _Row]] = {int(kind): row for kind, row in _ROWS.items()}
_EXPECTED: Final[Mapping[int, type[ctypes.Structure] | None]] = {
    kind: row.structure for kind, row in _ROWS.items()
}
MAX_REQUEST_BYTES: Final = HEADER_BYTES + ctypes.sizeof(hca.HcaMrCreate)


def parse(data: bytes, expected: Mapping[int, type[ctypes.Structure] | None]) -> tuple[Header, Any]:
    """Parse a message that must have one of the expected types; return its header and its payload.

    Raises:
        Malformed: wrong size, magic, version, type or reserved field.
    """
    if len(data) < HEADER_BYTES:
        raise Malformed(f"a request of {len(data)} bytes is too short for a header")
    header = Header.from_buffer_copy(data)
    if header.magic != messages.MAGIC or header.version != messages.PROTOCOL_VERSION:
        raise Malformed(f"unsupported header: magic {header.magic:#010x}, version {header.version}")
    if header.type not in expected or header.reserved or header.status:
        raise Malformed(f"unknown request type {header.type}")
    structure = expected[header.type]
    size = ctypes.sizeof(structure) if structure is not None else 0
    if header.payload_bytes != size or len(data) != HEADER_BYTES + size:
        raise Malformed(f"a request of type {header.type} has a wrong size: {len(data)} bytes")
    body = structure.from_buffer_copy(data, HEADER_BYTES) if structure is not None else None
    return header, body


def type_of(data: bytes) -> int:
    """Return a message's type, or 0 if the message is too short to have one."""
    return int(_HEADER.unpack_from(data)[2]) if len(data) >= HEADER_BYTES else 0


def encode(request: Header, payload: ctypes.Structure | None, status: int = 0) -> bytes:
    """Encode the reply to a request; ``status`` is an errno value."""
    return encode_bytes(request, bytes(payload) if payload is not None else b"", status)


def encode_bytes(request: Header, body: bytes, status: int = 0) -> bytes:
    """Encode the reply to a request; ``body`` is the reply's payload, ``status`` an errno value."""
    # Has the layout of ``Header``; a ctypes structure takes ten times as long to make.
    header = _HEADER.pack(
        messages.MAGIC,
        messages.PROTOCOL_VERSION,
        request.type + 1,
        request.request,
        status,
        len(body),
        0,
    )
    return header + body


def read(data: bytes) -> tuple[Header, Any]:
    """Parse a request; return its header and its payload.

    Raises:
        Malformed: no client library sends such a message.
    """
    return parse(data, _EXPECTED)


def answer(objects: Objects, data: bytes) -> tuple[bytes, tuple[int, ...], str]:
    """Execute a client's request.

    Return the reply, its descriptors, and the reason for a refusal ("" if there was none).

    Raises:
        Malformed: no client library sends such a message.
    """
    return carry_out(objects, *read(data))


def carry_out(objects: Objects, header: Header, body: Any) -> tuple[bytes, tuple[int, ...], str]:
    """Execute a request that has been parsed. The result has the same form as that of
    ``answer``.
    """
    try:
        reply = _BY_NUMBER[header.type].carry_out(objects, body)
    except OSError as err:
        return encode(header, None, err.errno or errno.EIO), (), str(err)
    return encode(header, reply.payload), reply.descriptors, ""
