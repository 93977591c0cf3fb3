"""Encode the connection manager's messages as MADs: 256 bytes each, class 7, version 2.

The format is in InfiniBand Architecture Specification volume 1, 12.6 and 13.4. Bytes from a wire
may be hostile: ``decode`` refuses bytes that are not one of these messages. Decoded private data
has the maximum length, because the format does not contain the actual length.
"""

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final

from hca.daemon.cm.messages import (
    MOST_DATA,
    Drep,
    Dreq,
    Message,
    Mra,
    Path,
    Rej,
    Rep,
    Req,
    Rtu,
    SidrRep,
    SidrReq,
)

MAD_BYTES: Final = 256
_HEADER: Final = struct.Struct(">BBBBHHQHHI")
_BASE, _CLASS, _CLASS_VERSION, _SEND = 1, 7, 2, 3
_REQ: Final = struct.Struct(">I4xQ8s4xIIIIIHBB44s44x")
_PATH: Final = struct.Struct(">HH16s16sIBBBB")
_REP: Final = struct.Struct(">IIIIIIBBBB8s")
_PERMISSIVE_LID: Final = 0xFFFF  # RoCE has no LIDs
_RATE: Final = 2  # 2.5 Gbit/s, which is no limit beyond that of the link


class Attribute(IntEnum):
    """Attribute ids of the connection manager's MADs."""

    REQ = 0x10
    MRA = 0x11
    REJ = 0x12
    REP = 0x13
    RTU = 0x14
    DREQ = 0x15
    DREP = 0x16
    SIDR_REQ = 0x17
    SIDR_REP = 0x18


class MalformedMad(ValueError):
    """The bytes are not a message of the connection manager; the exception's text states why."""


def encode(message: Message, transaction: int) -> bytes:
    """Return a message of the connection manager as a MAD.

    Raises ValueError if a number or the private data does not fit.
    """
    attribute, body = _ENCODERS[type(message)](message)
    data = getattr(message, "data", b"")
    if len(data) > MOST_DATA.get(type(message), 0):
        raise ValueError(f"{attribute.name}: {len(data)} bytes of private data are too many")
    header = _HEADER.pack(_BASE, _CLASS, _CLASS_VERSION, _SEND, 0, 0, transaction, attribute, 0, 0)
    return (header + body + data).ljust(MAD_BYTES, b"\0")


def decode(mad: bytes) -> tuple[Message, int]:
    """Return the message in a MAD and its transaction number. Raises MalformedMad."""
    if len(mad) != MAD_BYTES:
        raise MalformedMad(
            f"a management datagram must have {MAD_BYTES} bytes, this one has {len(mad)} bytes"
        )
    base, kind, version, method, _, _, transaction, attribute, _, _ = _HEADER.unpack_from(mad)
    if (base, kind, version, method) != (_BASE, _CLASS, _CLASS_VERSION, _SEND):
        raise MalformedMad(
            f"unsupported header: base version {base}, class {kind}, class version {version},"
            f" method {method}"
        )
    decoder = _DECODERS.get(attribute)
    if decoder is None:
        raise MalformedMad(f"unsupported attribute {attribute:#x}")
    return decoder(mad[_HEADER.size :]), transaction


def _upper(value: int, low: int) -> int:
    """Return a 32-bit number: the 24 bits of ``value``, then the 8 bits of ``low``."""
    return value << 8 | low


def _encode_req(req: Req) -> tuple[Attribute, bytes]:
    path = _PATH.pack(
        _PERMISSIVE_LID,
        _PERMISSIVE_LID,
        req.path.source,
        req.path.destination,
        req.path.flow_label << 12 | _RATE,
        req.path.traffic_class,
        req.path.hop_limit,
        req.path.service_level << 4,
        req.path.ack_timeout << 3,
    )
    transport = req.transport << 1 | req.flow_control
    body = _REQ.pack(
        req.local_id,
        req.service,
        req.guid,
        0,  # Q_Key
        _upper(req.qpn, req.responder_resources),
        _upper(0, req.initiator_depth),
        _upper(0, req.response_timeout << 3 | transport),
        _upper(req.psn, req.response_timeout << 3 | req.retry_count),
        req.pkey,
        req.mtu << 4 | req.rnr_retry_count,
        req.max_retries << 4 | req.srq << 3,
        path,
    )
    return Attribute.REQ, body


def _decode_req(body: bytes) -> Req:
    local_id, service, guid, _, qpn, depth, remote, psn, pkey, mtu, retries, raw = _REQ.unpack_from(
        body
    )
    _, _, source, destination, flow, traffic, hops, level, timeout = _PATH.unpack(raw)
    path = Path(source, destination, traffic, hops, flow >> 12, level >> 4, timeout >> 3)
    return Req(
        local_id,
        service,
        path,
        qpn >> 8,
        psn >> 8,
        guid,
        responder_resources=qpn & 0xFF,
        initiator_depth=depth & 0xFF,
        retry_count=psn & 7,
        rnr_retry_count=mtu & 7,
        flow_control=remote & 1,
        srq=retries >> 3 & 1,
        transport=remote >> 1 & 3,
        mtu=mtu >> 4,
        pkey=pkey,
        response_timeout=psn >> 3 & 31,
        max_retries=retries >> 4,
        data=body[_REQ.size :],
    )


