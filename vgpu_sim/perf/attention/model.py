"""The time of attention: the fastest of a few kernels, each a stack of causes.

    T = min over kernels of  launch + (core || memory) throttle + cache write + combine

``core`` is the time of the busiest SM: for each key tile the longer of its two products and its
softmax, plus the start of a CTA. All times are in microseconds.
"""

from typing import Final

import numpy as np

from vgpu_sim.perf.attention import geometry
from vgpu_sim.perf.attention.geometry import Calls, Work
from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.overlap import overlapped_time
from vgpu_sim.perf.parameters import Values
from vgpu_sim.perf.stack import Stack
from vgpu_sim.records import dataclass

Array = np.ndarray
_KEYS: Final = 128
_EXPONENTIALS: Final = 16  # per clock and SM: the special function units
_CTAS: Final = 32  # resident on an SM
_THREADS: Final = 2048
_INSERT_THREADS: Final = 512  # threads of a CTA that writes one token into the cache
_SCHEDULED: Final = 992  # sequences that the kernel's scheduler handles: 31 warps of 32
_PADDED: Final = 32  # heads of 72 and 80 are computed as if they had 96
_FIELDS: Final = (
    "batch",
    "query",
    "context",
    "heads",
    "kv_heads",
    "head_dim",
    "window",
    "kv_bytes",
)
_NEVER: Final = 1e12
_WIDE: Final = 32  # query heads per key head from which other kernels are used


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The bytes and operations of an attention call that do not depend on the kernel.

    ``cached`` is the bytes of one token's keys and values for one key head.
    """

    head_dim: Array
    cached: Array
    group: Array
    batch: Array
    tokens: Array
    read: Array
    written: Array
    partial: Array
    tile_bytes: Array
    windowed: Array
    inserting: Array

    @classmethod
    def of(cls, calls: Calls, generation: bool) -> "_Sizes":
        batch, query, context, heads, kv_heads, dim, window, kv_bytes = map(calls.column, _FIELDS)
        width = calls.cached
        visible_keys = (
            np.where(window > 0, np.minimum(context, window), context) if generation else context
        )
        tokens = batch * query
        return cls(
            dim,
            width * kv_bytes,
            heads / kv_heads,
            batch,
            tokens,
            tokens * heads * dim * 4 + batch * visible_keys * kv_heads * width * kv_bytes,
            tokens * kv_heads * width * (2 + kv_bytes),
            tokens * heads * dim * 8,
            batch * kv_heads * width * kv_bytes * _KEYS,
            (window > 0) & (context > window) & generation,
            # One CTA per token and one thread per element, up to a limit; an SM has a fixed number
            # of threads.
            np.minimum(_CTAS, _THREADS / np.minimum(_INSERT_THREADS, kv_heads * width / 2)),
        )

    def at(self, rows: Array) -> "_Sizes":
        return _Sizes(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class _Parts:
    loop: Array
    starts: Array
    body: Array
    throttle: Array
    cache: Array
    combine: Array
    total: Array


class Model:
    """The model of attention for many calls on one board. Either all calls are prompts, or all are
    single tokens.
    """

    def __init__(self, board: Board, calls: Calls, *, generation: bool) -> None:
        self._board, self._generation, self._calls = board, generation, calls
        self.kernels = geometry.GENERATION if generation else geometry.prompt_kernels_of(board)
        self._work = geometry.work(calls, self.kernels)
        self._sizes = _Sizes.of(calls, generation)
        self._clk_us = board.boost_ghz.value * 1e3
        self._peak = board.tensor_flop_per_us("bf16")

    def sizes(self, rows: Array) -> Array:
        """Return the logarithms of the calls' sizes, one row per call."""
        names = ("batch", "query", "context", "heads", "kv_heads", "head_dim", "window")
        columns = [np.maximum(getattr(self._calls, name)[rows], 0.5) for name in names]
        return np.asarray(np.log(np.column_stack(columns).astype(float)))

    def choose(self, values: Values, rows: Array) -> Array:
        """Return the index of each row's fastest kernel."""
        every = self._parts(values, self._work.at(rows), self._sizes.at(rows))
        return np.asarray(every.total.argmin(axis=1))

    def times(self, values: Values, rows: Array, kernels: Array) -> Array:
        """Return the predicted times of the calls with the given kernels."""
        chosen = self._work.at(rows, kernels)
        return self._parts(values, chosen, self._sizes.at(rows)).total[:, 0]

    def stack(self, values: Values, rows: Array) -> Stack:
        """Return the predicted time of each call with its fastest kernel, broken down by cause."""
        chosen = self._work.at(rows, self.choose(values, rows))
        parts = self._parts(values, chosen, self._sizes.at(rows))
        flop = 4 * chosen.tiles * chosen.rows * _KEYS * self._sizes.at(rows).head_dim
        math = np.minimum(flop / self._peak, parts.loop)
        causes = {
            "launch": np.full_like(parts.total, values["launch"]),
            "math": math,
            "softmax, fill and latency": parts.loop - math,
            "starts of CTAs": parts.starts,
            "memory not hidden": parts.body - parts.loop - parts.starts,
            "clock throttle": parts.body * (parts.throttle - 1),
            "write of the cache": parts.cache,
            "combining split keys": parts.combine,
        }
        return Stack({name: value[:, 0] for name, value in causes.items()})

    def _tile(self, p: Values, work: Work, sizes: _Sizes) -> Array:
        """Return the time of one key tile, in which products, softmax and filling of shared memory
        overlap.
        """
        rate = self._peak / self._board.sms.value * p["issue"]
        padded = np.ceil(sizes.head_dim / _PADDED) * _PADDED
        math = 4 * work.rows * _KEYS * padded / rate
        softmax = work.rows * _KEYS / (_EXPONENTIALS * self._clk_us) * p["softmax"]
        fill = _KEYS * sizes.cached / (p["fill"] * self._clk_us)
        overlapped_us = overlapped_time(np.maximum(math, softmax), fill, p["overlap"])
        return np.asarray(overlapped_us + p["exposed"] * np.minimum(math, softmax))

    def _is_refused(self, work: Work, sizes: _Sizes) -> Array:
        """Return which kernels do not exist for each call's head size, because FlashAttention 3
        limits the tiles of each size.
        """
        if self.kernels is not geometry.CONTEXT:
            return np.zeros_like(work.rows, bool)
        return ~geometry.is_tiled(work.rows, sizes.head_dim)

    @staticmethod
    def _beside(p: Values, sizes: _Sizes) -> Array:
        """Return the number of key tiles that a windowed kernel reads in addition to the window."""
        tiles = np.where(sizes.head_dim <= 64, p["window_64"], p["window"])
        return np.where(sizes.windowed, tiles, 0.0)

    def _parts(self, p: Values, work: Work, sizes: _Sizes) -> _Parts:
        board = self._board
        sms = board.sms.value
        a_sm = work.ctas / sms
        if self._generation:
            busiest = work.tiles / work.ctas * np.ceil(a_sm)
        else:
            busiest = np.maximum(work.tiles / sms, work.longest)
        # Not a second bound: resident CTAs start and end at different times.
        rounds = np.maximum(1, np.ceil(a_sm) / p["resident"])
        beside = self._beside(p, sizes)
        busy = (busiest + beside * np.ceil(a_sm)) * self._tile(p, work, sizes)
        loop = overlapped_time(busy, (work.longest + beside) * p["latency"] * rounds, p["overlap"])
        kind = np.where(sizes.group == 1, p["single"], np.where(sizes.group > _WIDE, p["wide"], 1))
        start = p["start"] + p["dimension"] * sizes.head_dim / 128
        start = start * np.where(sizes.batch > _SCHEDULED, p["static"], 1)
        loop, starts = loop * kind, start * rounds * kind
        dram_us = p["dram"] * board.dram_bytes_per_us
        usable = p["l2_usable"] * board.l2_mb.value * 1e6
        hot = 1 / (1 + (sizes.read / usable) ** p["l2_sharpness"])
        read = sizes.read + beside * sizes.tile_bytes
        memory = read * (1 - hot) / dram_us
        memory = memory + read * hot / (p["l2_rate"] * self._clk_us * sms)
        body = overlapped_time(loop + starts, memory, p["memory_overlap"])
        flop = 4 * work.tiles * work.rows * _KEYS * sizes.head_dim
        used = np.minimum(1, flop / self._peak / body)
        throttle = 1 + p["throttle"] * np.maximum(0, used - p["knee"])
        inserts = p["insert"] * np.ceil(sizes.tokens / sizes.inserting / sms)
        cache = overlapped_time(p["cache"] * sizes.written / dram_us, inserts, p["overlap"])
        cache = self._calls.causal * cache + p["sequence"] * sizes.batch
        joined = p["combine"] + sizes.partial * work.splits / (
            p["workspace"] * board.dram_bytes_per_us
        )
        combine = np.where(work.splits > 1, joined, 0.0)
        total = p["launch"] + body * throttle + cache + combine
        total = np.where(self._is_refused(work, sizes), _NEVER, total)
        return _Parts(loop, starts, body, throttle, cache + 0 * total, combine, total)
