"""Standby: waits for the predecessor's lock; only the gpud that holds it may use a state directory.

A gpud that stands by has loaded its program and started its zygote, so it can serve a moment
after its predecessor has ended. It does not matter how the predecessor ends, because the kernel
releases the lock of a process that dies.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from vgpu_sim.gpud.devices import journal
from vgpu_sim.gpud.errors import JournalError

logger = logging.getLogger("tessera.gpud")

LOCK_PAUSE_SECONDS = 0.05


async def take_over(
    state_dir: Path,
    wait_seconds: float | None,
    stop: asyncio.Event,
    warm: Callable[[], bool],
    stands_by: Callable[[], None],
) -> bool:
    """Wait for the lock of a state directory; return False if ``stop`` is set first.

    If another gpud holds the lock, ``stands_by`` is called once, as soon as ``warm`` returns
    True, which means that this gpud could start contexts at once. If ``stands_by`` raises an
    error, the wait ends. ``wait_seconds`` None means without limit.

    Raises:
        JournalError: the other gpud did not end in time.
        OSError: the lock cannot be created.
    """
    loop = asyncio.get_running_loop()
    begin = loop.time()
    is_announced = False
    while not journal.try_lock(state_dir):
        if not is_announced and warm():
            is_announced = True
            logger.info("gpud_stands_by state_dir=%s", state_dir)
            stands_by()
        if wait_seconds is not None and loop.time() - begin >= wait_seconds:
            raise JournalError(f"another gpud holds the lock {state_dir / journal.LOCK_NAME}")
        with suppress(TimeoutError):
            async with asyncio.timeout(LOCK_PAUSE_SECONDS):
                await stop.wait()
        if stop.is_set():
            return False
    return True
