"""The time of a GEMM: that of the fastest of a library's kernels, as a stack of causes.

    T = min over kernels of  launch + prologue + (core || memory) throttle + split

``a || b`` is the norm by which overlapping parts add. ``core`` is the time of the fullest SM:
waves of tiles, steps of k, and the epilogue. ``memory`` is the time of L2's misses at DRAM's
rate, overlapped with that of all bytes at L2's rate. All times are in microseconds.
"""

import numpy as np

from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.dtypes import Dtype
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.gemm.candidates import Candidates, Space
from vgpu_sim.perf.gemm.library import VECTOR, Library, library_of
from vgpu_sim.perf.gemm.parameters import EXPOSED_EPILOGUE
from vgpu_sim.perf.overlap import overlapped_time
from vgpu_sim.perf.parameters import Values
from vgpu_sim.perf.stack import Stack
from vgpu_sim.records import dataclass

_ROW_BYTES = 128  # bytes of a step of k: a row of a swizzled tile
_TOGETHER = 1 << 15  # pairs of shape and kernel that fit into the CPU's caches
_NEVER = 1e12
_SPREAD = 32  # warps that share k in a product with a vector
Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of many products, as arrays of one length: ``m`` tokens, ``n`` features, and the
    inner dimension ``k``.
    """

    m: Array
    n: Array
    k: Array

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            if (getattr(self, name) < 1).any():
                raise BadShape(f"{name} must be at least 1")

    def __len__(self) -> int:
        return len(self.m)

    def rows(self, chosen: slice | Array) -> "Shapes":
        """Select some of the shapes."""
        return Shapes(self.m[chosen], self.n[chosen], self.k[chosen])

    def logs(self) -> Array:
        """Return the logarithms of m, n and k, one row per shape."""
        return np.asarray(np.log(np.column_stack([self.m, self.n, self.k]).astype(float)))

    def columns(self, precision: type[np.floating] = np.float64) -> tuple[Array, Array, Array]:
        """Return m, n and k as columns with one row per shape, which NumPy broadcasts against a row
        of kernels.
        """
        m, n, k = (np.asarray(x, precision)[:, None] for x in (self.m, self.n, self.k))
        return m, n, k


@dataclass(frozen=True, slots=True)
class _Core:
    """The time of the fullest SM: its main loop, the arithmetic in that, and the epilogues."""

    loop: Array
    arithmetic: Array
    epilogue: Array


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of the time of each kernel."""

    core: _Core
    body: Array
    throttle: Array
    split: Array
    total: Array


