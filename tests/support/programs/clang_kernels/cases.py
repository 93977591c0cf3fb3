"""The inputs of each kernel: kernels that the host runs as well, and kernels with other oracles."""

import ctypes
from collections.abc import Callable
from typing import Final

import numpy as np

from support.programs.clang_kernels.host import BLOCK, GRID, Structure
from support.programs.client_kernels.gpu import Argument, Program

RANDOM = np.random.default_rng(22)
THREADS = BLOCK * GRID


def _ints(count: int = THREADS, low: int = -1000, high: int = 1000) -> np.ndarray:
    return RANDOM.integers(low, high, count, dtype=np.int32)


def _longs(count: int = THREADS) -> np.ndarray:
    return RANDOM.integers(0, 1 << 64, count, dtype=np.uint64)


def _structures() -> tuple[Argument, ...]:
    one = Structure(1.5, (1, 2, 3, 4, 5, 6, 7), 250, -32760, (0.5, -1, 3e9))
    data = bytearray(bytes(one))
    out = np.zeros(THREADS * ctypes.sizeof(Structure), np.uint8)
    return out, bytes(data), np.int32(THREADS - 5)


COMPARED: Final[dict[str, Callable[[], tuple[Argument, ...]]]] = {
    "switches": lambda: (_ints(), np.int32(THREADS - 3)),
    "recursion": lambda: (_ints(),),
    "local_arrays": lambda: (_ints(), _ints(32), np.int32(THREADS)),
    "taken_from_the_stack": lambda: (_ints(), np.int32(9)),
    "virtual_functions": lambda: (np.zeros(THREADS, np.float32),),
    "new_and_delete": lambda: (np.zeros(THREADS, np.float32),),
    "function_pointers": lambda: (_ints(), np.int32(7)),
    "templates_and_lambdas": lambda: (RANDOM.normal(size=THREADS).astype(np.float32), np.int32(3)),
    "doubles": lambda: (RANDOM.normal(size=THREADS) * 5,),
    "wide_integers": lambda: (_longs(2 * THREADS),),
    "divisions": lambda: (_longs(2 * THREADS), _ints(low=-(1 << 31), high=1 << 31)),
    "bits": lambda: (_longs().astype(np.uint32), _longs()),
    "small_integers": lambda: (
        RANDOM.integers(0, 256, THREADS, dtype=np.uint8),
        RANDOM.integers(-(1 << 15), 1 << 15, THREADS, dtype=np.int16),
        np.zeros(THREADS, np.uint8),
    ),
    "jumps": lambda: (_ints(low=0), np.int32(900)),
    "conversions": lambda: (
        np.zeros(THREADS, np.float32),
        RANDOM.normal(size=THREADS) * 1e4,
        _ints(),
        _longs() >> np.uint64(3),
    ),
}
"""The arguments of kernels that the host runs as well."""


def _structure_cases(program: Program) -> None:
    """Add cases with structures; padding is undefined, so fields are compared."""
    out, one, n = _structures()
    (found,) = program.run("structures", out, one, n, grid=(GRID,), block=(BLOCK,))
    start = Structure.from_buffer_copy(one)
    for i, had in enumerate((Structure * THREADS).from_buffer_copy(found.tobytes())):
        if i >= int(n):
            assert bytes(had) == bytes(ctypes.sizeof(Structure))
            continue
        assert list(had.v) == [x + i + 3 for x in start.v]
        assert had.a == 4 * start.a
        assert had.c == (start.c + i + 3) % 256
        assert had.s == (start.s - i - 3 + (1 << 15)) % (1 << 16) - (1 << 15)
        f = np.array(start.f, np.float32)
        f[i % 3] += np.float32(1)
        f[0] += np.float32(1)
        assert list(had.f) == f.tolist()


def _tree(program: Program) -> None:
    n = 31
    out, _ = program.run("tree", np.zeros(1, np.int32), np.zeros(3 * n, np.uint64), np.int32(n))
    assert out[0] == 3 * sum(range(n))


def _printing(program: Program) -> None:
    (out,) = program.run("printing", np.zeros(1, np.int32))
    assert out[0] == 4  # arguments; the text is in the output


