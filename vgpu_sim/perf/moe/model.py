"""The time of a mixture of experts: two grouped products over the experts with tokens, and the
permutation of tokens.

    T = min over tiles of  launch + sum over products of (core || memory) throttle + permute

Only the weights of experts that some token selected are read; with few tokens this dominates.
All times are in microseconds.
"""

from typing import Final

import numpy as np

from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.dtypes import Dtype
from vgpu_sim.perf.moe.loads import BALANCED, TILES, Calls, loads
from vgpu_sim.perf.overlap import overlapped_time
from vgpu_sim.perf.parameters import Values
from vgpu_sim.perf.stack import Stack
from vgpu_sim.records import dataclass

Array = np.ndarray
_COLUMNS: Final = 128  # rows of a tile
_ROW_BYTES: Final = 128  # bytes of a step of k
_ALIGNED: Final = 16
_ONE_CTA: Final = 4096  # pairs that one CTA sorts
_SHARPNESS: Final = 3


@dataclass(frozen=True, slots=True)
class _Product:
    core: Array
    exposed: Array
    throttle: Array


class Model:
    """Predicts the times of many calls of a mixture of experts on one board, with operands of one
    type. The argument ``rows`` of the methods holds indices of calls.
    """

    def __init__(self, board: Board, dtype: Dtype, calls: Calls) -> None:
        self._board, self._dtype, self._calls = board, dtype, calls
        self._loads = loads(calls)
        names = ("tokens", "hidden", "inner", "topk")
        self._sizes = [np.asarray(getattr(calls, name), float)[:, None] for name in names]
        self._gates = np.where(calls.gated, 2.0, 1.0)[:, None]
        self._ranks = np.asarray(calls.ranks, float)[:, None]
        self._skewed = (calls.distribution != BALANCED)[:, None]
        self._clk_us = board.boost_ghz.value * 1e3
        self._peak = board.tensor_flop_per_us(dtype.name)

    def sizes(self, rows: Array) -> Array:
        """Return one row per call: the logarithms of its sizes, and whether its load is skewed."""
        names = ("tokens", "hidden", "inner", "topk", "experts", "ranks")
        columns = [getattr(self._calls, name)[rows] for name in names]
        skewed = self._skewed[rows, 0]
        return np.column_stack([np.log(np.column_stack(columns).astype(float)), skewed])

    def choose(self, values: Values, rows: Array) -> Array:
        """Return the index of the fastest tile size for each call."""
        return np.asarray(self._total(values, rows, np.arange(len(TILES))[None, :]).argmin(axis=1))

    def times(self, values: Values, rows: Array, kernels: Array) -> Array:
        """Return the predicted time of each call with the given tile size."""
        return self._total(values, rows, kernels[:, None])[:, 0]

    def stack(self, values: Values, rows: Array) -> Stack:
        """Return the causes of each call's predicted time with the fastest tile size."""
        tile = self.choose(values, rows)[:, None]
        products = self._products(values, rows, tile)
        permute = self._permute(values, rows)
        causes = {"launch": np.full_like(permute, values["launch"])}
        for name, product in zip(("up", "down"), products, strict=True):
            causes[f"{name}: products"] = product.core
            causes[f"{name}: memory not hidden"] = product.exposed
        causes["clock throttle"] = sum(product.throttle for product in products) + 0 * permute
        causes["routing and permutation"] = permute
        return Stack({name: part[:, 0] for name, part in causes.items()})

    def _others(self, rows: Array) -> Array:
        """Return the number of pairs for experts of other ranks, whose CTAs start, write zeros and
        end.
        """
        tokens, _, _, topk = (size[rows] for size in self._sizes)
        return np.asarray(tokens * topk * (1 - 1 / self._ranks[rows]))

    def _total(self, p: Values, rows: Array, tile: Array) -> Array:
        total = p["launch"] + self._permute(p, rows)
        for product in self._products(p, rows, tile):
            total = total + product.core + product.exposed + product.throttle
        return np.asarray(total)

    def _permute(self, p: Values, rows: Array) -> Array:
        tokens, hidden, inner, topk = (size[rows] for size in self._sizes)
        pairs = self._loads.pairs[rows]
        passes = p["permute"] * pairs + p["permute_all"] * tokens * topk
        moved = passes * (4 * hidden + 6 * inner) / (p["dram"] * self._board.dram_bytes_per_us)
        own = p["token"] * 1e-3 * tokens + p["expert"] * self._loads.active[rows]
        return np.asarray(moved + own + p["sort"] * (pairs > _ONE_CTA))

    def _products(self, p: Values, rows: Array, tile: Array) -> list[_Product]:
        _, hidden, inner, _ = (size[rows] for size in self._sizes)
        gates = self._gates[rows]
        return [
            self._product(p, rows, tile, gates * inner, hidden),
            self._product(p, rows, tile, hidden, inner),
        ]

    def _product(self, p: Values, rows: Array, tile: Array, n: Array, k: Array) -> _Product:
        board, size = self._board, self._dtype.bytes
        sms, bm = board.sms.value, np.array(TILES, float)[tile]
        pairs = self._loads.pairs[rows]
        tiles = np.take_along_axis(self._loads.tiles[rows], tile + 0 * rows[:, None], axis=1)
        tiles = tiles * np.where(self._skewed[rows], p["skew"], 1.0)
        steps = np.ceil(k * size / _ROW_BYTES)
        waves = np.maximum(1, np.ceil(tiles * np.ceil(n / _COLUMNS) / sms))
        rounds = np.maximum(1, waves / p["resident"])
        flop = 2 * bm * _COLUMNS * _ROW_BYTES / size
        math = flop / (self._peak / sms * p["issue"])
        fill = (bm + _COLUMNS) * _ROW_BYTES / (p["fill"] * self._clk_us)
        inner = self._sizes[2][rows]
        step = overlapped_time(math, fill, p["overlap"]) * np.where(
            inner % _ALIGNED == 0, 1, p["unaligned"]
        )
        core = overlapped_time(waves * steps * step, rounds * steps * p["latency"], p["overlap"])
        core = core + rounds * p["epilogue"]
        core = core + p["empty"] * self._others(rows) / bm * np.ceil(n / _COLUMNS) / sms
        moved = self._loads.active[rows] * n * k * size + pairs * (k * size + 2 * n)
        hot = 1 / (1 + (moved / (p["l2_usable"] * board.l2_mb.value * 1e6)) ** _SHARPNESS)
        memory = moved * (1 - 0.95 * hot) / (p["dram"] * board.dram_bytes_per_us)
        memory = memory + p["ramp"] / 4.8 * (1 - np.exp(-moved / (p["ramp"] * 1e6)))
        body = overlapped_time(core, memory, p["overlap"])
        used = np.minimum(1, 2 * pairs * n * k / self._peak / body)
        throttle = body * p["throttle"] * np.maximum(0, used - p["knee"])
        return _Product(core, body - core, throttle)
