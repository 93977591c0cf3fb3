"""cublasLtMatmul of libcublasLt.so.12 against numpy: orders, transposes, epilogues, refusals."""

import ctypes as c
import itertools

import numpy as np
from device_arrays import cuda, get, put

blas, light = c.CDLL("libcublas.so.12"), c.CDLL("libcublasLt.so.12")
own, of_blas = c.c_void_p(), c.c_void_p()
assert light.cublasLtCreate(c.byref(own)) == 0
assert blas.cublasCreate_v2(c.byref(of_blas)) == 0
random = np.random.default_rng(1)
F32, F64, F16, BF16 = 0, 1, 2, 14
COMPUTE_32F, COMPUTE_64F = 68, 70
NUMBERS = {np.float32: F32, np.float64: F64, np.float16: F16}
BIAS, RELU, GELU = 4, 2, 32
RESULT_BYTES, ALGORITHM_BYTES = 96, 64


def set_int(setter, descriptor, number, value, kind=c.c_int32):
    value = kind(value)
    assert setter(descriptor, number, c.byref(value), c.c_size_t(c.sizeof(value))) == 0


def new_layout(kind, matrices, by_row, batches):
    """Describe arrays of matrices whose rows, or columns, are adjacent."""
    layout, (rows, columns) = c.c_void_p(), matrices.shape[-2:]
    sizes = c.c_uint64(rows), c.c_uint64(columns), c.c_int64(columns if by_row else rows)
    assert light.cublasLtMatrixLayoutCreate(c.byref(layout), kind, *sizes) == 0
    setter = light.cublasLtMatrixLayoutSetAttribute
    set_int(setter, layout, 1, int(by_row))
    set_int(setter, layout, 5, batches)
    set_int(setter, layout, 6, rows * columns, c.c_int64)
    return layout


def store(matrices, by_row):
    return np.ascontiguousarray(matrices if by_row else matrices.swapaxes(-1, -2))


def gelu(x):
    return x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def check(
    dtype,
    tolerance,
    *,
    orders=(False,) * 4,
    transposed=(False, False),
    epilogue=0,
    batches=1,
    handle=own,
    in_place=False,
    on_device=False,
    n=6,
):
    m, k = 33, 9
    scale = np.float64 if dtype == np.float64 else np.float32
    a, b, made = (
        random.standard_normal((batches, *shape)).astype(dtype)
        for shape in (
            (k, m) if transposed[0] else (m, k),
            (n, k) if transposed[1] else (k, n),
            (m, n),
        )
    )
    bias = random.standard_normal((batches, m)).astype(dtype)
    wide = [one.astype(np.float64) for one in (a, b, made)]
    left = wide[0].swapaxes(1, 2) if transposed[0] else wide[0]
    right = wide[1].swapaxes(1, 2) if transposed[1] else wide[1]
    expected = 1.5 * left @ right - 0.5 * wide[2]
    if epilogue & BIAS:
        expected += bias.astype(np.float64)[:, :, None]
    if epilogue & RELU:
        expected = np.maximum(expected, 0)
    if epilogue & GELU:
        expected = gelu(expected)

    operation, setter = c.c_void_p(), light.cublasLtMatmulDescSetAttribute
    compute = COMPUTE_64F if dtype == np.float64 else COMPUTE_32F
    assert light.cublasLtMatmulDescCreate(c.byref(operation), compute, NUMBERS[scale]) == 0
    for number, value in zip((3, 4), transposed, strict=True):
        set_int(setter, operation, number, int(value))
    d_bias = put(bias)
    if epilogue:
        set_int(setter, operation, 7, epilogue)
        set_int(setter, operation, 8, d_bias.value, c.c_uint64)
        set_int(setter, operation, 10, m, c.c_int64)
    kind = NUMBERS[dtype]
    layouts = [
        new_layout(kind, one, order, batches)
        for one, order in zip((a, b, made, made), orders, strict=True)
    ]
    if n == 1:  # as PyTorch describes a vector; no second column is at a distance
        for layout in layouts[1:]:
            set_int(light.cublasLtMatrixLayoutSetAttribute, layout, 4, 0, c.c_int64)
    da, db, dc = (
        put(store(one, order)) for one, order in zip((a, b, made), orders[:3], strict=True)
    )
    dd = dc if in_place else put(np.zeros_like(made))
    scales = np.array([1.5, -0.5], scale)
    alpha = c.c_void_p(scales.ctypes.data)
    if on_device:
        set_int(setter, operation, 2, 1)
        alpha = put(scales)
    beta = c.c_void_p(alpha.value + scales.itemsize)
    results, count = (c.c_uint8 * RESULT_BYTES)(), c.c_int()
    status = light.cublasLtMatmulAlgoGetHeuristic(
        handle, operation, *layouts, None, 1, results, c.byref(count)
    )
    assert (status, count.value) == (0, 1)
    assert bytes(results[ALGORITHM_BYTES : ALGORITHM_BYTES + 12]) == bytes(12)  # no workspace
    status = light.cublasLtMatmul(
        *(handle, operation, alpha, da, layouts[0], db, layouts[1], beta, dc, layouts[2], dd),
        *(layouts[3], results, None, c.c_size_t(0), None),
    )
    assert status == 0, status
    actual = get(dd, store(made, orders[3])).astype(np.float64)
    actual = actual if orders[3] else actual.swapaxes(1, 2)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
    return operation, layouts, (da, db, dc, dd), (alpha, beta, scales)


