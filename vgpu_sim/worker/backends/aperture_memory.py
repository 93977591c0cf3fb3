"""The aperture of this process as the interpreter's memory. Accesses are checked first, so that
they cause no fault.
"""

import ctypes
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.errors import BadAddress
from vgpu_sim.worker.runtime.binding import Region

_Words = NDArray[np.uint64]
_DTYPES: Final[dict[int, np.dtype[np.unsignedinteger]]] = {
    1: np.dtype("<u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<u8"),
}


class ApertureMemory:
    """Implements ``exec.interp.Memory`` over the regions that were mapped at its creation."""

    def __init__(self, regions: Sequence[Region]) -> None:
        merged = _merge(regions)
        self._begins = np.array([region.address for region in merged], dtype=np.uint64)
        self._ends = np.array([r.address + r.size for r in merged], dtype=np.uint64)
        self._views = [
            np.frombuffer(memoryview((ctypes.c_uint8 * r.size).from_address(r.address)), np.uint8)
            for r in merged
        ]

    def load(self, addresses: _Words, width_bytes: int) -> _Words:
        """Return the zero-extended value at each address.

        Raises:
            BadAddress: some address is not completely mapped; the error names the first one.
        """
        values = np.zeros(len(addresses), dtype=np.uint64)
        for index, lanes in self._by_region(addresses, width_bytes):
            offsets = addresses[lanes] - self._begins[index]
            values[lanes] = _gather(self._views[index], offsets, width_bytes)
        return values

    def store(self, addresses: _Words, values: _Words, width_bytes: int) -> None:
        """Store the low bytes of each value at its address. If addresses are equal, the last lane's
        value remains.

        Raises:
            BadAddress: as ``load``; no value was stored.
        """
        for index, lanes in self._by_region(addresses, width_bytes):
            offsets = addresses[lanes] - self._begins[index]
            _scatter(self._views[index], offsets, values[lanes], width_bytes)

    def extents(self) -> list[tuple[int, int]]:
        """Return (first address, end address) of each contiguous mapped range."""
        return list(zip(self._begins.tolist(), self._ends.tolist(), strict=True))

    def _by_region(
        self, addresses: _Words, width_bytes: int
    ) -> list[tuple[int, NDArray[np.bool_] | slice]]:
        """Group validated addresses by region; return each region with the lanes that access it."""
        if len(addresses) == 0:
            return []
        if len(self._begins) == 0:
            raise BadAddress(int(addresses[0]))
        indices = np.searchsorted(self._begins, addresses, side="right") - 1
        nearest = np.maximum(indices, 0)
        room = self._ends[nearest] - np.uint64(width_bytes)
        bad = (indices < 0) | (addresses > room)
        if bad.any():
            raise BadAddress(int(addresses[bad.argmax()]))
        first = int(indices[0])
        if (indices == first).all():
            return [(first, slice(None))]
        return [(index, indices == index) for index in sorted(set(indices.tolist()))]


def _gather(view: NDArray[np.uint8], offsets: _Words, width_bytes: int) -> _Words:
    places = offsets.astype(np.int64)
    if not (places & (width_bytes - 1)).any():
        aligned: _Words = view.view(_DTYPES[width_bytes])[places // width_bytes].astype(np.uint64)
        return aligned
    lanes = places[:, None] + np.arange(width_bytes)
    gathered: _Words = view[lanes].view(_DTYPES[width_bytes])[:, 0].astype(np.uint64)
    return gathered


def _scatter(view: NDArray[np.uint8], offsets: _Words, values: _Words, width_bytes: int) -> None:
    places = offsets.astype(np.int64)
    if not (places & (width_bytes - 1)).any():
        dtype = _DTYPES[width_bytes]
        view.view(dtype)[places // width_bytes] = values.astype(dtype)
        return
    little = np.ascontiguousarray(values, dtype="<u8").view(np.uint8).reshape(-1, 8)
    view[places[:, None] + np.arange(width_bytes)] = little[:, :width_bytes]


def _merge(regions: Sequence[Region]) -> list[Region]:
    """Join regions that are adjacent, because an access may cross from one chunk into the next."""
    merged: list[Region] = []
    for region in sorted(regions):
        if merged and merged[-1].address + merged[-1].size == region.address:
            last = merged.pop()
            region = Region(last.address, last.size + region.size)
        merged.append(region)
    return merged
