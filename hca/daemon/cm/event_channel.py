"""Event channels: pipes through which a client reads the events of its ids.

hcad opens both ends as separate open files, so O_NONBLOCK of the client's end does not affect
hcad's. Events wait in hcad as long as the pipe is full. A client has a limited number of ids,
each with few events. Calls that a client could repeat without end are refused if too many of its
events are unread.
"""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Collection
from ctypes import sizeof
from typing import Final

from hca.contract import cm
from hca.contract.cm import CmEvent
from hca.daemon.common.quotas import Share
from vgpu_sim.records import dataclass

EVENT_BYTES: Final = sizeof(CmEvent)
MOST_WAITING: Final = 1024
"""Most events of a client that may wait in hcad because the client's pipes are full."""
_DESCRIPTORS: Final = 2  # descriptors of a channel in hcad; the client has the reading end


@dataclass(slots=True)
class Waiting:
    """The number of a client's events that wait in hcad because the client's pipes are full."""

    count: int = 0


class Channel:
    """A pipe through which a client reads events; it is usable until ``close``."""

    def __init__(self, waits: Waiting) -> None:
        """Make the channel's pipe. Raises OSError."""
        self.ids = 0
        self._waits = waits
        self.reading_fd, self._writing = os.pipe2(os.O_CLOEXEC)
        try:
            # Open the reading end again: file status flags that the client sets must not affect
            # hcad's.
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
        """Return the client's end of the pipe, which the caller must close."""
        reading_fd, self.reading_fd = self.reading_fd, -1
        return reading_fd

    def emit(self, event: CmEvent) -> None:
        """Append an event to the channel."""
        if self._writing < 0:
            return
        self._waiting.append(bytes(event))
        self._waits.count += 1
        self._write()

    @property
    def is_full(self) -> bool:
        """Return whether the client has reached the limit on events that wait in hcad.

        A call that would make another event must then fail. The limit applies to all channels of
        the client together, because a client may have a thousand channels.
        """
        return self._waits.count >= MOST_WAITING

    def withdraw(self, handles: Collection[int]) -> list[CmEvent]:
        """Remove the unread events of these communication ids from the channel; return the
        events.
        """
        unread = self._unread()
        removed_events = [event for event in unread if event.handle in handles]
        self._waits.count -= len(self._waiting)
        self._waiting = deque(bytes(event) for event in unread if event.handle not in handles)
        self._waits.count += len(self._waiting)
        self._write()
        return removed_events

    def close(self) -> None:
        """Close hcad's ends of the pipe; a reader then gets an end of file."""
        self._forget_writer()
        for descriptor in (self._writing, self._reading, self.reading_fd):
            if descriptor >= 0:
                os.close(descriptor)
        self._writing = self._reading = self.reading_fd = -1
        self._waits.count -= len(self._waiting)
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
        return events + [CmEvent.from_buffer_copy(waiting_event) for waiting_event in self._waiting]

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
            self._waits.count -= 1
        self._forget_writer()

    def _forget_writer(self) -> None:
        if self._watched:
            asyncio.get_running_loop().remove_writer(self._writing)
        self._watched = False


class Channels:
    """A client's event channels. The quota of the client's function limits their number."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._waits = Waiting()
        self._channels: dict[int, Channel] = {}

    def make(self, handle: int) -> Channel:
        """Make a channel with the handle ``handle``. Raises OSError."""
        if len(self._channels) >= cm.CM_MAX_CHANNELS:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        self._share.charge(_DESCRIPTORS)
        try:
            channel = self._channels[handle] = Channel(self._waits)
        except OSError:
            self._share.refund(_DESCRIPTORS)
            raise
        return channel

    def get(self, handle: int) -> Channel:
        """Return the channel with a handle. Raises OSError."""
        channel = self._channels.get(handle)
        if channel is None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return channel

    def end(self, handle: int) -> None:
        """Close an event channel that no id uses. Raises OSError."""
        if self.get(handle).ids:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        self._channels.pop(handle).close()
        self._share.refund(_DESCRIPTORS)

    def close(self) -> None:
        """Close all channels of the client."""
        for channel in self._channels.values():
            channel.close()
        self._share.refund(_DESCRIPTORS * len(self._channels))
        self._channels.clear()
