"""Kernels whose threads synchronize: shared memory, barriers, shuffles, votes, atomics."""

import numpy as np

from support.programs.client_kernels.gpu import Program

RANDOM = np.random.default_rng(11)


def sgemm16(program: Program) -> None:
    m, n, k = 50, 37, 45
    a, b = RANDOM.random((m, k), np.float32), RANDOM.random((k, n), np.float32)
    sizes = [np.int32(size) for size in (m, n, k)]
    *_, c = program.run(
        "sgemm16", a, b, np.zeros((m, n), np.float32), *sizes, grid=(3, 4), block=(16, 16)
    )
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def sgemm_registers(program: Program) -> None:
    n = 256
    a, b = RANDOM.random((2, n, n), np.float32)
    *_, c = program.run("sgemm_reg", a, b, np.zeros_like(a), np.int32(n), grid=(2, 2), block=(256,))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def reduce(program: Program) -> None:
    x = RANDOM.integers(0, 100, 5000).astype(np.float32)  # sums are exact
    _, out = program.run(
        "reduce", x, np.zeros(1, np.float32), np.int32(5000), grid=(5,), block=(256,)
    )
    assert out[0] == x.sum()


def scan(program: Program) -> None:
    x = RANDOM.integers(-50, 50, 1000, dtype=np.int32)
    _, y = program.run("scan", x, np.zeros_like(x), np.int32(1000), block=(1024,))
    np.testing.assert_array_equal(y, np.cumsum(x))


def blockmax(program: Program) -> None:
    x = RANDOM.normal(size=(6, 256))
    _, out = program.run("blockmax", x, np.zeros(6), grid=(6,), block=(256,), shared=256 * 8)
    np.testing.assert_array_equal(out, x.max(axis=1))


def block_scan(program: Program) -> None:
    a = RANDOM.integers(-50, 50, 512, dtype=np.int32)
    _, b = program.run("cubscan", a, np.zeros_like(a), block=(128,))
    np.testing.assert_array_equal(b, np.cumsum(a))


def block_sort(program: Program) -> None:
    a = RANDOM.integers(0, 1 << 32, 512, dtype=np.uint32)
    (out,) = program.run("cubsort", a, block=(128,))
    np.testing.assert_array_equal(out, np.sort(a))


def histogram(program: Program) -> None:
    x = RANDOM.integers(0, 256, 20000, dtype=np.uint8)
    _, h = program.run(
        "hist", x, np.zeros(256, np.uint32), np.int32(20000), grid=(7,), block=(256,)
    )
    np.testing.assert_array_equal(h, np.bincount(x, minlength=256))


def atoms(program: Program) -> None:
    threads = 64
    i = np.zeros(10 + threads, np.int32)
    i[0] = 50
    u = np.array([0xFF, 0, 0, 3, 3], np.uint32)
    half, brain = np.zeros(2, np.float16), np.zeros(2, np.uint16)
    out = program.run(
        "atoms",
        i,
        u,
        np.array([0, 3, 1, 9], np.uint64),
        np.zeros(1, np.float32),
        np.zeros(1),
        half,
        brain,
        np.array([1, 0], np.uint16),
        np.array([7], np.int64),
        block=(threads,),
    )
    i, u, wide, f, d, h, b, us, sl = out
    assert (i[0], i[1]) == (0, threads - 1)
    assert 0 <= i[2] < threads
    assert (i[4], i[5]) == (threads, threads)
    assert 0 < i[3] < threads  # the first value other than 0 stays
    assert u[0] == 0
    assert (u[1], u[2]) == (threads - 1, 0)
    assert 0 <= u[3] <= 7
    assert 0 <= u[4] <= 7
    np.testing.assert_array_equal(wide[:3], [threads, 5, 2])
    assert (f[0], d[0], us[0], sl[0]) == (threads, threads, 2, 3)
    np.testing.assert_array_equal(h, [threads, threads])
    np.testing.assert_array_equal(b, [0x4280, 0x4280])  # 64 in bfloat16


def ordered_atomics(program: Program) -> None:
    p, q = program.run("catom", np.zeros(1, np.int32), np.ones(1, np.uint64), block=(1,))
    assert (p[0], q[0]) == (4, 2)


