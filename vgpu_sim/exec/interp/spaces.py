"""What an address means: global memory, or the shared memory of the lane's own block.

Blocks that are resident together lie one after the other in one array; a lane reaches its own
block's bytes and no others.
"""

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.errors import BadAddress
from vgpu_sim.exec.interp.address_space import Memory, Words
from vgpu_sim.exec.interp.bits import Mask
from vgpu_sim.isa import Space

_STRIDE_BYTES = 16  # as long as the longest access, so that each element is whole in its type
_UPPER = np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)
_DTYPES: dict[int, np.dtype[np.unsignedinteger]] = {
    1: np.dtype("<u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<u8"),
}


class Spaces:
    """Global memory, and ``shared_bytes`` of shared memory for each of some resident blocks.

    ``window`` is the generic address of shared memory, a multiple of 2^32. ``lanes_per_block`` says
    which lanes are which block's.
    """

    def __init__(
        self,
        memory: Memory,
        window: int,
        shared_bytes: int = 0,
        blocks: int = 0,
        lanes_per_block: int = 1,
    ) -> None:
        self._memory = memory
        self._window_upper = np.uint64(window >> 32)
        self._shared_bytes = shared_bytes
        self._lanes_per_block = lanes_per_block
        self._stride = -(-shared_bytes // _STRIDE_BYTES) * _STRIDE_BYTES
        self._shared = np.zeros(blocks * self._stride, dtype=np.uint8)

    def clear(self, block: int) -> None:
        """Fill a resident block's shared memory with zeros: what another one left is not its."""
        self._shared[block * self._stride : (block + 1) * self._stride] = 0

    def load(self, space: Space, addresses: Words, mask: Mask, width_bytes: int) -> Words:
        """Return the zero-extended value at each address, one for each set lane of ``mask``.

        Raises:
            BadAddress: for an address (of ``space``) whose bytes are not all there.
        """
        inside = self._in_shared(space, addresses)
        if inside is None:
            return self._memory.load(addresses, width_bytes)
        values = np.empty(len(addresses), dtype=np.uint64)
        places = self._places(addresses[inside], np.flatnonzero(mask)[inside], width_bytes)
        values[inside] = self._shared.view(_DTYPES[width_bytes])[places]
        if not inside.all():
            values[~inside] = self._memory.load(addresses[~inside], width_bytes)
        return values

    def store(
        self, space: Space, addresses: Words, mask: Mask, values: Words, width_bytes: int
    ) -> None:
        """Store the low bytes of each value; of equal addresses the last one wins.

        Raises:
            BadAddress: as ``load``.
        """
        inside = self._in_shared(space, addresses)
        if inside is None:
            self._memory.store(addresses, values, width_bytes)
            return
        places = self._places(addresses[inside], np.flatnonzero(mask)[inside], width_bytes)
        dtype = _DTYPES[width_bytes]
        self._shared.view(dtype)[places] = values[inside].astype(dtype)
        if not inside.all():
            self._memory.store(addresses[~inside], values[~inside], width_bytes)

    def _in_shared(self, space: Space, addresses: Words) -> NDArray[np.bool_] | None:
        """Say which addresses are of shared memory; None: none of them."""
        if space is Space.SHARED:
            return np.full(len(addresses), True)
        if space is not Space.GENERIC or not self._shared_bytes:
            return None
        inside: NDArray[np.bool_] = addresses >> _UPPER == self._window_upper
        return inside if inside.any() else None

    def _places(
        self, addresses: Words, lanes: NDArray[np.int64], width_bytes: int
    ) -> NDArray[np.int64]:
        """Return the indices of aligned elements in the array of all resident blocks."""
        offsets = addresses & _LOW
        room = self._shared_bytes - width_bytes
        bad = np.full(len(offsets), True) if room < 0 else offsets > np.uint64(room)
        if bad.any():
            raise BadAddress(int(addresses[bad.argmax()]))
        owners = lanes // self._lanes_per_block
        return (owners * self._stride + offsets.astype(np.int64)) // width_bytes
