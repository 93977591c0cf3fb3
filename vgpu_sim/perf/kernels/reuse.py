"""Predicts cache misses from the distances at which addresses are accessed again.

Expected stack distances are derived from reuse times (Eklov and Hagersten, "StatStack", ISPASS
2010). Of the accesses between two accesses to one sector, those whose own reuse time is longer
than the rest of the interval are to distinct sectors. No cache is simulated.
"""

import numpy as np
from numpy.typing import NDArray

Sectors = NDArray[np.int64] | NDArray[np.uint64]


def misses(sectors: Sectors, capacity: float) -> int:
    """Return how many accesses miss an LRU cache that holds ``capacity`` sectors. ``sectors`` are
    the accessed sectors in order.
    """
    count = len(sectors)
    if count == 0:
        return 0
    order = np.argsort(sectors, kind="stable")
    again = np.asarray(sectors)[order][1:] == np.asarray(sectors)[order][:-1]
    times = (order[1:] - order[:-1])[again]
    cold = count - len(times)
    if len(times) == 0 or capacity < 1:
        return count
    # P(reuse time > k) for k = 0 ...; its sum below r is the expected number of distinct sectors
    # from one access to the next access of the same sector, that sector included.
    longest = int(times.max())
    histogram = np.bincount(times, minlength=longest + 1)
    beyond = 1 - np.cumsum(histogram) / count
    distance = np.concatenate(([0.0], np.cumsum(beyond)))[:-1]
    return cold + int(np.count_nonzero(distance[times] > capacity))