def _assembly(program: Program) -> None:
    x = np.arange(32, dtype=np.uint32) * 0x0F00_0001
    (out,) = program.run("assembly", x)
    first = np.where(x > 5, 1, x).astype(np.uint64) + x
    r = (first + (first >> np.uint64(32))) & np.uint64(0xFFFF_FFFF)
    w = x.astype(np.uint64) * np.arange(32, dtype=np.uint64)
    np.testing.assert_array_equal(out, (r + (w >> np.uint64(1))).astype(np.uint32))


def _long_atomics(program: Program) -> None:
    start = np.array([10, 3, 40, 0], np.uint64)
    arguments = start, np.zeros(1), np.full(1, -100, np.int64)
    a, d, m = program.run("long_atomics", *arguments, grid=(GRID,), block=(BLOCK,))
    flips = 0
    for i in range(THREADS):
        flips ^= i << 33
    assert a[:3].tolist() == [10 + sum(range(THREADS)), 3 ^ flips, 5]
    assert 1 <= a[3] <= THREADS
    assert (d[0], m[0]) == (THREADS / 2, 0)


def _standard_atomics(program: Program) -> None:
    a, b = program.run(
        "standard_atomics",
        np.zeros(6, np.int32),
        np.zeros(1, np.uint64),
        grid=(GRID,),
        block=(BLOCK,),
    )
    assert a.tolist() == [sum(range(THREADS)), -3 * THREADS, 8, 17, THREADS - 1, 17]
    assert b[0] == (1 << 64) - 1


def _halves(program: Program) -> None:
    x, y = RANDOM.normal(size=(2, 32, 2)).astype(np.float16)
    out, _ = program.run("halves", x, y)
    a = x * y + x  # numpy rounds each step, as code without contraction does
    a[:, 0] = np.where(a[:, 1] > y[:, 0], a[:, 0], y[:, 1])
    np.testing.assert_array_equal(out, a - y)


def _vectors(program: Program) -> None:
    a = RANDOM.normal(size=(32, 4)).astype(np.float32)
    d, b = RANDOM.normal(size=(32, 2)), RANDOM.integers(0, 256, (32, 4), dtype=np.uint8)
    found = program.run("vectors", a, d, b)
    np.testing.assert_array_equal(found[0], a[:, ::-1] * np.float32(2) + a)
    np.testing.assert_array_equal(found[1], d[:, ::-1] + 1)
    np.testing.assert_array_equal(found[2], b + np.uint8(3))


def _warps(program: Program) -> None:
    (out,) = program.run("warps", np.zeros((THREADS, 5), np.uint32), grid=(GRID,), block=(BLOCK,))
    i = np.arange(THREADS)
    first = i // 32 * 32
    fours = 0x1111_1111 << (i & 3)
    ballot = [sum(1 << k for k in range(32) if (f + k) % 3 == 0) for f in first]
    columns = [32 * first + 496, ballot, i ^ 5, fours, first == 32]
    np.testing.assert_array_equal(out, np.stack(columns, axis=1).astype(np.uint32))


def _dynamic(program: Program) -> None:
    a = RANDOM.integers(0, 99, 256).astype(np.float32)
    (out,) = program.run("dynamic_shared_memory", a, grid=(4,), block=(64,), shared=256)
    np.testing.assert_array_equal(out[::64], a.reshape(4, 64).sum(axis=1))


def _bounds(program: Program) -> None:
    a = _ints(256)
    (out,) = program.run("launch_bounds", a, grid=(2,), block=(128,))
    np.testing.assert_array_equal(out.reshape(2, 128), a.reshape(2, 128)[:, ::-1])


CASES: Final[dict[str, Callable[[Program], None]]] = {
    "structures": _structure_cases,
    "tree": _tree,
    "printing": _printing,
    "assembly": _assembly,
    "long_atomics": _long_atomics,
    "standard_atomics": _standard_atomics,
    "halves": _halves,
    "vectors": _vectors,
    "warps": _warps,
    "dynamic_shared_memory": _dynamic,
    "launch_bounds": _bounds,
}
