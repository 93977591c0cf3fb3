"""Event channels: pipes through which a client reads what became of its ids.

hcad has both ends, each as a file of its own: what the client makes blocking or not is its own end.
What the pipe has no room for waits here. Ids are bounded, and each has few events; calls that could
be repeated without end are refused while too many were not read.
"""

import asyncio
import os
from collections import deque
from collections.abc import Collection
from ctypes import sizeof
from typing import Final

from vgpu_sim.hal.cm import CmEvent

EVENT_BYTES: Final = sizeof(CmEvent)
MOST_WAITING: Final = 1024
"""Events beyond what the pipe holds."""


class Channel:
    """A pipe of events, until ``close``."""

    def __init__(self) -> None:
        """Make it. Raises OSError."""
        self.ids = 0
        self.reading_fd, self._writing = os.pipe2(os.O_CLOEXEC)
        try:
            # Reopened: flags of this end, which the client gets, are not those of ours.
            path = f"/proc/self/fd/{self.reading_fd}"
            self._reading = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            os.close(self.reading_fd)
            os.close(self._writing)
            raise
        os.set_blocking(self._writing, False)
        self._waiting: deque[bytes] = deque()
        self._watched = False

    def take_reading_end(self) -> int:
        """Return the client's end, which is the caller's to close."""
        taken, self.reading_fd = self.reading_fd, -1
        return taken

    def emit(self, event: CmEvent) -> None:
        """Append an event."""
        if self._writing < 0:
            return
        self._waiting.append(bytes(event))
        self._write()

    @property
    def is_full(self) -> bool:
        """Tell whether so many events were not read that no call shall make another."""
        return len(self._waiting) >= MOST_WAITING

    def withdraw(self, handles: Collection[int]) -> list[CmEvent]:
        """Take back the events of some ids that were not read yet."""
        unread = self._unread()
        taken = [event for event in unread if event.handle in handles]
        self._waiting = deque(bytes(event) for event in unread if event.handle not in handles)
        self._write()
        return taken

    def close(self) -> None:
        """Close hcad's ends; who reads has reached the end."""
        self._forget_writer()
        for descriptor in (self._writing, self._reading, self.reading_fd):
            if descriptor >= 0:
                os.close(descriptor)
        self._writing = self._reading = self.reading_fd = -1
        self._waiting.clear()

    def _unread(self) -> list[CmEvent]:
        raw = bytearray()
        try:
            while part := os.read(self._reading, 64 * EVENT_BYTES):
                raw += part
        except BlockingIOError:
            pass
        count = len(raw) // EVENT_BYTES
        events = [CmEvent.from_buffer_copy(raw, i * EVENT_BYTES) for i in range(count)]
        return events + [CmEvent.from_buffer_copy(one) for one in self._waiting]

    def _write(self) -> None:
        while self._waiting:
            try:
                os.write(self._writing, self._waiting[0])  # at most PIPE_BUF: whole or not at all
            except BlockingIOError:
                if not self._watched:
                    asyncio.get_running_loop().add_writer(self._writing, self._write)
                self._watched = True
                return
            self._waiting.popleft()
        self._forget_writer()

    def _forget_writer(self) -> None:
        if self._watched:
            asyncio.get_running_loop().remove_writer(self._writing)
        self._watched = False