def _encode_rep(rep: Rep) -> tuple[Attribute, bytes]:
    body = _REP.pack(
        rep.local_id,
        rep.remote_id,
        0,
        rep.qpn << 8,
        0,
        rep.psn << 8,
        rep.responder_resources,
        rep.initiator_depth,
        rep.flow_control,
        rep.rnr_retry_count << 5 | rep.srq << 4,
        rep.guid,
    )
    return Attribute.REP, body


def _decode_rep(body: bytes) -> Rep:
    local_id, remote_id, _, qpn, _, psn, resources, depth, flow, retries, guid = _REP.unpack_from(
        body
    )
    return Rep(
        local_id,
        remote_id,
        qpn >> 8,
        psn >> 8,
        guid,
        resources,
        depth,
        rnr_retry_count=retries >> 5,
        flow_control=flow & 1,
        srq=retries >> 4 & 1,
        data=body[_REP.size :],
    )


def _encode_mra(mra: Mra) -> tuple[Attribute, bytes]:
    body = struct.pack(
        ">IIBB", mra.local_id, mra.remote_id, mra.about << 6, mra.service_timeout << 3
    )
    return Attribute.MRA, body


def _decode_mra(body: bytes) -> Mra:
    local_id, remote_id, about, timeout = struct.unpack_from(">IIBB", body)
    return Mra(local_id, remote_id, about >> 6, timeout >> 3)


def _encode_rej(rej: Rej) -> tuple[Attribute, bytes]:
    body = struct.pack(">IIBBH72x", rej.local_id, rej.remote_id, rej.about << 6, 0, rej.reason)
    return Attribute.REJ, body


def _decode_rej(body: bytes) -> Rej:
    local_id, remote_id, about, _, reason = struct.unpack_from(">IIBBH", body)
    return Rej(local_id, remote_id, about >> 6, reason, body[84:])


def _encode_dreq(dreq: Dreq) -> tuple[Attribute, bytes]:
    return Attribute.DREQ, struct.pack(">III", dreq.local_id, dreq.remote_id, dreq.qpn << 8)


def _decode_dreq(body: bytes) -> Dreq:
    local_id, remote_id, qpn = struct.unpack_from(">III", body)
    return Dreq(local_id, remote_id, qpn >> 8, body[12:])


def _encode_sidr_req(sidr_req: SidrReq) -> tuple[Attribute, bytes]:
    return Attribute.SIDR_REQ, struct.pack(
        ">IHxxQ", sidr_req.request, sidr_req.pkey, sidr_req.service
    )


def _decode_sidr_req(body: bytes) -> SidrReq:
    request, pkey, service = struct.unpack_from(">IHxxQ", body)
    return SidrReq(request, service, pkey, body[16:])


def _encode_sidr_rep(sidr_rep: SidrRep) -> tuple[Attribute, bytes]:
    body = struct.pack(
        ">IB3xIQI72x",
        sidr_rep.request,
        sidr_rep.status,
        sidr_rep.qpn << 8,
        sidr_rep.service,
        sidr_rep.qkey,
    )
    return Attribute.SIDR_REP, body


def _decode_sidr_rep(body: bytes) -> SidrRep:
    request, status, qpn, service, qkey = struct.unpack_from(">IB3xIQI", body)
    return SidrRep(request, status, qpn >> 8, service, qkey, body[96:])


def _ids(attribute: Attribute) -> Callable[[Any], tuple[Attribute, bytes]]:
    return lambda message: (attribute, struct.pack(">II", message.local_id, message.remote_id))


def _two(kind: type[Rtu] | type[Drep], body: bytes) -> Message:
    local_id, remote_id = struct.unpack_from(">II", body)
    return kind(local_id, remote_id, body[8:])


_ENCODERS: Final[Mapping[type, Callable[[Any], tuple[Attribute, bytes]]]] = {
    Req: _encode_req,
    Mra: _encode_mra,
    Rej: _encode_rej,
    Rep: _encode_rep,
    Rtu: _ids(Attribute.RTU),
    Dreq: _encode_dreq,
    Drep: _ids(Attribute.DREP),
    SidrReq: _encode_sidr_req,
    SidrRep: _encode_sidr_rep,
}
_DECODERS: Final[Mapping[int, Callable[[bytes], Message]]] = {
    Attribute.REQ: _decode_req,
    Attribute.MRA: _decode_mra,
    Attribute.REJ: _decode_rej,
    Attribute.REP: _decode_rep,
    Attribute.RTU: lambda body: _two(Rtu, body),
    Attribute.DREQ: _decode_dreq,
    Attribute.DREP: lambda body: _two(Drep, body),
    Attribute.SIDR_REQ: _decode_sidr_req,
    Attribute.SIDR_REP: _decode_sidr_rep,
}
