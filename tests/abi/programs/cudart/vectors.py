"""Vector functions of libcublas.so.12, and those of matrices with vectors, against numpy."""

import ctypes as c
import itertools

import numpy as np
from device_arrays import cuda, get, put

blas, handle = c.CDLL("libcublas.so.12"), c.c_void_p()
assert blas.cublasCreate_v2(c.byref(handle)) == 0
random = np.random.default_rng(2)


def pointer(array):
    return c.c_void_p(array.ctypes.data)


def make_vector(count, increment, dtype):
    """Return an array, and its elements in the order of a vector with this increment."""
    array = random.standard_normal(1 + (count - 1) * abs(increment)).astype(dtype)
    return array, array[:: abs(increment)][:: 1 if increment > 0 else -1]


def check_vectors(letter, dtype, close):
    n, alpha = 37, np.array(-1.5, dtype)
    for incx, incy in itertools.product((1, 3, -2), (1, -2)):
        (x, xs), (y, ys) = make_vector(n, incx, dtype), make_vector(n, incy, dtype)
        dx, dy = put(x), put(y)
        before = ys.copy()
        assert blas[f"cublas{letter}axpy_v2"](handle, n, pointer(alpha), dx, incx, dy, incy) == 0
        actual = get(dy, y)[:: abs(incy)][:: 1 if incy > 0 else -1]
        close(actual, before + alpha * xs)
        total = np.zeros(1, dtype)
        dy = put(y)
        assert blas[f"cublas{letter}dot_v2"](handle, n, dx, incx, dy, incy, pointer(total)) == 0
        close(total[0], xs.astype(np.float64) @ ys)
        x[0] = -0.0  # all bits are kept
        x[-1:].view(np.uint8)[:] = np.full(1, np.nan, dtype).view(np.uint8)
        x[-1:].view(np.uint8)[0] = 77
        dx = put(x)
        assert blas[f"cublas{letter}copy_v2"](handle, n, dx, incx, dy, incy) == 0
        actual = get(dy, y)[:: abs(incy)][:: 1 if incy > 0 else -1]
        assert actual.tobytes() == xs.tobytes()
    x, xs = make_vector(n, 3, dtype)
    x[1] = np.inf
    x[3] = np.nan
    dx, rest = put(x), np.delete(np.arange(x.size), np.s_[::3])
    assert blas[f"cublas{letter}scal_v2"](handle, n, pointer(alpha), dx, 3) == 0
    actual = get(dx, x)
    close(actual[::3], alpha * xs)
    assert np.array_equal(actual[rest], x[rest])
    nothing = np.zeros(1, dtype)
    assert blas[f"cublas{letter}scal_v2"](handle, n, pointer(nothing), dx, 3) == 0
    close(get(dx, x)[::3], 0 * xs)  # NaN stays NaN
    nrm2, found = blas[f"cublas{letter}nrm2_v2"], np.zeros(1, dtype)
    large, tiny = dtype(np.finfo(dtype).max / 8), dtype(np.finfo(dtype).smallest_subnormal)
    for scale in (dtype(1), large, dtype(np.finfo(dtype).tiny)):
        x, xs = make_vector(n, 2, dtype)
        xs[:] = scale * np.clip(xs, -1, 1)
        assert nrm2(handle, n, put(x), 2, pointer(found)) == 0
        close(found[0] / scale, np.linalg.norm((xs / scale).astype(np.float64)))
    mixed = np.array([tiny, 3, 4, np.inf][: 3 + (letter == "D")], dtype)
    assert nrm2(handle, mixed.size, put(mixed), 1, pointer(found)) == 0
    close(found[0], np.linalg.norm(mixed))
    assert nrm2(handle, n, None, 0, pointer(found)) == 0
    assert found[0] == 0
    # a result on the device
    x, y = (random.standard_normal(n).astype(dtype) for _ in range(2))
    total = put(np.zeros(1, dtype))
    assert blas.cublasSetPointerMode_v2(handle, 1) == 0
    assert blas[f"cublas{letter}dot_v2"](handle, n, put(x), 1, put(y), 1, total) == 0
    assert blas.cublasSetPointerMode_v2(handle, 0) == 0
    close(get(total, x[:1])[0], x.astype(np.float64) @ y)
    number = np.ones(1, dtype)
    assert blas[f"cublas{letter}dot_v2"](handle, 0, None, 1, None, 1, pointer(number)) == 0
    assert number[0] == 0
    assert blas[f"cublas{letter}axpy_v2"](handle, 3, pointer(alpha), None, 1, total, 1) == 7
    assert blas[f"cublas{letter}axpy_v2"](None, 3, pointer(alpha), total, 1, total, 1) == 1


