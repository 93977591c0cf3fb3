"""Notice that exporters revoke imported memory, a bounded number of times in one iteration.

When a worker ends, all its connections end at once, which may be thousands. hcad's loop sees one
descriptor for all of them, and takes a few at a time.
"""

import asyncio
import logging
import select
import socket
from collections.abc import Callable
from typing import Final

from hca.daemon.common.steps import StepRunner
from vgpu_sim.system.pacing import LogQuota

logger = logging.getLogger("tessera.hcad")

_AT_ONCE: Final = 64
_LOG_LINES_PER_MINUTE: Final = 30


class Revocations:
    """The connections of imported memory. Any event on one of them revokes the memory: its end, or
    data, which exporters never send.
    """

    def __init__(self) -> None:
        self.removal = StepRunner()
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._log_quota = LogQuota(_LOG_LINES_PER_MINUTE)

    def watch(self, connection: socket.socket, callback: Callable[[], None]) -> None:
        """Call ``callback`` in each iteration in which the connection has an event."""
        if not self._callbacks:
            asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._call_some)
        self._callbacks[connection.fileno()] = callback
        self._epoll.register(connection, select.EPOLLIN)

    def unwatch(self, connection: socket.socket) -> None:
        """Watch a connection no longer, if it is watched."""
        if self._callbacks.pop(connection.fileno(), None) is None:
            return
        self._epoll.unregister(connection)
        if not self._callbacks:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())

    def report(self, regions: int) -> None:
        """Log that memory with so many regions has been revoked, unless there are many lines."""
        if self._log_quota.take():
            logger.info("device_memory_revoked regions=%d", regions)

    def _call_some(self) -> None:
        for descriptor, _ in self._epoll.poll(0, _AT_ONCE):
            if (callback := self._callbacks.get(descriptor)) is not None:
                callback()
