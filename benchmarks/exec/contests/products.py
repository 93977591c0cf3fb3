"""Matrix products, dense and sparse."""

import numpy as np

from benchmarks.exec.contest import (
    FIFTEEN,
    NATIVE,
    POCL,
    Buffers,
    Call,
    Contest,
    Launch,
    Problem,
    Shape,
    Work,
    near,
)
from benchmarks.exec.peaks import FMA_PEAK, fma_peak

OPENBLAS = "OpenBLAS"
_ORDER = 1024
_FLOPS = 2 * _ORDER**3


def _blas(buffers: Buffers) -> Work:
    def once() -> None:
        np.matmul(buffers["a"], buffers["b"], out=buffers["c"])

    return once


def _product(entry: str, block: Shape, tile: tuple[int, int], order: int) -> Problem:
    """Return C = A B, order x order, by a kernel whose block computes ``tile`` (columns, rows) of
    C.
    """
    random = np.random.default_rng(9)
    a, b = (random.random((order, order), dtype=np.float32) for _ in range(2))
    arguments = ("a", "b", "c", np.int32(order))

    def check(results: Buffers) -> None:
        near(results["c"], a.astype(np.float64) @ b, "c", relative=1e-4)

    return Problem(
        {"a": a, "b": b, "c": np.full_like(a, np.nan)},
        (Launch(entry, (order // tile[0], order // tile[1], 1), block, arguments),),
        check,
        Call(entry, arguments),
        libraries={OPENBLAS: _blas},
        yardsticks={FMA_PEAK: fma_peak(_FLOPS)},
    )


def _sparse(rows: int) -> Problem:
    random = np.random.default_rng(10)
    lengths = random.integers(4, 28, rows)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    column = random.integers(0, rows, int(start[-1]), dtype=np.int32)
    value = random.random(int(start[-1]), dtype=np.float32)
    x = random.random(rows, dtype=np.float32)
    arguments = ("start", "column", "value", "x", "y", np.int32(rows))

    def check(results: Buffers) -> None:
        products = value.astype(np.float64) * x[column]
        near(results["y"], np.add.reduceat(products, start[:-1]), "y", relative=1e-5)

    return Problem(
        {"start": start, "column": column, "value": value, "x": x, "y": np.full_like(x, np.nan)},
        (Launch("spmv", (-(-rows // 256), 1, 1), (256, 1, 1), arguments),),
        check,
        Call("spmv", arguments),
    )


_GOALS = {POCL: 0.95, NATIVE: 1.5, OPENBLAS: 1.0, FMA_PEAK: None}

CONTESTS = (
    Contest(
        "sgemm-naive",
        "sgemm_naive",
        lambda tiny: _product("sgemm_naive", (32, 8, 1), (32, 8), 64 if tiny else _ORDER),
        _GOALS,
        work=(_FLOPS * 1e-9, "GFLOP"),
        tags=frozenset({FIFTEEN}),
    ),
    Contest(
        "sgemm-tiled16",
        "sgemm_tiled",
        lambda tiny: _product("sgemm_tiled16", (16, 16, 1), (16, 16), 64 if tiny else _ORDER),
        _GOALS,
        work=(_FLOPS * 1e-9, "GFLOP"),
        tags=frozenset({FIFTEEN}),
    ),
    Contest(
        "sgemm-tiled32",
        "sgemm_tiled",
        lambda tiny: _product("sgemm_tiled32", (32, 32, 1), (32, 32), 64 if tiny else _ORDER),
        _GOALS,
        work=(_FLOPS * 1e-9, "GFLOP"),
        tags=frozenset({FIFTEEN}),
    ),
    Contest(
        "sgemm-register",
        "sgemm_register",
        lambda tiny: _product("sgemm_register", (16, 16, 1), (128, 128), 128 if tiny else _ORDER),
        {**_GOALS, OPENBLAS: 0.5},
        work=(_FLOPS * 1e-9, "GFLOP"),
        tags=frozenset({FIFTEEN}),
    ),
    Contest(
        "spmv",
        "spmv",
        lambda tiny: _sparse(1000 if tiny else 1 << 18),
        {POCL: 0.95, NATIVE: 0.9},
        tags=frozenset({FIFTEEN}),
    ),
)
