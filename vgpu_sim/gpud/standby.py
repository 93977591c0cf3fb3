"""Waiting for the predecessor: the one gpud of a state directory is the one that holds its lock.

A gpud that stands by has its program loaded and its zygote running, and so serves a moment after
its predecessor has ended, however that ended: the kernel releases the lock of a process that dies.
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
    """Wait until this process is the only gpud of a state directory; False if ``stop`` came first.

    ``stands_by`` is called once if another gpud has to end first, as soon as this one is ``warm``:
    could start contexts at once. What it raises ends the wait. ``wait_seconds`` None waits for the
    other one without limit.

    Raises:
        JournalError: it did not end in time.
        OSError: there can be no lock.
    """
    loop = asyncio.get_running_loop()
    begin = loop.time()
    said = False
    while not journal.try_lock(state_dir):
        if not said and warm():
            said = True
            stands_by()
            logger.info("gpud_stands_by state_dir=%s", state_dir)
        if wait_seconds is not None and loop.time() - begin >= wait_seconds:
            raise JournalError(f"another gpud holds {state_dir / journal.LOCK_NAME}")
        with suppress(TimeoutError):
            async with asyncio.timeout(LOCK_PAUSE_SECONDS):
                await stop.wait()
        if stop.is_set():
            return False
    return True
