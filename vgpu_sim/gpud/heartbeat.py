"""gpud's heartbeat: the time of modification of the readiness file.

The kubelet's liveness probe compares it with the clock, and restarts a gpud whose loop hangs, or
gets too little CPU time to serve clients.
"""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_BEAT_SECONDS: Final = 1.0


async def keep_fresh(path: Path | None) -> None:
    """Update the time of the readiness file, if it exists, until the task is cancelled."""
    while path is not None:
        with suppress(OSError):
            os.utime(path)
        await asyncio.sleep(_BEAT_SECONDS)