def check_matrices(letter, dtype, close):
    m, n, pad = 11, 7, 2
    two, half = np.array(2, dtype), np.array(0.5, dtype)
    a = random.standard_normal((n, m + pad)).astype(dtype)
    da, columns = put(a), a.T[:m]
    for transposed, incx, incy in ((0, 1, 2), (1, -2, 1), (2, 1, -1)):
        left = columns.T if transposed else columns
        (x, xs), (y, ys) = (
            make_vector(left.shape[1], incx, dtype),
            make_vector(left.shape[0], incy, dtype),
        )
        dy = put(y)
        sizes = (handle, transposed, m, n, pointer(two), da, m + pad)
        ends = (put(x), incx, pointer(half), dy, incy)
        assert blas[f"cublas{letter}gemv_v2"](*sizes, *ends) == 0
        actual = get(dy, y)[:: abs(incy)][:: 1 if incy > 0 else -1]
        close(actual, 2 * left @ xs + ys / 2)
    (x, xs), (y, ys) = make_vector(m, 2, dtype), make_vector(n, -1, dtype)
    dx, dy, target = put(x), put(y), put(a)
    ends = (dx, 2, dy, -1, target, m + pad)
    assert blas[f"cublas{letter}ger_v2"](handle, m, n, pointer(two), *ends) == 0
    found = get(target, a)
    close(found.T[:m], 2 * np.outer(xs, ys) + columns)
    assert np.array_equal(found[:, m:], a[:, m:]), "the padding stays"

    b = random.standard_normal((m, n)).astype(dtype)  # n rows and m columns, transposed
    made = np.zeros((n, m), dtype)
    target = put(made)
    ends = (pointer(half), put(b), n, target, m)
    geam = blas[f"cublas{letter}geam"]
    assert geam(handle, 0, 1, m, n, pointer(two), da, m + pad, *ends) == 0
    close(get(target, made).T, 2 * columns + b / 2)
    nothing = np.zeros(1, dtype)
    ends = (pointer(nothing), None, m, target, m)
    assert geam(handle, 0, 0, m, n, pointer(half), target, m, *ends) == 0  # in place
    close(get(target, made).T, columns + b / 4)
    assert geam(handle, 1, 0, m, n, pointer(half), target, n, *ends) == 7

    dgmm = blas[f"cublas{letter}dgmm"]
    assert dgmm(handle, 0, m, n, da, m + pad, dx, 2, target, m) == 0
    close(get(target, made).T, xs[:, None] * columns)
    assert dgmm(handle, 1, m, n, da, m + pad, dy, -1, target, m) == 0
    close(get(target, made).T, columns * ys)
    assert dgmm(handle, 2, m, n, da, m + pad, dy, -1, target, m) == 7


for letter, dtype, tolerance in (("S", np.float32, 1e-5), ("D", np.float64, 1e-13)):

    def close(actual, expected, tolerance=tolerance):
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)

    check_vectors(letter, dtype, close)
    check_matrices(letter, dtype, close)
assert cuda.cuCtxSynchronize() == 0
print("right")
