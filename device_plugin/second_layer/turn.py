"""The turn to enforce a node's second layer: one linkd has it, and the next one waits for it.

During an update two linkds run. With two locks in the socket's directory, which the kernel releases
when their owner ends, they agree which one enforces: the owner of ``turn.lock``. The owner of
``next.lock`` gets the turn at the end of the first, which then leaves its rules. If it ends itself
while it waits, nothing has changed.
"""

import fcntl
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_POLL_S: Final = 0.05
_HANDOVER_S: Final = 5.0


class Stop:
    """SIGTERM and SIGINT as a socket, which is readable after one of them has arrived.

    Without a handler, the kernel would not deliver them to the first process of a container.
    """

    def __init__(self) -> None:
        self.socket, self._sender = socket.socketpair()
        for end in (self.socket, self._sender):
            end.setblocking(False)
        signal.set_wakeup_fd(self._sender.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)  # its number is written to the socket

    def wait(self, timeout_s: float) -> bool:
        """Wait for a signal, for at most this time; return whether one has arrived."""
        return bool(select.select([self.socket], [], [], timeout_s)[0])


class Turn:
    """The locks of a directory, as one process sees them."""

    def __init__(self, directory: Path) -> None:
        """Open the locks. Raises OSError."""
        self._turn = _open(directory / "turn.lock")
        self._next = _open(directory / "next.lock")

    def wait(self, stop: Stop, announce: Callable[[], None]) -> bool:
        """Wait for the turn; return False if ``stop`` came first and another linkd has it.

        ``announce`` is called when this linkd has the turn, or is the next one.
        """
        while not _lock(self._next):
            if stop.wait(_POLL_S):
                return False
        has_turn = _lock(self._turn)
        announce()
        while not has_turn and not stop.wait(_POLL_S):
            has_turn = _lock(self._turn)
        # After a stop: the previous linkd may have left its rules to this one.
        has_turn = has_turn or _lock(self._turn)
        _unlock(self._next)
        return has_turn

    def pass_on(self) -> bool:
        """Give the turn to the linkd that waits for it; return False if there is none.

        After an uninstallation both end, in any order: then the turn comes back, and this linkd
        removes the rules.
        """
        end_s = time.monotonic() + _HANDOVER_S
        while not _lock(self._next):
            _unlock(self._turn)
            if time.monotonic() > end_s:
                return True
            time.sleep(_POLL_S)
        return not _lock(self._turn)

    def close(self) -> None:
        """Release the locks, as the end of the process does."""
        for descriptor in (self._turn, self._next):
            os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _lock(descriptor: int) -> bool:
    """Take a lock, or keep it; return False if another process has it."""
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _unlock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)