def spmv(program: Program) -> None:
    n = 70
    dense = RANDOM.normal(size=(n, n)) * (RANDOM.random((n, n)) < 0.3)
    rows, columns = np.nonzero(dense)
    pointers = np.searchsorted(rows, np.arange(n + 1)).astype(np.int32)
    x = RANDOM.normal(size=n)
    arrays = (pointers, columns.astype(np.int32), dense[rows, columns], x, np.zeros(n))
    *_, y = program.run("spmv", np.int32(n), *arrays, grid=(18,), block=(128,))
    np.testing.assert_allclose(y, dense @ x, rtol=1e-12, atol=1e-12)


def stencil(program: Program) -> None:
    width, height = 70, 45
    image, factors = RANDOM.random((height, width), np.float32), RANDOM.random(9, np.float32)
    program.variable("cf", factors)
    sizes = np.int32(width), np.int32(height)
    _, out = program.run(
        "stencil", image, np.zeros_like(image), *sizes, grid=(3, 3), block=(32, 16)
    )
    padded = np.pad(image, 1, mode="edge").astype(np.float64)
    want = sum(
        factors[3 * j + i] * padded[j : j + height, i : i + width]
        for j in range(3)
        for i in range(3)
    )
    np.testing.assert_allclose(out, want, rtol=1e-5)


def bitonic(program: Program) -> None:
    a = RANDOM.integers(-1000, 1000, 512, dtype=np.int32)
    (out,) = program.run("bitonic", a, block=(512,), shared=2048)
    np.testing.assert_array_equal(out, np.sort(a))


def nbody(program: Program) -> None:
    n, step = 512, np.float32(0.01)
    p, v = RANDOM.random((2, n, 4), np.float32)
    _, out = program.run("nbody", p, v, np.int32(n), step, grid=(2,), block=(256,))
    d = p[None, :, :3].astype(np.float64) - p[:, None, :3]
    inverse = (np.square(d).sum(axis=2) + 1e-9) ** -0.5
    force = (p[None, :, 3, None] * d * inverse[..., None] ** 3).sum(axis=1)
    np.testing.assert_allclose(out[:, :3], v[:, :3] + step * force, rtol=2e-3)


def fft(program: Program) -> None:
    n = 256
    x = RANDOM.normal(size=(3, n, 2)).astype(np.float32)
    (out,) = program.run("fft", x, np.int32(8), grid=(3,), block=(64,), shared=8 * n)
    want = np.fft.fft(x[..., 0] + 1j * x[..., 1])
    np.testing.assert_allclose(out[..., 0] + 1j * out[..., 1], want, atol=1e-4)


def grid_sync(program: Program) -> None:
    n, rounds = 3000, 4
    a = RANDOM.random(n, np.float32)
    sizes = np.int32(n), np.int32(rounds)
    (out,) = program.run("gridsync", a, *sizes, grid=(4,), block=(128,), cooperative=True)
    for _ in range(rounds):
        a = a * np.float32(0.5) + np.float32(1)
    np.testing.assert_array_equal(out, a)


def tiles(program: Program) -> None:
    a = RANDOM.integers(1, 100, 64, dtype=np.int32)
    out, m = program.run("tiles", a, np.zeros(40, np.uint32), block=(64,))
    sums = a.reshape(2, 32).sum(axis=1).repeat(32)
    eights = a.reshape(8, 8)
    greatest = eights.max(axis=1).repeat(8)
    before = (np.cumsum(eights, axis=1) - eights).ravel()
    np.testing.assert_array_equal(out, sums + greatest + before + 32)
    assert 32 <= m[0] < 64


def calls(program: Program) -> None:
    """Virtual and recursive functions, a table of functions, a local array, a switch."""
    a = np.zeros(64, np.int32)
    a[:8] = [4, 0, 5, 1, 0, 2, 9, 21]
    a[8:] = np.arange(8, 64)
    (out,) = program.run("indirect", a, block=(1,))
    want = a.copy()
    want[1] = 4 * 3 + 120 + (5 - 1)
    want[4] = sum(int(want[want[i] & 63]) for i in range(64))
    want[6] = 42
    np.testing.assert_array_equal(out, want)


def hello(program: Program) -> None:
    """Print from a kernel; the caller compares the output with the expected text."""
    text = np.frombuffer(b"text\0", np.uint8)
    program.run("hello", np.int32(3), np.float32(2.5), text, grid=(2,), block=(1,))


def arrive_and_wait(program: Program) -> None:
    a = RANDOM.integers(0, 99, 64, dtype=np.int32)
    (out,) = program.run("cbar", a, block=(64,))
    np.testing.assert_array_equal(out, a + 3)


def heap(program: Program) -> None:
    program.run("heap", np.zeros(32, np.uint64), np.int32(16))
