"""Process requests for device memory, which hcad imports from gpud before it replies."""

import asyncio
import errno
import socket
from typing import Final

from hca.contract import hca
from hca.contract.hca import HcaMessage
from hca.contract.hca_objects import HcaDeviceSegment, HcaSegmentDevice, HcaSegmentShared
from hca.daemon.common.functions import connector_has_ended
from hca.daemon.objects.client_objects import Objects
from hca.daemon.objects.providers import ANSWER_SECONDS
from hca.daemon.programs import requests
from vgpu_sim.system.peers import Peer, peer_of

_EXPECTED: Final = {
    int(HcaMessage.SEGMENT_DEVICE): HcaSegmentDevice,
    int(HcaMessage.SEGMENT_SHARED): HcaSegmentShared,
}


async def answer(
    objects: Objects, token: bytes, client: socket.socket, sender: Peer | None, data: bytes
) -> tuple[bytes, tuple[int, ...], str]:
    """Execute a request for device memory; return the same as ``requests.answer``.

    If gpud does not respond within ANSWER_SECONDS, the reply has the status ETIMEDOUT. ``token``
    is the program's token; ``sender`` is the process that sent this message.

    Raises:
        Malformed: no client library sends such a message.
    """
    header, request = requests.parse(data, _EXPECTED)
    try:
        segment = await _attach(objects, token, client, sender, _place(request))
    except TimeoutError:
        return requests.encode(header, None, errno.ETIMEDOUT), (), "no answer about device memory"
    except OSError as err:
        return requests.encode(header, None, err.errno or errno.EIO), (), str(err)
    return requests.encode(header, segment), (), ""


def _place(request: HcaSegmentDevice | HcaSegmentShared) -> tuple[int, int, bytes]:
    """Return address and size of the requested device memory, and the range of an exported
    descriptor.

    With such a range, the address is an offset in the range.
    """
    if isinstance(request, HcaSegmentShared):
        return request.offset, request.bytes, bytes(request.range)
    return request.address, request.bytes, b""


async def _attach(
    objects: Objects,
    token: bytes,
    client: socket.socket,
    sender: Peer | None,
    place: tuple[int, int, bytes],
) -> HcaDeviceSegment:
    address, size, _ = place
    if not 0 < size <= hca.HCA_MAX_MR_BYTES or address + size > 1 << 64:
        raise OSError(errno.EINVAL, "invalid range")
    objects.check_device_room()
    providers = objects.providers
    if providers is None:
        raise OSError(errno.ENODEV, "no gpud provides device memory here")
    peer = peer_of(client)
    # A socket keeps the pid of the process that connected. If that process has ended, another may
    # have the pid now: hcad would then import the other's memory.
    if peer.pid <= 0 or sender is None or sender.pid != peer.pid:
        raise OSError(errno.EFAULT, "the sender of the request is not the process that connected")
    async with asyncio.timeout(ANSWER_SECONDS):
        imported = await providers.import_memory(token, peer.pid, *place)
    try:
        if connector_has_ended(client):
            raise OSError(errno.EFAULT, "the process that connected has ended")
        return objects.add_imported_segment(imported)
    except BaseException:
        providers.release(imported)
        raise


def is_device_memory_request(data: bytes) -> bool:
    """Return whether a message is a request for device memory."""
    return requests.type_of(data) in _EXPECTED
