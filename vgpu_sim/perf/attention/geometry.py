"""The work of each attention kernel for a call: tiles, CTAs and bytes. This work depends on no
fitted parameter.
"""

from typing import Final

import numpy as np

from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.records import dataclass

Array = np.ndarray
_KEYS: Final = 128  # keys in a tile
_TOGETHER: Final = 64  # query tiles counted at a time
_NO_WINDOW: Final = 1e9
_HOPPER: Final = (9, 0)


@dataclass(frozen=True, slots=True)
class Calls:
    """Many calls of attention, as arrays of one length.

    ``query`` is the number of new tokens of one sequence, and ``context`` the number of tokens
    to which the new tokens may attend. ``window`` limits how far back they attend; 0 means no
    limit. ``kv_bytes`` is the size of a cache element. In a causal call, the queries are the
    last tokens of the context. Calls of encoders are not ``causal``: every query attends to the
    whole context, and nothing is written to a cache.

    ``kv_width`` is the number of elements that the key and the value of one token have together,
    for one key head. None means twice ``head_dim``. The number is smaller if the key and the value
    share elements.
    """

    batch: Array
    query: Array
    context: Array
    heads: Array
    kv_heads: Array
    head_dim: Array
    window: Array
    kv_bytes: Array
    kv_width: Array | None = None
    causal: bool = True

    def __post_init__(self) -> None:
        for name in ("batch", "query", "context", "heads", "kv_heads", "head_dim"):
            if (getattr(self, name) < 1).any():
                raise BadShape(f"{name} must be at least 1")
        if (self.heads % self.kv_heads).any():
            raise BadShape("heads must be a multiple of kv-heads")
        if self.causal and (self.query > self.context).any():
            raise BadShape("there are more queries than the context has tokens")

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def cached(self) -> Array:
        """The number of elements that the key and the value of one token have together, for one key
        head. The array is a column with one row per call, which NumPy broadcasts against a row
        of kernels.
        """
        return 2 * self.column("head_dim") if self.kv_width is None else self.column("kv_width")

    def column(self, name: str) -> Array:
        """Return a field as a column with one row per call, which NumPy broadcasts against a row of
        kernels.
        """
        return np.asarray(getattr(self, name), np.float64)[:, None]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel for attention: the rows of its query tile, whether the heads of a group share the
    tile, and into how many parts the keys are split.
    """

    rows: int
    packed: bool
    splits: int = 1


# FlashAttention 3 (hopper/tile_size.h): heads of up to 96 elements have longer query tiles. That
# tiles for heads above 128 may be short follows from fitted rows of latent attention.
CONTEXT: Final = tuple(Kernel(rows, packed) for rows in (64, 128, 192) for packed in (False, True))
_TALL: Final = 192
_TALL_DIM: Final = 96
_SHORT: Final = 64
_SHORT_DIM: Final = 128
# TensorRT-LLM's kernels for Blackwell, by way of FlashInfer: heads of a group do not share a tile.
# This follows from the table: for 128 prompts of 16 tokens one query head takes 13 us, eight heads
# of a group 35.
BLACKWELL_CONTEXT: Final = (Kernel(128, False), Kernel(256, False))
# FlashAttention 2 reads a paged cache with its split-key kernel, whose tiles have 64 queries
# (flash_fwd_launch_template.h, run_mha_fwd_splitkv_dispatch).
AMPERE_CONTEXT: Final = (Kernel(64, False),)
GENERATION: Final = tuple(Kernel(64, True, splits) for splits in (1, 2, 4, 8, 16, 32, 64))


def prompt_kernels_of(board: Board) -> tuple[Kernel, ...]:
    """Return the prompt kernels of the attention library that is used on a board."""
    if board.has_tensor_memory:
        return BLACKWELL_CONTEXT
    return CONTEXT if board.compute_capability == _HOPPER else AMPERE_CONTEXT


@dataclass(frozen=True, slots=True)
class Work:
    """The work of each call (row) with each kernel (column): the number of key tiles of all CTAs,
    the number of key tiles of the CTA that has the most, and the number of CTAs.
    """

    tiles: Array
    longest: Array
    ctas: Array
    rows: Array
    splits: Array

    def at(self, rows: Array, kernels: Array | None = None) -> "Work":
        """Select the work of some calls. If ``kernels`` is given, it has the index of one kernel
        for each of these calls, and only the call's work with that kernel is selected.
        """
        fields = (self.tiles, self.longest, self.ctas, self.rows, self.splits)
        if kernels is None:
            return Work(*(field[rows] for field in fields))
        return Work(*(field[rows, kernels][:, None] for field in fields))


def is_tiled(rows: Array, head_dim: Array) -> Array:
    """Return whether FlashAttention 3 has a prompt kernel with ``rows`` queries per tile for heads
    of size ``head_dim``. The arguments are arrays; the result is a mask, computed element by
    element.
    """
    tall = (rows == _TALL) == (head_dim <= _TALL_DIM)
    return np.asarray(tall & ((rows != _SHORT) | (head_dim > _SHORT_DIM)))


def work(calls: Calls, kernels: tuple[Kernel, ...]) -> Work:
    """Return the work of every call (row) with every kernel (column)."""
    columns = [_one(calls, kernel) for kernel in kernels]
    return Work(*(np.hstack(parts) for parts in zip(*columns, strict=True)))


def _one(calls: Calls, kernel: Kernel) -> tuple[Array, ...]:
    query, context, heads, kv_heads = map(calls.column, ("query", "context", "heads", "kv_heads"))
    window = calls.column("window")
    window = np.where(window > 0, window, _NO_WINDOW)
    group = heads / kv_heads
    rows = query * group if kernel.packed else query
    of_heads = kv_heads if kernel.packed else heads
    positions = kernel.rows / group if kernel.packed else kernel.rows + 0 * group
    tiles = np.ceil(rows / kernel.rows)
    earlier_count = context - query
    total, longest = np.zeros_like(query), np.zeros_like(query)
    for first in range(0, int(tiles.max()), _TOGETHER):
        active_rows = np.flatnonzero(tiles[:, 0] > first)  # most calls have few tiles
        index = np.arange(first, min(first + _TOGETHER, int(tiles.max())))[None, :]
        old, last = earlier_count[active_rows], query[active_rows]
        end = np.minimum((index + 1) * positions[active_rows], last) + old
        start = np.maximum(
            0, np.minimum(index * positions[active_rows], last) + old - window[active_rows] + 1
        )
        if not calls.causal:
            end, start = context[active_rows] + 0 * index, 0 * start
        keys = np.ceil(np.maximum(end, 1) / _KEYS) - np.floor(start / _KEYS)
        keys = np.where(index < tiles[active_rows], np.maximum(keys, 0), 0)
        total[active_rows] += keys.sum(axis=1, keepdims=True)
        longest[active_rows] = np.maximum(longest[active_rows], keys.max(axis=1, keepdims=True))
    batch, unit_column = calls.column("batch"), np.ones_like(query)
    ctas = batch * of_heads * tiles * kernel.splits
    return (
        batch * of_heads * total,
        np.ceil(longest / kernel.splits),
        ctas,
        kernel.rows * unit_column,
        kernel.splits * unit_column,
    )
