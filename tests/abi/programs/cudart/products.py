"""Matrix products of libcublas.so.12 against numpy: types, transposes, strides, scales and refusals."""

import ctypes as c
import itertools
import sys
import threading

import numpy as np
from device_arrays import cuda, get, put

blas, handle = c.CDLL("libcublas.so.12"), c.c_void_p()
assert blas.cublasCreate_v2(c.byref(handle)) == 0
random = np.random.default_rng(0)
F32, F64, F16, BF16 = 0, 1, 2, 14


def check(name, dtype, tolerance, m, n, k, batches, transposed_a, transposed_b, beta):
    """Compare a product of batches whose matrices are stored by columns, with padding."""
    pad = 3
    a = random.standard_normal(
        (batches, m if transposed_a else k, (k if transposed_a else m) + pad)
    )
    b = random.standard_normal(
        (batches, k if transposed_b else n, (n if transposed_b else k) + pad)
    )
    made = random.standard_normal((batches, n, m + pad))
    a, b, made = (x.astype(dtype) for x in (a, b, made))
    columns = [x.astype(np.float64).transpose(0, 2, 1) for x in (a, b, made)]
    left = columns[0][:, : k if transposed_a else m]
    right = columns[1][:, : n if transposed_b else k]
    left = left.transpose(0, 2, 1) if transposed_a else left
    right = right.transpose(0, 2, 1) if transposed_b else right
    expected = 1.5 * left @ right + beta * columns[2][:, :m]
    scales = [np.array(x, dtype) for x in (1.5, beta)]
    alpha, scale = (c.c_void_p(x.ctypes.data) for x in scales)
    da, db, dc = put(a), put(b), put(made)
    sizes = handle, int(transposed_a), int(transposed_b), m, n, k
    if batches == 1:
        end = dc, m + pad
        status = blas[name](*sizes, alpha, da, a.shape[2], db, b.shape[2], scale, *end)
    else:
        strides = [c.c_longlong(x.shape[1] * x.shape[2]) for x in (a, b, made)]
        status = blas[name](
            *(*sizes, alpha, da, a.shape[2], strides[0], db, b.shape[2], strides[1], scale),
            *(dc, m + pad, strides[2], batches),
        )
    assert status == 0, (name, status)
    result = get(dc, made)
    np.testing.assert_allclose(
        result.transpose(0, 2, 1)[:, :m].astype(np.float64),
        expected,
        rtol=tolerance,
        atol=tolerance,
    )
    assert np.array_equal(result[:, :, m:], made[:, :, m:]), "the padding stays"


for letter, plain, dtype, tolerance in (
    ("S", "Sgemm_v2", np.float32, 1e-5),
    ("D", "Dgemm_v2", np.float64, 1e-13),
    ("H", "Hgemm", np.float16, 2e-2),
):
    for transposed_a, transposed_b in itertools.product((False, True), repeat=2):
        check(f"cublas{plain}", dtype, tolerance, 35, 9, 17, 1, transposed_a, transposed_b, 0.5)
    check(f"cublas{letter}gemmStridedBatched", dtype, tolerance, 5, 6, 7, 3, True, False, 0.0)


def check_addresses(name, dtype, tolerance, types=None):
    """Compare a batch whose matrices are in no order, with scales in device memory."""
    count, m, n, k = 5, 6, 7, 3
    arrays = [
        random.standard_normal(shape).astype(dtype)
        for shape in ((count, k, m), (count, k, n), (count, n, m))
    ]
    addresses = [[put(one) for one in array] for array in arrays]
    order = np.array([3, 0, 4, 1, 2])
    tables = [put(np.array([found[i].value for i in order], np.uint64)) for found in addresses]
    scales = put(np.array([2, 0.5], dtype if types is None else np.float32))
    beta = c.c_void_p(scales.value + (4 if types else arrays[0].itemsize))
    kind = [] if types is None else [types[0]]
    ends = (beta, tables[2], *kind, m, count, *(types[1:] if types else ()))
    assert blas.cublasSetPointerMode_v2(handle, 1) == 0
    status = blas[name](
        handle, 0, 1, m, n, k, scales, tables[0], *kind, m, tables[1], *kind, n, *ends
    )
    assert status == 0, (name, status)
    assert blas.cublasSetPointerMode_v2(handle, 0) == 0
    for i in range(count):
        a, b, made = (array[i].astype(np.float64) for array in arrays)
        actual = get(addresses[2][i], arrays[2][i]).astype(np.float64)
        expected = 2 * b.T @ a + 0.5 * made
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


check_addresses("cublasSgemmBatched", np.float32, 1e-5)
check_addresses("cublasDgemmBatched", np.float64, 1e-13)
check_addresses("cublasHgemmBatched", np.float16, 2e-2)
check_addresses("cublasGemmBatchedEx", np.float16, 1e-2, (F16, 68, -1))

