"""Measure how much a function may still take of hcad's resources, without reading a share's
fields.
"""

import os
from collections.abc import Callable

from hca.daemon.common.quotas import Share

KINDS = ("descriptors", "bytes of rings", "bytes of objects")


def most_of(share: Share, kind: int) -> int:
    """Return the greatest amount of a resource that the function may take at once."""

    def fits(amount: int) -> bool:
        wanted = [0, 0, 0]
        wanted[kind] = amount
        try:
            share.charge(*wanted)
        except OSError:
            return False
        share.refund(*wanted)
        return True

    return _greatest(fits)


def room(share: Share) -> tuple[int, ...]:
    """Return the amount of each resource that the function may still take."""
    return tuple(most_of(share, kind) for kind in range(len(KINDS)))


def open_descriptors() -> int:
    """Return the number of descriptors that this process has open."""
    return len(os.listdir("/proc/self/fd"))


def _greatest(fits: Callable[[int], bool]) -> int:
    low, high = 0, 1
    while fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
