"""Process batches: requests in one message, by which a client sets up or removes a connection.

A message of type BATCH contains requests in sequence. Its reply contains the replies to these
requests, with their descriptors in order. hcad executes the requests in turn until it refuses
one: the earlier ones remain in effect, the later ones get no reply. Instead of a handle a
request may name the object that an earlier request of the batch has created: by
``HCA_BATCH_MADE`` with that request's position.
"""

import ctypes
import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from hca.contract import hca
from hca.contract.hca import HcaMessage
from hca.daemon.objects.checks import os_error
from hca.daemon.objects.client_objects import Objects
from hca.daemon.programs import requests
from hca.daemon.programs.requests import HEADER_BYTES, Malformed
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import Header

# The requests that a batch may contain, with the fields that may name an earlier request's object.
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
    """Execute a batch of requests.

    Return the same three values as ``requests.answer``: the reply, its descriptors, and the reason
    for a refusal ("" if there was none).

    Raises:
        Malformed: no client library sends such a message; nothing was executed.
    """
    header, parts = _read(data)
    replies, handles, descriptors, why = b"", list[int](), list[int](), ""
    try:
        for part, body in parts:
            try:
                _resolve(part, body, handles)
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
            handles.append(_handle_of(reply))
    except BaseException:
        for descriptor in descriptors:
            with suppress(OSError):
                os.close(descriptor)
        raise
    return requests.encode_bytes(header, replies), tuple(descriptors), why


def _read(data: bytes) -> tuple[Header, list[_Request]]:
    """Parse all requests of a batch before any is executed. Raises Malformed."""
    header = Header.from_buffer_copy(data)  # it is long enough, as its type was read
    is_known = header.magic == messages.MAGIC and header.version == messages.PROTOCOL_VERSION
    if not is_known or header.reserved or header.status:
        raise Malformed("a batch has an invalid header")
    if header.payload_bytes != len(data) - HEADER_BYTES:
        raise Malformed(f"a batch has {len(data)} bytes, but its header states a different size")
    parts: list[_Request] = []
    at = HEADER_BYTES
    while at < len(data):
        if len(parts) == hca.HCA_MAX_BATCH or len(data) - at < HEADER_BYTES:
            raise Malformed("a batch has too many requests, or its last request is incomplete")
        end = at + HEADER_BYTES + Header.from_buffer_copy(data, at).payload_bytes
        part, body = requests.read(data[at:end])
        if part.type not in _NAMES:
            raise Malformed(f"a batch cannot contain a request of type {part.type}")
        parts.append((part, body))
        at = end
    return header, parts


def _resolve(part: Header, body: Any, handles: list[int]) -> None:
    """Replace references to earlier requests of the batch by the handles of their objects.

    Raises OSError.
    """
    for name in _NAMES[part.type]:
        value = getattr(body, name)
        if value & hca.HCA_BATCH_MADE:
            place = value & ~hca.HCA_BATCH_MADE
            if place >= len(handles) or not handles[place]:
                raise os_error(errno.EINVAL)
            setattr(body, name, handles[place])


def _handle_of(reply: bytes) -> int:
    """Return the handle with which a reply begins, or 0 if it has none."""
    if len(reply) <= HEADER_BYTES:
        return 0
    return int(ctypes.c_uint32.from_buffer_copy(reply, HEADER_BYTES).value)