# halves with a sum in single precision, and scales in device memory
x, y, z = random.standard_normal((3, 8, 8)).astype(np.float16)
scales = put(np.array([2, 1], np.float32))
second = c.c_void_p(scales.value + 4)
assert blas.cublasSetPointerMode_v2(handle, 1) == 0
dx, dy, dz = put(x), put(y), put(z)
tail = dz, F16, 8, 68, -1
status = blas.cublasGemmEx(handle, 0, 0, 8, 8, 8, scales, dx, F16, 8, dy, F16, 8, second, *tail)
assert status == 0
expected = 2 * (y.astype(np.float64) @ x.astype(np.float64)) + z
np.testing.assert_allclose(get(dz, z).astype(np.float64), expected, rtol=2e-3, atol=2e-3)
assert blas.cublasSetPointerMode_v2(handle, 0) == 0

unit = np.ones(1, np.float32)
at = c.c_void_p(unit.ctypes.data)
ends = (dx, 8, dy, 8, at, dz, 8)
assert (
    blas.cublasSgemm_v2(handle, 0, 0, 8, 8, 8, at, *ends[:1], 7, *ends[2:]) == 7
)  # leading dimension
assert blas.cublasSgemm_v2(handle, 3, 0, 8, 8, 8, at, *ends) == 7
assert blas.cublasSgemm_v2(handle, 0, 0, -1, 8, 8, at, *ends) == 7
assert blas.cublasSgemm_v2(handle, 0, 0, 0, 8, 8, at, *ends) == 0
assert blas.cublasSgemm_v2(None, 0, 0, 8, 8, 8, at, *ends) == 1
ex = (handle, 0, 0, 8, 8, 8, at, dx, 3, 8, dy, 3, 8, at, dz, 10, 8, 72, -1)
assert blas.cublasGemmEx(*ex) == 15  # bytes
assert blas.cublasGemmEx(*ex[:17], 68, -1) == 15  # in the sum's type too

# matrices that are NULL are an error, unless nothing of them is read
none = np.zeros(1, np.float32)
nothing = c.c_void_p(none.ctypes.data)
for a, b, result in ((None, dy, dz), (dx, None, dz), (dx, dy, None)):
    ends = (at, a, 8, b, 8, at, result, 8)
    assert blas.cublasSgemm_v2(handle, 0, 0, 2, 2, 2, *ends) == 7
assert blas.cublasSgemm_v2(handle, 0, 0, 2, 2, 2, nothing, None, 8, None, 8, at, dz, 8) == 0
assert blas.cublasSgemm_v2(handle, 0, 0, 2, 2, 0, at, None, 8, None, 8, at, dz, 8) == 0
assert cuda.cuCtxSynchronize() == 0
ex = (handle, 0, 0, 8, 8, 8, at, dx, F16, 8, dy, F16, 8, at, dz, F32, 8, 64, -1)
assert blas.cublasGemmEx(*ex) == 15  # sums in halves for singles

# an empty sum is 0 whatever alpha is
ones, infinite = np.ones((2, 2), np.float32), np.array(np.inf, np.float32)
d_ones, d_sums = put(ones), put(ones)
ends = (c.c_void_p(infinite.ctypes.data), d_ones, 2, d_ones, 2, at, d_sums, 2)
assert blas.cublasSgemm_v2(handle, 0, 0, 2, 2, 0, *ends) == 0
assert np.array_equal(get(d_sums, ones), ones)

# what is not read may be NaN: C without beta, and A without alpha
nans = np.full((2, 2), np.nan, np.float32)
d_nans, d_result = put(nans), put(nans)
ends = (d_ones, 2, d_ones, 2, nothing, d_result, 2)
assert blas.cublasSgemm_v2(handle, 0, 0, 2, 2, 2, at, *ends) == 0
assert np.array_equal(get(d_result, nans), 2 * ones)
ends = (d_nans, 2, d_ones, 2, at, d_result, 2)
assert blas.cublasSgemm_v2(handle, 0, 0, 2, 2, 2, nothing, *ends) == 0
assert np.array_equal(get(d_result, nans), 2 * ones)

