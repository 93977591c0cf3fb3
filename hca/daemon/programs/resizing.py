"""Requests for another size of a completion queue: a smaller one has to hold what is under way.

What was posted before completes first, as far as the engine can carry it out. Its function may have
to wait for its turns, and hcad answers other programs meanwhile.
"""

import asyncio
import errno
from typing import Final

from hca.daemon.objects.client_objects import Objects
from hca.daemon.programs import requests

ROUNDS: Final = 2  # one that had begun, and one more
MOST_SECONDS: Final = 0.5
MOST_LOOKS: Final = 1000
_LOOK_SECONDS: Final = 0.0005


async def answer(objects: Objects, data: bytes) -> tuple[bytes, tuple[int, ...], str]:
    """Carry a request for another size out; as ``requests.answer``, after MOST_SECONDS at most.

    Raises:
        Malformed: no client library sends such a thing.
    """
    header, wanted = requests.read(data)
    try:
        if objects.shrinks(wanted):
            await _until_seen(objects)
    except OSError as err:
        return requests.encode(header, None, err.errno or errno.EIO), (), str(err)
    return requests.carry_out(objects, header, wanted)


async def _until_seen(objects: Objects) -> None:
    """Wait until the engine has seen what was posted before; not for ever, if it has no CPU."""
    end = objects.rounds() + ROUNDS
    loop = asyncio.get_running_loop()
    latest = loop.time() + MOST_SECONDS
    for _ in range(MOST_LOOKS):
        if objects.rounds() >= end or loop.time() >= latest:
            return
        await asyncio.sleep(_LOOK_SECONDS)
