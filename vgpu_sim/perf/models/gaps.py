"""Gaps between kernels where the host launches each by itself, and not a CUDA graph of them all.

The host runs ahead of the device until its queue is empty: an operator starts when the one before
has ended and the host has launched it. Without a graph that costs the host ``HOST_US`` each.
"""

from collections.abc import Iterable
from typing import Final

# The median of vLLM's custom all-reduce of at most 1 KiB without a CUDA graph on an H200, where it
# takes 4.5 us in one (custom_allreduce tables; H100 and B200 lie beside): the host's time for an
# operator that Python calls. It is the machine's, not the board's.
HOST_US: Final = 20.7


def gaps(times: Iterable[float], host_us: float = HOST_US) -> float:
    """Return the microseconds that the device waits for its host; times are operators' in order."""
    host = device = waited = 0.0
    for us in times:
        host += host_us
        waited += max(0.0, host - device)
        device = max(device, host) + us
    return waited
