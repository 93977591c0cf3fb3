"""Requests for device memory: the only ones for which hcad has to ask somebody else."""

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
    """Carry a request for device memory out; as ``requests.answer``, within ANSWER_SECONDS.

    ``token`` is whose the program is, ``sender`` who sent this very message.

    Raises:
        Malformed: no client library sends such a thing.
    """
    header, wanted = requests.parse(data, _EXPECTED)
    try:
        made = await _lend(objects, token, client, sender, _place(wanted))
    except TimeoutError:
        return requests.encode(header, None, errno.ETIMEDOUT), (), "no answer about device memory"
    except OSError as err:
        return requests.encode(header, None, err.errno or errno.EIO), (), str(err)
    return requests.encode(header, made), (), ""


def _place(wanted: HcaSegmentDevice | HcaSegmentShared) -> tuple[int, int, bytes]:
    """Return address and size, and the descriptor's range in which the address is an offset."""
    if isinstance(wanted, HcaSegmentShared):
        return wanted.offset, wanted.bytes, bytes(wanted.range)
    return wanted.address, wanted.bytes, b""


async def _lend(
    objects: Objects,
    token: bytes,
    client: socket.socket,
    sender: Peer | None,
    place: tuple[int, int, bytes],
) -> HcaDeviceSegment:
    address, size, _ = place
    if not 0 < size <= hca.HCA_MAX_MR_BYTES or address + size > 1 << 64:
        raise OSError(errno.EINVAL, "a range that cannot be")
    objects.check_device_room()
    providers = objects.providers
    if providers is None:
        raise OSError(errno.ENODEV, "no gpud provides device memory here")
    peer = peer_of(client)
    # A socket keeps the number of who connected it, though that process may have ended and another
    # have its number: whose memory would be lent then?
    if peer.pid <= 0 or sender is None or sender.pid != peer.pid:
        raise OSError(errno.EFAULT, "who asks for device memory is not the process that connected")
    async with asyncio.timeout(ANSWER_SECONDS):
        lent = await providers.borrow(token, peer.pid, *place)
    try:
        if connector_has_ended(client):
            raise OSError(errno.EFAULT, "the process that connected has ended")
        return objects.add_device(lent)
    except BaseException:
        providers.give_back(lent)
        raise


def is_asked_for(data: bytes) -> bool:
    """Tell whether a message asks for device memory."""
    return requests.type_of(data) in _EXPECTED
