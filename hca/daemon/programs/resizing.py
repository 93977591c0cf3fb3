"""Process requests to resize a completion queue: a smaller queue must have room for all
completions.

Before it resizes, hcad waits until earlier requests are complete, as far as the engine can
complete them. The engine may visit the function only in its time slices; hcad serves other
programs meanwhile.
"""

import asyncio
import errno
from typing import Final

from hca.daemon.objects.client_objects import Objects
from hca.daemon.programs import requests

ROUNDS: Final = 2  # the iteration in progress, and one more
MOST_SECONDS: Final = 0.5
MOST_LOOKS: Final = 1000
_LOOK_SECONDS: Final = 0.0005


async def answer(objects: Objects, data: bytes) -> tuple[bytes, tuple[int, ...], str]:
    """Execute a request to resize a completion queue, as ``requests.answer`` does.

    A request to shrink the queue first waits until the engine has processed earlier work requests,
    but no longer than MOST_SECONDS.

    Raises:
        Malformed: no client library sends such a message.
    """
    header, request = requests.read(data)
    try:
        if objects.shrinks(request):
            await _until_seen(objects)
    except OSError as err:
        return requests.encode(header, None, err.errno or errno.EIO), (), str(err)
    return requests.carry_out(objects, header, request)


async def _until_seen(objects: Objects) -> None:
    """Wait until the engine has processed what was posted earlier, but at most MOST_SECONDS."""
    end = objects.count_engine_visits() + ROUNDS
    loop = asyncio.get_running_loop()
    latest = loop.time() + MOST_SECONDS
    for _ in range(MOST_LOOKS):
        if objects.count_engine_visits() >= end or loop.time() >= latest:
            return
        await asyncio.sleep(_LOOK_SECONDS)