for transposed in itertools.product((False, True), repeat=2):
    check(np.float32, 1e-5, transposed=transposed)
for orders in ((True,) * 4, (True, False, False, True), (False, True, True, False)):
    check(np.float32, 1e-5, orders=orders, transposed=(True, False), epilogue=BIAS)
for epilogue in (BIAS, RELU, RELU | BIAS, GELU, GELU | BIAS):
    check(np.float32, 2e-5, epilogue=epilogue, batches=2)
check(np.float32, 1e-5, n=1, epilogue=BIAS)
check(np.float64, 1e-13, epilogue=RELU | BIAS, on_device=True)
check(np.float16, 1e-2, epilogue=BIAS, handle=of_blas, in_place=True, on_device=True)
operation, layouts, (da, db, dc, dd), (alpha, beta, kept) = check(np.float32, 1e-5)


def multiply(handle=own, d=dd, algorithm=None):
    return light.cublasLtMatmul(
        *(handle, operation, alpha, da, layouts[0], db, layouts[1], beta, dc, layouts[2], d),
        *(layouts[3], algorithm, None, c.c_size_t(0), None),
    )


assert multiply() == 0
assert multiply(handle=None) == 1
assert multiply(handle=operation) == 1
assert multiply(d=None) == 7
assert multiply(algorithm=(c.c_uint64 * 8)(3)) == 7  # of no function of this library
algorithm, ids, count = (c.c_uint64 * 8)(), (c.c_int * 4)(7, 7, 7, 7), c.c_int()
types = (COMPUTE_32F, F32, F32, F32, F32, F32)
assert light.cublasLtMatmulAlgoGetIds(own, *types, 4, ids, c.byref(count)) == 0
assert (count.value, list(ids)) == (1, [0, 7, 7, 7])
assert light.cublasLtMatmulAlgoInit(own, *types, 0, algorithm) == 0
assert light.cublasLtMatmulAlgoInit(own, *types, 1, algorithm) == 7
assert multiply(algorithm=algorithm) == 0
results = (c.c_uint8 * RESULT_BYTES)()
assert light.cublasLtMatmulAlgoCheck(own, operation, *layouts, algorithm, results) == 0

# bfloat16: 1 and 2 in the upper halves of floats
pairs = np.array([[[0x3F80, 0x4000], [0x4000, 0x3F80]]], np.uint16)
halves, sums = new_layout(BF16, pairs, True, 1), new_layout(F32, pairs, True, 1)
plain, zero = c.c_void_p(), np.zeros(1, np.float32)
one = np.ones(1, np.float32)
assert light.cublasLtMatmulDescCreate(c.byref(plain), COMPUTE_32F, F32) == 0
d_pairs, d_sums = put(pairs), put(np.zeros((2, 2), np.float32))
scales = [c.c_void_p(x.ctypes.data) for x in (one, zero)]
ends = (scales[1], None, sums, d_sums, sums, None, None, c.c_size_t(0), None)
assert (
    light.cublasLtMatmul(own, plain, scales[0], d_pairs, halves, d_pairs, halves, *ends) == 0
)  # C is not read
assert np.array_equal(get(d_sums, np.zeros((2, 2), np.float32)), [[5, 4], [4, 5]])

# what is not supported, and what does not fit together
setter = light.cublasLtMatmulDescSetAttribute
for number, value, kind, before in (
    (5, 1, c.c_int32, 0),
    (7, 4 | 128, c.c_int32, 1),
    (17, 256, c.c_uint64, 0),
    (2, 2, c.c_int32, 0),
):
    set_int(setter, operation, number, value, kind)
    assert multiply() == 15
    status = light.cublasLtMatmulAlgoGetHeuristic(
        own, operation, *layouts, None, 1, results, c.byref(count)
    )
    assert (status, count.value) == (15, 0)
    set_int(setter, operation, number, before, kind)
assert multiply() == 0
setter = light.cublasLtMatrixLayoutSetAttribute
for number, value, kind, expected, before in (
    (1, 2, c.c_int32, 15, 0),
    (0, F16, c.c_int32, 15, F32),
    (3, 8, c.c_uint64, 7, 9),
    (4, 8, c.c_int64, 7, 33),
    (5, 2, c.c_int32, 7, 1),
):
    set_int(setter, layouts[0], number, value, kind)
    assert multiply() == expected, number
    set_int(setter, layouts[0], number, before, kind)
assert multiply() == 0
assert cuda.cuCtxSynchronize() == 0
assert blas.cublasDestroy_v2(of_blas) == 0
assert multiply(handle=of_blas) == 1
print("right")
