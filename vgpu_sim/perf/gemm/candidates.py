"""The kernels that a library could choose: the size of a CTA's tile in tokens and features, and
into how many parts k is split.

Two rules, which all libraries follow, keep the search small. A tile is never wider than the
narrowest tile that covers the product, and k is split only to fill SMs that would otherwise be
idle. Choices that a library makes by its own table are in ``Library``.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.gemm.library import VECTOR, Library
from vgpu_sim.records import dataclass

_SPLITS: Final = np.array((1, 2, 3, 4, 6, 8, 12, 16, 24, 32))
Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Candidates:
    """Some kernels, as arrays with one element per kernel: the rows ``bm`` and the columns ``bn``
    of the kernel's tile, and the number of parts into which the kernel splits k.
    """

    bm: Array
    bn: Array
    splits: Array

    def __len__(self) -> int:
        return len(self.bm)

    def at(self, indices: Array) -> "Candidates":
        """Return the kernels at ``indices``, in the shape of ``indices``."""
        return Candidates(self.bm[indices], self.bn[indices], self.splits[indices])


class Space:
    """All kernels that a library has on a board."""

    def __init__(self, board: Board, library: Library) -> None:
        columns = [
            (bm, bn, split)
            for bm in library.tokens
            for bn in library.features
            if bm * bn <= library.largest
            for split in (_SPLITS if library.splits and bm != VECTOR else (1,))
        ]
        self.every = Candidates(*np.array(columns, np.float32).T)
        self.library = library
        self._tokens, self._features = np.array(library.tokens), np.array(library.features)
        self._sms = board.sms.value

    def groups(self, m: Array, n: Array, k: Array) -> Iterator[tuple[Array, Array]]:
        """Yield groups of shapes. Each item has the indices of a group's shapes, and the indices of
        the kernels that the library's rules allow for these shapes.
        """
        if self.library.dispatch is not None:
            yield from self._library_choice(m)
            return
        vector = int(self._tokens[0] == VECTOR)
        covers = _first_to_cover(self._tokens, m), _first_to_cover(self._features, n)
        covers = np.where(m == 1, 0, np.maximum(covers[0], vector)), covers[1]
        tiles = np.ceil(m / self._tokens[covers[0]]) * np.ceil(n / self._features[covers[1]])
        idle = self.library.most_ctas * self._sms / tiles
        split_limit = (
            np.searchsorted(_SPLITS, np.minimum(idle, k / self.library.least_k), "right") - 1
        )
        key = (covers[0] * len(self._features) + covers[1]) * len(_SPLITS) + np.maximum(
            split_limit, 0
        )
        every = self.every
        for rows, packed_key in _by(key):
            wide, split = divmod(packed_key, len(_SPLITS))
            bm, bn = divmod(wide, len(self._features))
            # A single token may also use the narrowest tile.
            widest = self._tokens[bm if bm or not vector else 1]
            fits = (every.bm <= widest) & (every.bn <= self._features[bn])
            if bm:
                fits &= every.bm > VECTOR
            yield rows, np.flatnonzero(fits & (every.splits <= _SPLITS[split]))

    def _library_choice(self, m: Array) -> Iterator[tuple[Array, Array]]:
        """Yield groups of shapes, each with the one kernel that the library's table has for its
        number of tokens.
        """
        table = self.library.dispatch or ()
        ends = np.array([table_row.tokens for table_row in table[:-1]])
        for rows, table_index in _by(np.searchsorted(ends, m)):
            table_row = table[table_index]
            tile_mask = (self.every.bm == table_row.bm) & (self.every.bn == table_row.bn)
            yield rows, np.flatnonzero(tile_mask & (self.every.splits == 1))


def _by(key: Array) -> Iterator[tuple[Array, int]]:
    """Yield, for each distinct key, the indices of the rows that have it, and the key."""
    order = np.argsort(key, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        yield rows, int(key[rows[0]])


def _first_to_cover(sizes: Array, extent: Array) -> Array:
    return np.minimum(np.searchsorted(sizes, extent), len(sizes) - 1)
