"""Closing a process's descriptors, also where it may neither list them nor call close_range."""

import itertools
import os
from collections.abc import Iterable


def close_all(*, first: int, kept: Iterable[int] = (), limit: int = 0) -> None:
    """Close every descriptor from ``first`` on that is not in ``kept``.

    ``limit``: the number of descriptors that there may be, for a process whose filter denies
    getrlimit: SC_OPEN_MAX is 256 then.

    Ranges end below SC_OPEN_MAX, and what lies above is closed one by one. For a range that ends
    above, Python may call glibc's closefrom, and that ends the process where close_range is denied
    and ``/proc/self/fd`` cannot be read.
    """
    known = os.sysconf("SC_OPEN_MAX")
    left = sorted(one for one in set(kept) if one >= first)
    bounds = [first - 1, *(one for one in left if one < known), known]
    for before, after in itertools.pairwise(bounds):
        os.closerange(before + 1, after)
    for one in range(max(first, known), limit):
        if one not in left:
            _close(one)


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:  # most are not open
        return
