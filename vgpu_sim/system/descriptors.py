"""File descriptors: send them to another process; close them without listing them."""

import array
import itertools
import os
import socket
from collections.abc import Iterable, Sequence


def send(sock: socket.socket, data: Sequence[bytes], descriptors: Sequence[int], flags: int) -> int:
    """Send one message with descriptors; return the number of data bytes sent. Raises OSError.

    ``socket.send_fds`` does the same, but ignores its flags in Python 3.11: with MSG_DONTWAIT it
    waits for a receiver that does not read.
    """
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    return sock.sendmsg(data, rights if descriptors else [], flags)


def close_all(*, first: int, kept_descriptors: Iterable[int] = (), limit: int = 0) -> None:
    """Close every descriptor from ``first`` on that is not in ``kept_descriptors``.

    ``limit`` is the largest possible number of descriptors. It is needed in a process whose
    filter denies getrlimit, because SC_OPEN_MAX is then only 256.

    Descriptors below SC_OPEN_MAX are closed in ranges, higher ones one by one. For a range that
    ends above SC_OPEN_MAX, Python may call glibc's closefrom, which aborts the process if
    close_range is denied and ``/proc/self/fd`` cannot be read.
    """
    open_max = os.sysconf("SC_OPEN_MAX")
    higher_descriptors = sorted(
        descriptor for descriptor in set(kept_descriptors) if descriptor >= first
    )
    bounds = [
        first - 1,
        *(descriptor for descriptor in higher_descriptors if descriptor < open_max),
        open_max,
    ]
    for lower, upper in itertools.pairwise(bounds):
        os.closerange(lower + 1, upper)
    for descriptor in range(max(first, open_max), limit):
        if descriptor not in higher_descriptors:
            _close(descriptor)


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:  # most are not open
        return