class Model:
    """The model of GEMM for one operand type, board and library. ``values`` are the values of the
    model's parameters.
    """

    def __init__(self, board: Board, dtype: Dtype, values: Values, library: str = "cublas") -> None:
        self._board, self._dtype, self._p = board, dtype, values
        self._library: Library = library_of(board, library, dtype.name)
        self._flop_us_sm = board.tensor_flop_per_us(dtype.name) / board.sms.value
        self._clk_us = board.boost_ghz.value * 1e3
        self._dram_us = board.dram_bytes_per_us
        self._space = Space(board, self._library)

    def kernels(self, shapes: Shapes) -> Candidates:
        """Return the fastest kernel of each shape, one row per shape. The times are compared in
        single precision, which is enough for this choice.
        """
        best = np.empty(len(shapes), np.intp)
        for rows, kernels in self._space.groups(shapes.m, shapes.n, shapes.k):
            several = self._space.every.at(kernels)
            step = max(1, _TOGETHER // len(kernels))
            for row_block in (rows[at : at + step] for at in range(0, len(rows), step)):
                parts = self._parts(*shapes.rows(row_block).columns(np.float32), several)
                best[row_block] = kernels[parts.total.argmin(axis=1)]
        return self._space.every.at(best[:, None])

    def times(self, shapes: Shapes, kernels: Candidates | None = None) -> Array:
        """Return the predicted times of the shapes with the given kernels, or with the fastest
        ones.
        """
        return self._parts(*shapes.columns(), kernels or self.kernels(shapes)).total[:, 0]

    def stack(self, shapes: Shapes) -> tuple[Stack, Candidates]:
        """Return the predicted time of each shape with its fastest kernel, broken down by cause.
        Also return these fastest kernels.
        """
        kernels = self.kernels(shapes)
        m, n, k = shapes.columns()
        parts = self._parts(m, n, k, kernels)
        core, p = parts.core, self._p
        useful = 2 * m * n * k / (self._flop_us_sm * self._board.sms.value)
        math = np.minimum(useful, core.loop)
        waste = np.clip(core.arithmetic - math, 0, core.loop - math)
        causes = {
            "launch": np.full_like(m, p["launch"]),
            "prologue": np.full_like(m, p["prologue"]),
            "math": math,
            "tile and wave quantisation": waste,
            "fill and latency": core.loop - math - waste,
            "epilogue": core.epilogue,
            "memory not hidden": parts.body - core.loop - core.epilogue,
            "clock throttle": parts.body * (parts.throttle - 1),
            "split of k": parts.split,
        }
        return Stack({name: value[:, 0] for name, value in causes.items()}), kernels

    @property
    def _step_k(self) -> float:
        return _ROW_BYTES / self._dtype.bytes

    def _step_math(self, kernels: Candidates) -> Array:
        """Return the time of the arithmetic in one step of k of one tile."""
        bm, bn, p = kernels.bm, kernels.bn, self._p
        flop = 2 * bm * bn * self._step_k
        edges = np.where(bm == VECTOR, 1, 1 + p["edge"] * (1 / bm + 1 / bn) / 4)
        return np.asarray(flop / (self._flop_us_sm * p["issue"]) * edges)

    def _split_time(self, m: Array, n: Array, kernels: Candidates) -> Array:
        p, parts = self._p, kernels.splits
        workspace = 4 * m * n * (parts + 1) / (p["workspace"] * self._dram_us)
        return np.where(parts > 1, p["reduce"] + workspace, 0.0)

    def _is_refused(self, m: Array, n: Array, k: Array, kernels: Candidates) -> Array:
        rules = self._library
        ctas = np.ceil(m / kernels.bm) * np.ceil(n / kernels.bn) * kernels.splits
        many = ctas > rules.most_ctas * self._board.sms.value
        short = k < rules.least_k * kernels.splits
        small = (m * n * k < rules.least_work) & (k <= rules.long_k)
        small &= (m <= rules.few_tokens) | (k < rules.deep_k)
        refused = many | short | small | self._is_exception(m, n, k)
        return np.asarray((kernels.splits > 1) & refused)

    def _is_exception(self, m: Array, n: Array, k: Array) -> Array:
        rule = self._library.exception
        if rule is None:
            return np.zeros_like(m, bool)
        return np.asarray((m <= rule.m) & (n == rule.n) & (k <= rule.k))

    def _stages(self, m: Array, n: Array, k: Array, stage_limit: Array) -> Array:
        """Return the number of stages of the pipeline: at most ``stage_limit``, and no more than
        fit into shared memory.
        """
        depth = np.clip(stage_limit, 2, self._p["stages"])
        rule = self._library.exception
        if rule is None:
            return np.asarray(depth)
        return np.where(self._is_exception(m, n, k), rule.stages, depth)

    def _parts(self, m: Array, n: Array, k: Array, kernels: Candidates) -> _Parts:
        p = self._p
        core, resident = self._core(m, n, k, kernels)
        memory = self._memory(m, n, k, kernels, resident)
        body = overlapped_time(core.loop + core.epilogue, memory, p["overlap"])
        peak = self._flop_us_sm * self._board.sms.value
        used = np.minimum(1, 2 * m * n * k / peak / body)
        long = 1 + p["long"] * body / (body + 1e3)
        throttle = 1 + p["throttle"] * np.maximum(0, used - p["knee"]) * long
        split = self._split_time(m, n, kernels)
        total = p["launch"] + p["prologue"] + body * throttle + split
        total = np.where(self._is_refused(m, n, k, kernels), _NEVER, total)
        return _Parts(core, body, throttle, split, total)

    def _core(self, m: Array, n: Array, k: Array, kernels: Candidates) -> tuple[_Core, Array]:
        """Return the fullest SM's time, and the number of CTAs resident on one SM."""
        board, p = self._board, self._p
        bm, bn = kernels.bm, kernels.bn
        tiles = np.ceil(m / bm) * np.ceil(n / bn) * kernels.splits
        steps = np.ceil(k / self._step_k / kernels.splits)
        waves = np.ceil(tiles / board.sms.value)
        stage_bytes = (bm + bn) * _ROW_BYTES
        shared = board.shared_kb_per_sm.value * 1024
        resident = np.clip(np.floor(shared / (stage_bytes * 4)), 1, 4)
        stages = self._stages(m, n, k, shared / resident / stage_bytes)
        vector = bm == VECTOR
        math = self._step_math(kernels)
        step = overlapped_time(math, stage_bytes / (p["fill"] * self._clk_us), p["overlap"])
        end = p["epilogue"] + 2 * bm * bn / (p["store"] * self._clk_us)
        busy, rounds = waves * steps * step, np.ceil(waves / resident)
        if board.has_tensor_memory:
            busy = waves * overlapped_time(steps * step, EXPOSED_EPILOGUE * end, p["overlap"])
            ends = end + 0 * rounds
        else:
            ends = np.where(vector, 0, rounds * end)
        # With one token all loads are in flight at once, and warps share k.
        waits = np.where(vector, np.ceil(steps / _SPREAD), steps / stages)
        loop = overlapped_time(busy, rounds * waits * p["latency"], p["overlap"])
        return _Core(loop, waves * steps * math, ends), resident

    def _memory(self, m: Array, n: Array, k: Array, kernels: Candidates, resident: Array) -> Array:
        """Return the memory time: DRAM's time for L2's misses, overlapped with L2's time for all
        bytes.
        """
        board, p, size = self._board, self._p, self._dtype.bytes
        a, b, c = m * k * size, k * n * size, 2 * m * n
        rows, columns = np.ceil(m / kernels.bm), np.ceil(n / kernels.bn)
        side = np.sqrt(np.minimum(rows * columns, board.sms.value * resident))
        again = a * np.maximum(0, columns / side - 1) + b * np.maximum(0, rows / side - 1)
        l2 = board.l2_mb.value * 1e6
        missed = 1 / (1 + (l2 / (a + b)) ** 2)
        moved = a + b + c + 0.2 * p["refetch"] * again * missed
        through_l2 = moved / (p["l2_rate"] * self._clk_us * board.sms.value)
        usable, sharp = p["l2_usable"] * l2, p["l2_sharpness"]
        hot_a = 1 / (1 + ((a + b + c) / usable) ** sharp)
        hot_b = 1 / (1 + ((a + p["copies"] * b + c) / usable) ** sharp)
        cold = moved - hot_a * (a + c) - hot_b * b
        ramp = p["ramp"] * 1e6 * self._dram_us / 4.8e6
        rising = p["ramp"] / 4.8 * (1 - np.exp(-cold / (ramp + 1)))
        return overlapped_time(
            cold / (p["dram"] * self._dram_us) + rising, through_l2, p["overlap"]
        )
