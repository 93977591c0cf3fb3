"""The memory that an interpreted kernel sees."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.errors import BadAddress

Words = NDArray[np.uint64]

_UNSIGNED: dict[int, np.dtype[np.unsignedinteger]] = {
    1: np.dtype("<u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<u8"),
}


class Memory(Protocol):
    """Little-endian byte-addressed memory; alignment is not required.

    ``width_bytes`` is 1, 2, 4 or 8. If some of the ``width_bytes`` at an address do not exist,
    ``load`` and ``store`` raise ``BadAddress`` for the first such address, in array order.
    ``store`` then stores nothing.
    """

    def load(self, addresses: Words, width_bytes: int) -> Words:
        """Return the zero-extended value at each address."""

    def store(self, addresses: Words, values: Words, width_bytes: int) -> None:
        """Store the low bytes of each value at its address. If several addresses are equal, the
        last of their values is stored.
        """

    def extents(self) -> Sequence[tuple[int, int]]:
        """Return the ranges of addresses at which memory exists. Each range has the first address
        and the end address of one contiguous piece.
        """


class BufferMemory:
    """Memory whose contents are a ``bytearray``; its first byte has the address ``base``."""

    def __init__(self, base: int, data: bytearray) -> None:
        self._base = base
        self._data = data

    def load(self, addresses: Words, width_bytes: int) -> Words:
        """Return the zero-extended value at each address; see ``Memory.load``."""
        offsets = self._offsets(addresses, width_bytes)
        if width_bytes == 1:
            return self._bytes()[offsets].astype(np.uint64)
        lanes = offsets[:, None] + np.arange(width_bytes)
        gathered = self._bytes()[lanes].view(_UNSIGNED[width_bytes])[:, 0]
        values: Words = gathered.astype(np.uint64)
        return values

    def store(self, addresses: Words, values: Words, width_bytes: int) -> None:
        """Store the low bytes of each value; see ``Memory.store``."""
        offsets = self._offsets(addresses, width_bytes)
        lanes = offsets[:, None] + np.arange(width_bytes)
        little = np.ascontiguousarray(values, dtype="<u8").view(np.uint8).reshape(-1, 8)
        self._bytes()[lanes] = little[:, :width_bytes]

    def extents(self) -> Sequence[tuple[int, int]]:
        """Return the range of addresses of the ``bytearray``; see ``Memory.extents``."""
        return [(self._base, self._base + len(self._data))]

    def _bytes(self) -> NDArray[np.uint8]:
        # A new view for each access: a lasting one would prevent the owner from resizing the
        # bytearray.
        return np.frombuffer(self._data, dtype=np.uint8)

    def _offsets(self, addresses: Words, width_bytes: int) -> NDArray[np.int64]:
        offsets = addresses - np.uint64(self._base & 0xFFFF_FFFF_FFFF_FFFF)
        room = len(self._data) - width_bytes
        bad = np.full(len(offsets), True) if room < 0 else offsets > np.uint64(room)
        if bad.any():
            raise BadAddress(int(addresses[bad.argmax()]))
        return offsets.astype(np.int64)
