"""Kernels that multiply matrices, a warp at a time. The numbers are small, so sums are exact."""

import numpy as np

from support.programs.client_kernels.gpu import Program

RANDOM = np.random.default_rng(5)
DEPTH = 80  # five steps: four in the unrolled loop, one after it


def halves(program: Program) -> None:
    columns = 16  # the stride of b; each step reads 16 rows of it
    a = RANDOM.integers(-9, 9, (16, DEPTH)).astype(np.float16)
    b = RANDOM.integers(-9, 9, DEPTH * columns).astype(np.float16)
    sizes = np.int32(DEPTH), np.int32(columns)
    *_, c = program.run("wmma_h", a, b, np.zeros((16, 16), np.float32), *sizes)
    tiles = b.reshape(-1, 16, columns).astype(np.float32)  # each tile transposed
    want = sum(a[:, 16 * n :][:, :16].astype(np.float32) @ t.T for n, t in enumerate(tiles))
    np.testing.assert_array_equal(c, want)


def brains(program: Program) -> None:
    columns = 24
    a, b = RANDOM.integers(-9, 9, (16, DEPTH)), RANDOM.integers(-9, 9, (DEPTH, columns))
    patterns = [(m.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for m in (a, b)]
    sizes = np.int32(DEPTH), np.int32(columns)
    *_, c = program.run("wmma_b", *patterns, np.zeros((16, columns), np.float32), *sizes)
    np.testing.assert_array_equal(c[:, :16], (a @ b)[:, :16])
    assert not c[:, 16:].any()


def integers(program: Program) -> None:
    a, b = RANDOM.integers(-128, 128, (2, 16, 16), np.int8)
    *_, c = program.run("wmma_s8", a, b, np.zeros((16, 16), np.int32))
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.T.astype(np.int32))


def singles(program: Program) -> None:
    a, b = RANDOM.integers(-99, 99, (2, 16, 8)).astype(np.float32)
    *_, c = program.run("wmma_tf32", a, b, np.zeros((16, 16), np.float32))
    np.testing.assert_array_equal(c, a @ b.T)
