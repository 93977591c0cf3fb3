"""How much a function may still take of what hcad has, found by taking: no look inside a share."""

import os
from collections.abc import Callable

from hca.daemon.common.quotas import Share

KINDS = ("descriptors", "bytes of rings", "bytes of objects")


def most_of(share: Share, kind: int) -> int:
    """Return the greatest amount of a kind that the function may take at once."""

    def fits(amount: int) -> bool:
        wanted = [0, 0, 0]
        wanted[kind] = amount
        try:
            share.take(*wanted)
        except OSError:
            return False
        share.give(*wanted)
        return True

    return _greatest(fits)


def room(share: Share) -> tuple[int, ...]:
    """Return what the function may still take of each kind; it is less by all that it holds."""
    return tuple(most_of(share, kind) for kind in range(len(KINDS)))


def open_descriptors() -> int:
    """Return how many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


def _greatest(fits: Callable[[int], bool]) -> int:
    low, high = 0, 1
    while fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
