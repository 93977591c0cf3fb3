"""Triton's tutorials 09 to 11, of compute capability 10.0: their results against numpy's."""

import ml_dtypes
import numpy as np
import pytest
import torch
from triton._C.libtriton import nvidia
from triton.tools.tensor_descriptor import TensorDescriptor

_random = np.random.default_rng(1)
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


@pytest.fixture(autouse=True)
def _without_baseline(monkeypatch):
    """Load the tutorials without cuBLAS, with which they only compare times."""
    monkeypatch.setattr(nvidia.cublas, "CublasLt", lambda workspace: None)


def _on_device(array, dtype=None):
    return torch.tensor(array, dtype=dtype, device="cuda")


@pytest.mark.parametrize(
    "method",
    [
        "matmul_tma",
        "matmul_tma-specialized",
        "matmul_persistent",
        "matmul_tma_persistent",
        "matmul_tma_persistent-specialized",
        "matmul_descriptor_persistent",
        "matmul_descriptor_persistent-specialized",
    ],
)
def test_09_persistent_matmul(load, method):
    name, _, specialized = method.partition("-")
    module = load("09")
    a, b = (_random.random((2, 256, 128), np.float32) - 0.5).astype(np.float16)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    if name == "matmul_persistent":
        product = module.matmul_persistent(_on_device(a), _on_device(np.ascontiguousarray(b.T)))
    else:
        product = getattr(module, name)(_on_device(a), _on_device(b), bool(specialized))
    np.testing.assert_allclose(product.numpy().astype(np.float64), expected, atol=1e-2, rtol=0)


def _scales(rows, blocks, kind):
    """Return random scales, their codes, and the codes in tiles of 128 rows by 4 blocks."""
    if kind == "nvfp4":
        codes = _random.integers(0x28, 0x48, (rows, blocks), np.uint8)
        numbers = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    else:
        codes = _random.integers(123, 131, (rows, blocks), np.uint8)
        numbers = 2.0 ** (codes.astype(np.float64) - 127)
    tiles = codes.reshape(rows // 128, 4, 32, blocks // 4, 4).transpose(0, 3, 2, 1, 4)
    return numbers, np.ascontiguousarray(tiles).reshape(1, rows // 128, blocks // 4, 2, 256)


def _elements(rows, depth, *, narrow):
    """Return random elements and their bytes: two of four bits in a byte, or one of eight bits."""
    codes = _random.integers(0, 16, (rows, depth), np.uint8)
    numbers = _E2M1[codes].astype(np.float64)
    if narrow:
        return numbers, codes[:, ::2] | codes[:, 1::2] << 4
    return numbers, numbers.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


@pytest.mark.parametrize("kind", ["nvfp4", "mxfp4", "mxfp8", "mixed"])
def test_10_block_scaled_matmul(load, kind):
    module = load("10")
    m, n, k = 128, 256, 512
    # Shared memory: 227 KiB in compute capability 10.0, for which the tutorial is, 99 KiB in 12.0.
    small = torch.cuda.get_device_capability()[0] == 12
    block_m, block_n, block_k = 128, 128 if small else 256, 256 if "fp4" in kind else 128
    each = 16 if kind == "nvfp4" else 32
    per_byte = 1 + ("fp4" in kind), 1 + (kind != "mxfp8")
    descriptors, factors = [], []
    for rows, block_rows, packed in ((m, block_m, per_byte[0]), (n, block_n, per_byte[1])):
        numbers, data = _elements(rows, k, narrow=packed == 2)
        scales, tiles = _scales(rows, k // each, kind)
        factors.append(numbers * np.repeat(scales, each, axis=1))
        elements = _on_device(data, torch.uint8)
        if packed == 1:
            elements = elements.view(torch.float8_e4m3fn)
        codes = _on_device(tiles, torch.uint8)
        if kind == "nvfp4":
            codes = codes.view(torch.float8_e4m3fn)
        block = [block_rows, block_k // packed]
        descriptors.append(TensorDescriptor.from_tensor(elements, block))
        block = [1, block_rows // 128, block_k // each // 4, 2, 256]
        descriptors.append(TensorDescriptor.from_tensor(codes, block_shape=block))
    configs = {
        "BLOCK_SIZE_M": block_m,
        "BLOCK_SIZE_N": block_n,
        "BLOCK_SIZE_K": block_k,
        "num_stages": 2 if small else 4,
        "ELEM_PER_BYTE_A": per_byte[0],
        "ELEM_PER_BYTE_B": per_byte[1],
        "VEC_SIZE": each,
    }
    rep_m, rep_n, rep_k = block_m // 128, block_n // 128, block_k // each // 4
    output = module.block_scaled_matmul(
        *descriptors, torch.float32, m, n, k, rep_m, rep_n, rep_k, configs
    ).numpy()
    np.testing.assert_allclose(output, factors[0] @ factors[1].T, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("dependent", [False, True])
def test_11_programmatic_dependent_launch(load, dependent):
    module = load("11")
    x, y = _random.random((2, 4096), np.float32)
    sums = module.add(_on_device(x), _on_device(y), dependent).numpy()
    np.testing.assert_array_equal(sums, x + y)
