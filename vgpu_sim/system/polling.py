"""Tests whether a descriptor is readable. This uses poll(2), because select(2) is limited to
descriptors below 1,024.
"""

import select
from typing import Protocol


class _HasDescriptor(Protocol):
    def fileno(self) -> int: ...


def is_readable(descriptor: int | _HasDescriptor, within_s: float = 0.0) -> bool:
    """Return whether a read of a descriptor would return at once, with data or because of the end
    of the file. Wait up to ``within_s`` for this.
    """
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(within_s * 1000))
