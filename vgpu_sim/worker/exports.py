"""Chunks that an HCA is shown: GPUDirect RDMA (contract: ``vgpu_sim.hal.direct``)."""

import errno
import os
import select
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from vgpu_sim.hal.direct import DirectGrant

_MOST_KEPT: Final = 512  # descriptors; a chunk that comes when there are so many cannot be shown
_FAREWELL_MS: Final = 1000


@dataclass(slots=True)
class _Kept:
    size: int
    descriptor: int
    shown: list[socket.socket] = field(default_factory=list)


class Exports:
    """The live chunks' descriptors, and the connections of those who were given one."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}

    def keep(self, offset: int, size: int, descriptor: int) -> None:
        """Remember a chunk, by a descriptor of its own, if there is room."""
        if len(self._kept) >= _MOST_KEPT:
            return
        with suppress(OSError):
            self._kept[offset] = _Kept(size, os.dup(descriptor))

    def show(self, asker: socket.socket, offset: int, size: int) -> None:
        """Answer who asks for a range, by its offset from the aperture's base."""
        for begin, kept in self._kept.items():
            if begin <= offset and offset + size <= begin + kept.size:
                grant = DirectGrant(0, 0, offset - begin, kept.size)
                kept.shown = [one for one in kept.shown if not _has_gone(one)]
                if _answer(asker, grant, (kept.descriptor,)):
                    kept.shown.append(asker)
                return
        _answer(asker, DirectGrant(errno.ENOENT), ())

    def revoke(self, offset: int) -> None:
        """Take a chunk back from everybody; wait a moment until they have let go of it.

        Who has not by then writes to pages that are nobody's any more, and is charged for them.
        """
        kept = self._kept.pop(offset, None)
        if kept is None:
            return
        for one in kept.shown:
            with suppress(OSError):
                one.shutdown(socket.SHUT_WR)
        for one in kept.shown:
            _has_gone(one, _FAREWELL_MS)
            one.close()
        os.close(kept.descriptor)


def _has_gone(asker: socket.socket, wait_ms: int = 0) -> bool:
    poller = select.poll()
    poller.register(asker, select.POLLRDHUP)
    return bool(poller.poll(wait_ms))


def _answer(asker: socket.socket, grant: DirectGrant, descriptors: tuple[int, ...]) -> bool:
    """Return whether it was told; it does not wait for who does not read."""
    try:
        flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
        socket.send_fds(asker, [bytes(grant)], list(descriptors), flags)
    except OSError:
        return False
    return True
