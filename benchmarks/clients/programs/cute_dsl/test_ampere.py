"""CuTe DSL's examples of compute capability 8.0: their results against NumPy's."""

import struct

import numpy as np
import pytest
from exporter import export

_random = np.random.default_rng(0)


def _pointer(address):
    return struct.pack("<Q", address)


def test_elementwise_add(device, tmp_path):
    kernel = export(tmp_path, "sm_80", "elementwise_add")
    a, b = _random.random((2, 256, 512), np.float32)
    c = device.put(np.zeros_like(a))
    device.launch(kernel, *map(_pointer, (device.put(a), device.put(b), c)))
    np.testing.assert_array_equal(device.get(c, a.shape, a.dtype), a + b)


def test_sgemm(device, tmp_path):
    kernel = export(tmp_path, "sm_80", "sgemm")
    a, b = _random.standard_normal((2, 256, 64), np.float32)
    c = device.put(np.zeros((256, 256), np.float32))
    columns = (device.put(np.ascontiguousarray(matrix.T)) for matrix in (a, b))
    device.launch(kernel, *map(_pointer, (*columns, c)))
    product = device.get(c, (256, 256), np.float32)
    np.testing.assert_allclose(product, a.astype(np.float64) @ b.T, rtol=0, atol=1e-4)


def test_tensorop_gemm(device, tmp_path):
    kernel = export(tmp_path, "sm_80", "tensorop_gemm")
    a, b = _random.standard_normal((2, 256, 128)).astype(np.float16)
    c = device.put(np.zeros((256, 256), np.float16))
    # the last parameter spreads neighbouring blocks over the rows of the output
    device.launch(kernel, *map(_pointer, (device.put(a), device.put(b), c)), struct.pack("<I", 2))
    product = device.get(c, (256, 256), np.float16)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(product.astype(np.float64), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_flash_attention(device, tmp_path, mask):
    kernel = export(tmp_path, "sm_80", f"flash_attention-{mask}")
    q, k, v = _random.standard_normal((3, 256, 4, 64)).astype(np.float16)
    o = device.put(np.zeros_like(q))
    scale = struct.pack("<f", 0.125 * np.log2(np.e))
    device.launch(kernel, *map(_pointer, (*map(device.put, (q, k, v)), o)), scale)
    q, k, v = (tensor.astype(np.float64).swapaxes(0, 1) for tensor in (q, k, v))
    scores = q @ k.swapaxes(1, 2) * 0.125
    if mask == "causal":
        scores = np.where(np.tril(np.ones(scores.shape[1:])), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(0, 1)
    output = device.get(o, expected.shape, np.float16).astype(np.float64)
    np.testing.assert_allclose(output, expected, rtol=0, atol=5e-3)
