"""Gaps between kernels if the host launches each kernel separately, instead of one CUDA graph for
all.

An operator starts when the previous operator has ended and the host has launched it. A gap
arises where the device has finished everything that the host has launched. Without a graph, each
launch costs the host ``HOST_US``.
"""

from collections.abc import Iterable
from typing import Final

# The median of vLLM's custom all-reduce of at most 1 KiB without a CUDA graph on an H200, where it
# takes 4.5 us with one (custom_allreduce tables; H100 and B200 are close): the host's time for an
# operator that Python calls. It depends on the host, not on the board.
HOST_US: Final = 20.7


def host_gaps_us(times: Iterable[float], host_us: float = HOST_US) -> float:
    """Return for how many microseconds the device waits for the host while it runs operators one
    after another. ``times`` are the operators' times in order. Launching an operator takes the host
    ``host_us``.
    """
    host = device = waited = 0.0
    for us in times:
        host += host_us
        waited += max(0.0, host - device)
        device = max(device, host) + us
    return waited
