"""Matrix products by nvcc's kernels, and by mma.sync.

nvcc's PTX may not be stored here: TESSERA_PTX_CORPUS names the folder with it.
"""

import numpy as np

from benchmarks.exec.contest import Array, Buffers, Contest, Launch, Problem, Shape, Work, near
from benchmarks.exec.peaks import BF16_PEAK, FMA_PEAK, bf16_peak, fma_peak

OPENBLAS = "OpenBLAS"
_ORDER = 1024
_NVCC = "$TESSERA_PTX_CORPUS/02_sgemm.sm_90"


def _factors(n: int) -> tuple[Array, Array]:
    random = np.random.default_rng(30)
    a, b = (random.random((n, n), np.float32) for _ in range(2))
    return a, b


def _product(n: int, entry: str, grid: Shape, block: Shape, sizes: int) -> Problem:
    a, b = _factors(n)

    def check(results: Buffers) -> None:
        near(results["c"], a.astype(np.float64) @ b, entry, 1e-4)

    def blas(buffers: Buffers) -> Work:
        def once() -> None:
            np.matmul(buffers["a"], buffers["b"], out=buffers["c"])

        return once

    return Problem(
        {"a": a, "b": b, "c": np.zeros_like(a)},
        (Launch(entry, grid, block, ("a", "b", "c", *(np.int32(n),) * sizes)),),
        check,
        libraries={OPENBLAS: blas},
        yardsticks={FMA_PEAK: fma_peak(2.0 * n**3)},
    )


def _bounds_checked_product(n: int) -> Problem:
    return _product(n, "sgemm16", (-(-n // 16), -(-n // 16), 1), (16, 16, 1), 3)


def _registers(n: int) -> Problem:
    return _product(n, "sgemm_reg", (n // 128, n // 128, 1), (256, 1, 1), 1)


def _brains(n: int) -> Problem:
    a, b = ((x.view(np.uint32) >> 16).astype(np.uint16) for x in _factors(n))
    left, columns = ((x.astype(np.uint32) << 16).view(np.float32) for x in (a, b))
    right = columns.T  # the kernel reads the second factor column by column

    def check(results: Buffers) -> None:
        near(results["c"], left.astype(np.float64) @ right, "bf16_gemm", 1e-4)

    def blas(buffers: Buffers) -> Work:
        def once() -> None:
            np.matmul(left, right, out=buffers["c"])

        return once

    arguments = ("a", "b", "c", np.uint32(n), np.uint32(n))
    return Problem(
        {"a": a, "b": b, "c": np.zeros((n, n), np.float32)},
        (Launch("bf16_gemm", (n // 128, n // 128, 1), (128, 1, 1), arguments),),
        check,
        libraries={f"{OPENBLAS}, f32": blas},
        yardsticks={BF16_PEAK: bf16_peak(2.0 * n**3)},
    )


_WORK = (2e-9 * _ORDER**3, "GFLOP")
_TAGS = frozenset({"matrices"})
CONTESTS = (
    Contest(
        "sgemm-nvcc-guarded",
        _NVCC,
        lambda tiny: _bounds_checked_product(40 if tiny else _ORDER),
        {OPENBLAS: 0.9, FMA_PEAK: None},
        _WORK,
        _TAGS,
    ),
    Contest(
        "sgemm-nvcc-8x8",
        _NVCC,
        lambda tiny: _registers(128 if tiny else _ORDER),
        {OPENBLAS: 0.5, FMA_PEAK: None},
        _WORK,
        _TAGS,
    ),
    Contest(
        "gemm-bf16",
        "bf16_gemm",
        lambda tiny: _brains(128 if tiny else _ORDER),
        {BF16_PEAK: 0.5},
        _WORK,
        _TAGS,
    ),
)