# bfloat16, which has the upper half of a float; the conjugate of a real matrix is its transpose
whole = np.arange(16, dtype=np.float32).reshape(4, 4)
upper = (whole.view(np.uint32) >> 16).astype(np.uint16)
d_upper, d_float, d_half = put(upper), put(whole), put(upper)
for conjugate, expected in ((0, whole @ whole), (2, whole @ whole.T)):
    start = (handle, conjugate, 0, 4, 4, 4, at, d_upper, BF16, 4, d_upper, BF16, 4, nothing)
    assert blas.cublasGemmEx(*start, d_float, F32, 4, 68, -1) == 0
    assert np.array_equal(get(d_float, whole), expected)
    assert blas.cublasGemmEx(*start, d_half, BF16, 4, 68, -1) == 0
    rounded = (get(d_half, upper).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(rounded, expected, rtol=2**-8)
    assert blas.cublasSgemmEx(*start, d_float, F32, 4) == 0
    assert np.array_equal(get(d_float, whole), expected)
    assert blas.cublasSgemmEx(*start, d_half, BF16, 4) == 0
    assert np.array_equal((get(d_half, upper).astype(np.uint32) << 16).view(np.float32), rounded)
small, twice = np.arange(16).reshape(4, 4).astype(np.float16), np.full(1, 2, np.float32)
d_small, d_square = put(small), put(small)
ends = c.c_void_p(twice.ctypes.data), d_small, F16, 4, d_small, F16, 4, nothing, d_square, F16, 4
assert blas.cublasSgemmEx(handle, 1, 1, 4, 4, 4, *ends) == 0
assert np.array_equal(get(d_square, small), 2 * (small.T @ small.T))
assert blas.cublasSgemmEx(handle, 0, 0, 4, 4, 4, *ends[:2], 3, *ends[3:]) == 15  # bytes


def check_large():
    """Multiply more matrices, and more columns, than a grid has: slow in the interpreter."""
    many = np.arange(65535 + 5, dtype=np.float32)
    d_many, d_product, one = put(many), put(many), c.c_longlong(1)
    ends = (at, d_many, 1, one, d_ones, 1, c.c_longlong(0), nothing, d_product, 1, one, many.size)
    assert blas.cublasSgemmStridedBatched(handle, 0, 0, 1, 1, 1, *ends) == 0
    assert np.array_equal(get(d_product, many), many)
    wide = np.arange(4 * 65535 + 5, dtype=np.float32)
    d_wide, d_product = put(wide), put(wide)
    ends = (at, d_ones, 1, d_wide, 1, nothing, d_product, 1)
    assert blas.cublasSgemm_v2(handle, 0, 0, 1, wide.size, 1, *ends) == 0
    assert np.array_equal(get(d_product, wide), wide)


if "large" in sys.argv:
    check_large()


def run_in_threads(streams):
    """Multiply in threads whose first call is the product, so that none has a context."""
    found = []
    for stream in streams:
        assert blas.cublasSetStream_v2(handle, stream) == 0
        thread = threading.Thread(
            target=lambda: found.append(
                blas.cublasSgemm_v2(handle, 0, 0, 2, 2, 2, at, d_ones, 2, d_ones, 2, at, d_twos, 2)
            )
        )
        thread.start()
        thread.join()
        assert cuda.cuCtxSynchronize() == 0
    return found


twos = np.full((2, 2), 2, np.float32)
d_twos = put(twos)
stream = c.c_void_p()
assert cuda.cuStreamCreate(c.byref(stream), 1) == 0
assert run_in_threads((None, stream)) == [0, 0]
assert np.array_equal(get(d_twos, twos), np.full((2, 2), 6))

# a product that is captured runs when the graph does
graph, executable = c.c_void_p(), c.c_void_p()
ends = (at, d_ones, 2, d_ones, 2, at, d_twos, 2)
assert cuda.cuStreamBeginCapture_v2(stream, 0) == 0
assert blas.cublasSgemm_v2(handle, 0, 0, 2, 2, 2, *ends) == 0  # in the stream set last
assert cuda.cuStreamEndCapture(stream, c.byref(graph)) == 0
assert np.array_equal(get(d_twos, twos), np.full((2, 2), 6))
assert cuda.cuGraphInstantiateWithFlags(c.byref(executable), graph, c.c_ulonglong(0)) == 0
assert cuda.cuGraphLaunch(executable, stream) == 0
assert cuda.cuStreamSynchronize(stream) == 0
assert np.array_equal(get(d_twos, twos), np.full((2, 2), 8))

newer = c.CDLL("libcublas.so.13")
assert newer.cublasSgemm_v2(handle, 0, 0, 2, 2, 2, *ends) == 1  # another library's handle
second = c.c_void_p()
assert newer.cublasCreate_v2(c.byref(second)) == 0
assert newer.cublasSgemm_v2(second, 0, 0, 2, 2, 2, *ends) == 0
assert np.array_equal(get(d_twos, twos), np.full((2, 2), 10))

assert blas.cublasDestroy_v2(handle) == 0  # which the threads' context survives
assert np.array_equal(get(d_twos, twos), np.full((2, 2), 10))
print("right")
