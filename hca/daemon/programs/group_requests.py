"""Process requests to attach a queue pair to a multicast group.

The wire joins the group first; for a pod's wire, netd opens the socket.
"""

import errno

from hca.daemon.objects.client_objects import Objects
from hca.daemon.programs import requests


async def answer(objects: Objects, data: bytes) -> tuple[bytes, tuple[int, ...], str]:
    """Execute a request to attach a queue pair to a multicast group, as ``requests.answer`` does.

    Raises:
        Malformed: no client library sends such a message.
    """
    header, request = requests.read(data)
    try:
        group = objects.check_member(request)
        if objects.wire_groups is None:
            return requests.carry_out(objects, header, request)
        async with objects.wire_groups.join(objects.gids, group):
            return requests.carry_out(objects, header, request)
    except OSError as err:
        return requests.encode(header, None, err.errno or errno.EIO), (), str(err)
