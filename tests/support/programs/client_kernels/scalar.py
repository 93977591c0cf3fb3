"""Kernels whose threads do not synchronize."""

import numpy as np

from support.programs.client_kernels.gpu import Program

RANDOM = np.random.default_rng(7)


def vecadd(program: Program) -> None:
    a, b = RANDOM.random((2, 1000), np.float32)
    *_, c = program.run("vecadd", a, b, np.zeros_like(a), np.int32(1000), grid=(8,), block=(128,))
    np.testing.assert_array_equal(c, a + b)


def vecadd4(program: Program) -> None:
    a, b = RANDOM.random((2, 1000), np.float32)
    *_, c = program.run("vecadd4", a, b, np.zeros_like(a), np.int32(250), grid=(2,), block=(64,))
    np.testing.assert_array_equal(c, a + b)


def saxpy(program: Program) -> None:
    x, y = RANDOM.random((2, 500), np.float32)
    _, out = program.run("saxpy", np.float32(2), x, y, np.uint64(500), grid=(4,), block=(128,))
    np.testing.assert_array_equal(out, 2 * x + y)  # a multiplication by two is exact


def dmath(program: Program) -> None:
    x = RANDOM.uniform(0, 30, 700)
    _, y = program.run("dmath", x, np.zeros_like(x), np.int32(700), grid=(6,), block=(128,))
    want = np.sqrt(x) * np.exp(-x) + np.sin(x) / (1 + np.abs(x)) + x**1.5
    np.testing.assert_allclose(y, want, rtol=1e-14)


def mandel(program: Program) -> None:
    width, height, limit = 100, 70, 60
    out = np.zeros((height, width), np.uint8)
    sizes = [np.int32(n) for n in (width, height, limit)]
    (out,) = program.run("mandel", out, *sizes, grid=(7, 9), block=(16, 8))
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    c = (-2 + 3 * x / width) + 1j * (-1.5 + 3 * y / height)
    z, counts = np.zeros_like(c), np.zeros(c.shape, int)
    for _ in range(limit):
        inside = np.abs(z) < 2
        counts += inside
        z = np.where(inside, z * z + c, z)
    assert (out == counts).mean() > 0.98  # contraction changes few pixels at the edge


def cmul(program: Program) -> None:
    a, b = RANDOM.normal(size=(2, 65, 2)).view(np.complex128)[..., 0]
    (out, _) = program.run("cmul", a[:64].copy(), b, block=(64,))
    np.testing.assert_allclose(out, a[:64] * b[:64] / b[1:], rtol=1e-13)


def _philox(counter: list[np.ndarray], key: list[int]) -> list[np.ndarray]:
    x, y, z, w = (c.astype(np.uint64) for c in counter)
    low = np.uint64(0xFFFFFFFF)
    first, second = key
    for _ in range(10):
        p, q = np.uint64(0xD2511F53) * x, np.uint64(0xCD9E8D57) * z
        x, y, z, w = (
            (q >> np.uint64(32)) ^ y ^ np.uint64(first),
            q & low,
            (p >> np.uint64(32)) ^ w ^ np.uint64(second),
            p & low,
        )
        first, second = (first + 0x9E3779B9) & 0xFFFFFFFF, (second + 0xBB67AE85) & 0xFFFFFFFF
    return [x, y, z, w]


def rng(program: Program) -> None:
    """The kernel multiplies x and z by the constants of the published rounds, with the two
    exchanged.
    """
    count, seed, offset = 512, 0x123456789ABCDEF, 77
    out = np.zeros((count, 4), np.float32)
    (out,) = program.run("rng", out, np.uint64(seed), np.uint64(offset), grid=(4,), block=(128,))
    index = np.arange(count, dtype=np.uint64)
    fixed = np.full(count, offset, np.uint64)
    zero = np.zeros(count, np.uint64)
    words = _philox([fixed, zero, index, zero], [seed & 0xFFFFFFFF, seed >> 32])
    r = [word.astype(np.float64) for word in words]
    u, v = r[0] * 2.3283064e-10 + 1e-10, r[1] * 2.3283064e-10
    m = np.sqrt(-2 * np.log(u))
    angle = 6.2831853 * v
    want = np.stack([m * np.sin(angle), m * np.cos(angle), r[2] * 2.3283064e-10, np.log2(r[3] + 1)])
    np.testing.assert_allclose(out, want.T, rtol=1e-4, atol=2e-5)


def xorshift(program: Program) -> None:
    seeds = RANDOM.integers(1, 1 << 64, 64, dtype=np.uint64)
    (out,) = program.run("xorshift", seeds, block=(64,))
    x = seeds ^ seeds << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    np.testing.assert_array_equal(out, x * np.uint64(0x2545F4914F6CDD1D) % np.uint64(1000003))


