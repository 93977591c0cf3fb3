"""Requests to enter a multicast group: the wire enters it first, for which others may be asked."""

import errno

from hca.daemon.objects.client_objects import Objects
from hca.daemon.programs import requests


async def answer(objects: Objects, data: bytes) -> tuple[bytes, tuple[int, ...], str]:
    """Carry a request to enter a group out; as ``requests.answer``.

    Raises:
        Malformed: no client library sends such a thing.
    """
    header, wanted = requests.read(data)
    try:
        group = objects.check_member(wanted)
        if objects.wire_groups is None:
            return requests.carry_out(objects, header, wanted)
        async with objects.wire_groups.entered(objects.gids, group):
            return requests.carry_out(objects, header, wanted)
    except OSError as err:
        return requests.encode(header, None, err.errno or errno.EIO), (), str(err)
