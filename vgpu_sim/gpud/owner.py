"""gpud's end of the link to the command that owns a private gpud.

Each side holds one end of a socket pair. gpud writes a byte when it serves. The owner writes a
byte when the command is done; if the owner dies, its end closes without that byte. In both cases
gpud ends its workers, removes the run directory and exits. If the owner died, gpud also ends the
processes that the command left running: those of this user with the run's token in their
environment.
"""

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
    """gpud's end of the link to its owner: the command that started this gpud and is its only user.

    ``on_end`` is called once, when the link ends.
    """

    def __init__(self, descriptor: int, on_end: Callable[[], None]) -> None:
        import asyncio  # not for the owner, which uses this module, too

        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._on_end = on_end
        self.owner_died = False
        """Whether the link ended without a byte from the owner, which means that the owner died."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.fileno(), self._handle_end)

    def send_ready(self) -> None:
        """Notify the owner that gpud serves."""
        with suppress(OSError):
            self._socket.send(READY)

    def _handle_end(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        try:
            self.owner_died = self._socket.recv(1) != DONE
        except OSError:
            self.owner_died = True
        self._on_end()


def end_what_is_left(token: bytes) -> None:
    """End the processes that a dead owner's command left running. These processes have the run's
    token, ``token``, in their environment.
    """
    quiet_scans = 0
    for _ in range(_DEAD_OWNER_SCANS):
        quiet_scans = 0 if _kill_holders_of(token.hex()) else quiet_scans + 1
        if quiet_scans == 2:  # a child may not have called exec before
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
