"""gpud's side of the link to the one command that owns a private gpud.

Both sides hold one end of a socket pair. gpud writes a byte when it serves, its owner one when it
is done; at that, or when the owner's end closes without it because the owner died, gpud ends its
workers and itself and removes the run directory. If the owner died gpud also ends what the command
left running: processes of this user that carry the run's token in their environment.
"""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from vgpu_sim.system import processes

READY = b"1"
DONE = b"0"
_DEAD_OWNER_SCANS = 40
_SCAN_PAUSE_SECONDS = 0.05


class OwnerWatch:
    """gpud's side of the link to its owner. ``on_end`` is called once, when it is closed."""

    def __init__(self, descriptor: int, on_end: Callable[[], None]) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._on_end = on_end
        self.owner_died = False
        """Whether the link ended without the owner's word that it is done."""
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._ended)

    def ready(self) -> None:
        """Tell the owner that gpud serves."""
        with suppress(OSError):
            self._socket.send(READY)

    def _ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        try:
            self.owner_died = self._socket.recv(1) != DONE
        except OSError:
            self.owner_died = True
        self._on_end()


def end_what_is_left(token: bytes) -> None:
    """End what a dead owner's command left running."""
    quiet_scans = 0
    for _ in range(_DEAD_OWNER_SCANS):
        quiet_scans = 0 if _kill_holders_of(token.hex()) else quiet_scans + 1
        if quiet_scans == 2:  # once more, for a child that had not called exec yet
            return
        time.sleep(_SCAN_PAUSE_SECONDS)


def _kill_holders_of(token_hex: str) -> int:
    needle = token_hex.encode()
    killed = 0
    for entry in processes.PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            if needle in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
                killed += 1
    return killed