def lam(program: Program) -> None:
    a = np.array([3, -1, 7, 0, 1001, 5, 6, 7], np.int32)
    (out,) = program.run("lam", a, np.int32(8), block=(1,))
    np.testing.assert_array_equal(out, [24, -1, 56, 0, 1001, 5, 6, 7])


def typed_stores(program: Program) -> None:
    for name, value in (("_Z2tkIfEvPT_S0_", np.float32(2.5)), ("_Z2tkIdEvPT_S0_", np.float64(7))):
        (out,) = program.run(name, np.zeros(32, value.dtype), value)
        np.testing.assert_array_equal(out, np.full(32, value))


def narrow_floats(program: Program) -> None:
    """One thread only: adjacent threads of the kernel write the same elements."""
    import ml_dtypes

    x = np.array([3.3, -0.7], np.float32)
    y, z, out = program.run(
        "fp8", x, np.zeros(1, np.uint8), np.zeros(1, np.uint8), np.zeros(2, np.float32), block=(1,)
    )[1:]
    e4, e5 = x.astype(ml_dtypes.float8_e4m3fn), x.astype(ml_dtypes.float8_e5m2)
    assert (y[0], z[0]) == (e4.view(np.uint8)[0], e5.view(np.uint8)[0])
    want = [np.float32(e4[0]) + np.float32(e5[0]), np.float32(e4[0]) + np.float32(e4[1])]
    np.testing.assert_array_equal(out, np.array(want, np.float32))


def smallest_floats(program: Program) -> None:
    """One thread only, as above: fp4 in pairs, fp6 and powers of two."""
    import ml_dtypes

    x = np.array([2.7, -0.3], np.float32)
    out = np.zeros((2, 2), np.float32)
    _, y, out = program.run("fp4", x, np.zeros(1, np.uint8), out, block=(1,))
    e2m1, e3m2 = x.astype(ml_dtypes.float4_e2m1fn), x.astype(ml_dtypes.float6_e3m2fn)
    low, high = e2m1.view(np.uint8).tolist()
    assert y[0] == (high & 15) << 4 | low & 15
    power = 2.0 ** np.ceil(np.log2(x[0]))  # as e8m0, rounded up
    want = np.stack([e2m1.astype(np.float32), e3m2.astype(np.float32)])
    want[0, 0] += power
    np.testing.assert_array_equal(out, want)


def structures_and_variables(program: Program) -> None:
    """Structures by value, one of them read by its address; managed, constant, device variables."""
    layout = np.dtype(
        {
            "names": ["a", "b", "c"],
            "formats": ["<i4", "<f8", "12i1"],
            "offsets": [0, 8, 16],
            "itemsize": 32,
        }
    )
    first, second = np.zeros((), layout), np.zeros((), layout)
    first["a"], first["b"], second["c"] = 6, 2.25, np.arange(12) * 7
    program.variable("mg", np.array([0, 0.5], np.float32))
    arguments = first.tobytes(), second.tobytes(), np.zeros(1, np.float32)
    (out,) = program.run("bigp", *arguments, block=(1,))
    constant, counter, letter = 3, 5, ord("h")
    assert out[0] == 2.25 + 0 + constant + 0.5 + (6 + counter) + letter
    np.testing.assert_array_equal(program.contents("mg", np.zeros(3, np.float32)), [0, 0.5, out[0]])


def one_store(program: Program) -> None:
    (out,) = program.run("dummy", np.zeros(4, np.int32))
    np.testing.assert_array_equal(out, [1, 0, 0, 0])


def after_other_grids(program: Program) -> None:
    """A grid that may begin before another has ended; here there is no other."""
    a = RANDOM.integers(0, 99, 32, dtype=np.int32)
    (out,) = program.run("pdl", a)
    np.testing.assert_array_equal(out, a + 1)


def child(program: Program) -> None:
    """A kernel for dynamic parallelism, launched from the host."""
    p = RANDOM.integers(0, 99, 96, dtype=np.int32)
    (out,) = program.run("_Z5childPii", p, np.int32(5), grid=(3,))
    np.testing.assert_array_equal(out, p + 5)


def parent(program: Program) -> None:
    """The same, launched three times by a kernel: in its stream, at any time, and as its tail."""
    p = RANDOM.integers(0, 99, 256, dtype=np.int32)
    (out,) = program.run("parent", p, np.int32(256))
    p[:32] += 5
    np.testing.assert_array_equal(out, p + 1)
