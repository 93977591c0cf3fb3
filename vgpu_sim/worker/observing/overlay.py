"""Copy-on-write memory for sampled blocks: their stores do not reach the context's memory."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from vgpu_sim.exec.interp import Memory
from vgpu_sim.exec.interp.address_space import Words

_PAGE_BITS: Final = 12
_PAGE_BYTES: Final = 1 << _PAGE_BITS
_MOST_PAGES: Final = 1 << 14  # 64 MiB


class OverlayFull(Exception):
    """Raised when sampled blocks store more than the overlay can hold."""


class Overlay:
    """Implements ``exec.interp.Memory``: loads from ``memory``, overlaid by earlier stores."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._pages: dict[int, np.ndarray] = {}

    def load(self, addresses: Words, width_bytes: int) -> Words:
        """Return the zero-extended value at each aligned address. Raises BadAddress."""
        values = self._memory.load(addresses, width_bytes)
        if self._pages and len(addresses):
            numbers = addresses >> np.uint64(_PAGE_BITS)
            for number in np.unique(numbers).tolist():
                page = self._pages.get(number)
                if page is not None:
                    on_page = numbers == np.uint64(number)
                    values[on_page] = page.view(f"<u{width_bytes}")[
                        _places(addresses[on_page], width_bytes)
                    ]
        return values

    def store(self, addresses: Words, values: Words, width_bytes: int) -> None:
        """Store the low bytes of each value in the overlay. Raises BadAddress, OverlayFull."""
        if not len(addresses):
            return
        self._memory.load(addresses, width_bytes)  # unmapped memory may not be written
        numbers = addresses >> np.uint64(_PAGE_BITS)
        for number in np.unique(numbers).tolist():
            on_page = numbers == np.uint64(number)
            page = self._page(number).view(f"<u{width_bytes}")
            page[_places(addresses[on_page], width_bytes)] = values[on_page].astype(page.dtype)

    def extents(self) -> Sequence[tuple[int, int]]:
        """Return the extents of the underlying memory, because stores to the overlay do not map new
        memory.
        """
        return self._memory.extents()

    def _page(self, number: int) -> np.ndarray:
        page = self._pages.get(number)
        if page is None:
            if len(self._pages) >= _MOST_PAGES:
                raise OverlayFull
            first = np.uint64(number << _PAGE_BITS)
            words = first + np.arange(0, _PAGE_BYTES, 8, dtype=np.uint64)
            page = self._memory.load(words, 8).astype("<u8").view(np.uint8)
            self._pages[number] = page
        return page


def _places(addresses: Words, width_bytes: int) -> np.ndarray:
    return (addresses & np.uint64(_PAGE_BYTES - 1)).astype(np.int64) // width_bytes
