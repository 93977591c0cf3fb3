"""Look whether a descriptor can be read; of any number, where ``select`` knows 1,024 (poll(2))."""

import select
from typing import Protocol


class _HasDescriptor(Protocol):
    def fileno(self) -> int: ...


def readable(descriptor: int | _HasDescriptor, within_s: float = 0.0) -> bool:
    """Tell whether a read returns at once, if only with the end; wait so long for it at most."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(within_s * 1000))
