"""The array types of lanes' values, with one element per lane."""

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.hal.compute import limits

WARP_LANES = limits.WARP_THREADS

Mask = NDArray[np.bool_]
Bits = NDArray[np.unsignedinteger]

_UNSIGNED: dict[int, np.dtype[np.unsignedinteger]] = {
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}


def unsigned_dtype(bits: int) -> np.dtype[np.unsignedinteger]:
    """Return numpy's unsigned integer type of ``bits`` bits (8, 16, 32 or 64)."""
    return _UNSIGNED[bits]
