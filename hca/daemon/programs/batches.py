"""Several requests in one message: what a connection needs is made, changed or removed at once.

A message of type BATCH holds others, one behind the other, and is answered by one that holds their
replies, with their descriptors in order. They are carried out in turn until one is refused; what
was made before stays, and what comes behind is not answered. Instead of a handle a message may name
what an earlier one of the batch has made: ``HCA_BATCH_MADE`` with its place.
"""

import ctypes
import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from hca.contract import hca
from hca.contract.hca import HcaMessage
from hca.daemon.objects.checks import refused
from hca.daemon.objects.client_objects import Objects
from hca.daemon.programs import requests
from hca.daemon.programs.requests import HEADER_BYTES, Malformed
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import Header

# What a batch may hold, and which fields of it name what another one makes.
_NAMES: Final[Mapping[int, tuple[str, ...]]] = {
    HcaMessage.CHANNEL_CREATE: (),
    HcaMessage.CHANNEL_DESTROY: (),
    HcaMessage.CQ_CREATE: ("channel",),
    HcaMessage.CQ_DESTROY: (),
    HcaMessage.QP_CREATE: ("send_cq", "recv_cq"),
    HcaMessage.QP_MODIFY: ("handle",),
    HcaMessage.QP_DESTROY: (),
}
_Request = tuple[Header, Any]


def answer(objects: Objects, data: bytes) -> tuple[bytes, tuple[int, ...], str]:
    """Carry a batch out; as ``requests.answer``.

    Raises:
        Malformed: no client library sends such a thing; nothing of it was carried out.
    """
    header, parts = _read(data)
    replies, made, descriptors, why = b"", list[int](), list[int](), ""
    try:
        for part, body in parts:
            try:
                _resolve(part, body, made)
            except OSError as err:
                replies, why = (
                    replies + requests.encode(part, None, err.errno or errno.EIO),
                    str(err),
                )
                break
            reply, brought, why = requests.carry_out(objects, part, body)
            replies += reply
            descriptors += brought
            if why:
                break
            made.append(_handle_of(reply))
    except BaseException:
        for descriptor in descriptors:
            with suppress(OSError):
                os.close(descriptor)
        raise
    return requests.encode_bytes(header, replies), tuple(descriptors), why


def _read(data: bytes) -> tuple[Header, list[_Request]]:
    """Read all of a batch, before any of it is carried out. Raises Malformed."""
    header = Header.from_buffer_copy(data)  # it is as long as one: its type was read
    known = header.magic == messages.MAGIC and header.version == messages.PROTOCOL_VERSION
    if not known or header.reserved or header.status:
        raise Malformed("a batch with a foreign header")
    if header.payload_bytes != len(data) - HEADER_BYTES:
        raise Malformed(f"a batch with {len(data)} bytes")
    parts: list[_Request] = []
    at = HEADER_BYTES
    while at < len(data):
        if len(parts) == hca.HCA_MAX_BATCH or len(data) - at < HEADER_BYTES:
            raise Malformed("a batch of too many messages, or with a part of one")
        end = at + HEADER_BYTES + Header.from_buffer_copy(data, at).payload_bytes
        part, body = requests.read(data[at:end])
        if part.type not in _NAMES:
            raise Malformed(f"a batch with type {part.type}")
        parts.append((part, body))
        at = end
    return header, parts


def _resolve(part: Header, body: Any, made: list[int]) -> None:
    """Put handles where what earlier messages have made is named. Raises OSError."""
    for name in _NAMES[part.type]:
        value = getattr(body, name)
        if value & hca.HCA_BATCH_MADE:
            place = value & ~hca.HCA_BATCH_MADE
            if place >= len(made) or not made[place]:
                raise refused(errno.EINVAL)
            setattr(body, name, made[place])


def _handle_of(reply: bytes) -> int:
    """Return what a request has made; 0: nothing. Whatever makes something says that first."""
    if len(reply) <= HEADER_BYTES:
        return 0
    return int(ctypes.c_uint32.from_buffer_copy(reply, HEADER_BYTES).value)
