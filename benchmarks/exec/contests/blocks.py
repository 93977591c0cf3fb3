"""Kernels whose threads synchronise in shared memory or by atomics: trees, softmax, histograms."""

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

_BLOCK = (256, 1, 1)
_SUMMED = 512  # elements that a block of the reduction reduces to one
_COLUMNS = 1024
_SHARED_BLOCKS = 64


def _reduction(elements: int) -> Problem:
    data = np.random.default_rng(4).random(elements, dtype=np.float32)
    buffers, launches = {"in": data}, []
    source, summand_count = "in", elements
    while summand_count > 1:
        blocks = -(-summand_count // _SUMMED)
        target = "out" if blocks == 1 else f"part{blocks}"
        buffers[target] = np.full(blocks, np.nan, np.float32)
        launches.append(
            Launch("reduction", (blocks, 1, 1), _BLOCK, (source, target, np.int32(summand_count)))
        )
        source, summand_count = target, blocks

    def check(results: Buffers) -> None:
        near(results["out"], np.sum(data, dtype=np.float64), "sum", relative=2e-5)

    return Problem(
        buffers, tuple(launches), check, Call("reduction", ("in", "out", np.int32(elements)))
    )


def _softmax(rows: int) -> Problem:
    data = np.random.default_rng(5).standard_normal((rows, _COLUMNS), dtype=np.float32)

    def check(results: Buffers) -> None:
        powers = np.exp(data.astype(np.float64) - data.max(axis=1, keepdims=True))
        near(results["out"], powers / powers.sum(axis=1, keepdims=True), "out", relative=1e-5)

    return Problem(
        {"in": data, "out": np.full_like(data, np.nan)},
        (Launch("softmax", (rows, 1, 1), _BLOCK, ("in", "out")),),
        check,
        Call("softmax", ("in", "out", np.int32(rows))),
    )


def _histogram(entry: str, elements: int, blocks: int) -> Problem:
    data = np.random.default_rng(6).integers(0, 256, elements, dtype=np.uint8)
    arguments = ("in", "bins", np.int32(elements))

    def check(results: Buffers) -> None:
        same(results["bins"], np.bincount(data, minlength=256), "bins")

    return Problem(
        {"in": data, "bins": np.zeros(256, np.int32)},
        (Launch(entry, (blocks, 1, 1), _BLOCK, arguments),),
        check,
        Call("histogram", arguments),
    )


def _histogram_shared(tiny: bool) -> Problem:
    return _histogram("histogram_shared", 70001 if tiny else 1 << 22, _SHARED_BLOCKS)


def _histogram_global(tiny: bool) -> Problem:
    elements = 70001 if tiny else 1 << 22
    return _histogram("histogram_global", elements, -(-elements // 256))


CONTESTS = (
    Contest(
        "reduction-16M",
        "reduction",
        lambda tiny: _reduction(300_001 if tiny else 1 << 24),
        {POCL: 0.95, NATIVE: 0.95},
        work=(4 * (1 << 24) * 1e-9, "GB"),
        tags=frozenset({FIFTEEN}),
    ),
    Contest(
        "reduction-512K",
        "reduction",
        lambda tiny: _reduction(1025 if tiny else 1 << 19),
        {POCL: 0.95, NATIVE: 0.95},
        work=(4 * (1 << 19) * 1e-9, "GB"),
        tags=frozenset({FIFTEEN}),
    ),
    Contest(
        "softmax",
        "softmax",
        lambda tiny: _softmax(5 if tiny else 4096),
        {POCL: 0.95, NATIVE: 0.9},
        work=(2 * 4 * 4096 * _COLUMNS * 1e-9, "GB"),
        tags=frozenset({FIFTEEN}),
    ),
    Contest(
        "histogram-shared",
        "histogram",
        _histogram_shared,
        {POCL: 0.95, NATIVE: 0.6},
        tags=frozenset({FIFTEEN}),
    ),
    Contest(
        "histogram-global",
        "histogram",
        _histogram_global,
        {POCL: 10.0, NATIVE: 0.25},
        tags=frozenset({FIFTEEN}),
    ),
)
