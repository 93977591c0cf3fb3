"""Kernels that stream through memory: vector addition in DRAM and in the cache, stencils."""

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
    near,
    same,
)

_BLOCK = 256
_GOALS = {POCL: 0.95, NATIVE: 0.95}


def _vector_addition(elements: int) -> Problem:
    random = np.random.default_rng(1)
    a, b = (random.random(elements, dtype=np.float32) for _ in range(2))
    arguments = ("a", "b", "c", np.int32(elements))

    def check(results: Buffers) -> None:
        same(results["c"], a + b, "c")

    return Problem(
        {"a": a, "b": b, "c": np.full_like(a, np.nan)},
        (Launch("vecadd", (-(-elements // _BLOCK), 1, 1), (_BLOCK, 1, 1), arguments),),
        check,
        Call("vecadd", arguments),
    )


def _stencil(order: int) -> Problem:
    grid = np.random.default_rng(2).random((order, order), dtype=np.float32)
    arguments = ("in", "out", np.int32(order))

    def check(results: Buffers) -> None:
        expected = np.zeros_like(grid)
        sides = grid[1:-1, :-2] + grid[1:-1, 2:] + grid[:-2, 1:-1] + grid[2:, 1:-1]
        expected[1:-1, 1:-1] = 0.5 * grid[1:-1, 1:-1] + 0.125 * sides
        near(results["out"], expected, "out", relative=1e-6)

    return Problem(
        {"in": grid, "out": np.zeros_like(grid)},
        (Launch("stencil5", (-(-order // 32), -(-order // 8), 1), (32, 8, 1), arguments),),
        check,
        Call("stencil5", arguments),
    )


def _stencil_f64(order: int) -> Problem:
    grid = np.random.default_rng(3).random((order, order, order))
    arguments = ("in", "out", np.int32(order))

    def check(results: Buffers) -> None:
        expected = np.zeros_like(grid)
        inner = slice(1, -1)
        sides = sum(
            np.roll(grid, shift, axis)[inner, inner, inner]
            for axis in range(3)
            for shift in (1, -1)
        )
        expected[inner, inner, inner] = 0.4 * grid[inner, inner, inner] + 0.1 * sides
        near(results["out"], expected, "out", relative=1e-14)

    return Problem(
        {"in": grid, "out": np.zeros_like(grid)},
        (Launch("stencil_f64", (-(-order // 32), -(-order // 8), order), (32, 8, 1), arguments),),
        check,
        Call("stencil_f64", arguments),
    )


CONTESTS = (
    Contest(
        "vecadd-16M",
        "vecadd",
        lambda tiny: _vector_addition(1000 if tiny else 1 << 24),
        _GOALS,
        work=(3 * 4 * (1 << 24) * 1e-9, "GB"),
        tags=frozenset({FIFTEEN}),
    ),
    Contest(
        "vecadd-64K",
        "vecadd",
        lambda tiny: _vector_addition(1000 if tiny else 1 << 16),
        _GOALS,
        work=(3 * 4 * (1 << 16) * 1e-9, "GB"),
        tags=frozenset({FIFTEEN}),
    ),
    Contest(
        "stencil5",
        "stencil5",
        lambda tiny: _stencil(70 if tiny else 2048),
        _GOALS,
        work=(2 * 4 * 2048**2 * 1e-9, "GB"),
        tags=frozenset({FIFTEEN}),
    ),
    Contest(
        "stencil-f64",
        "stencil_f64",
        lambda tiny: _stencil_f64(20 if tiny else 256),
        {NATIVE: 1.0, POCL: None},
        work=(2 * 8 * 256**3 * 1e-9, "GB"),
    ),
)
