"""Triton's tutorials 01 to 03 and 05 to 08: their results against numpy's."""

import numpy as np
import pytest
import torch

_random = np.random.default_rng(0)


def _on_device(array, dtype=None):
    return torch.tensor(array, dtype=dtype, device="cuda")


def test_01_vector_add(load):
    module = load("01")
    x, y = _random.random((2, 98432), np.float32)
    assert np.array_equal(module.add(_on_device(x), _on_device(y)).numpy(), x + y)


def test_02_fused_softmax(load):
    module = load("02")
    x = _random.standard_normal((1823, 781), np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    softmax = module.softmax(_on_device(x)).numpy()
    np.testing.assert_allclose(softmax, e / e.sum(1, keepdims=True), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("activation", ["", "leaky_relu"])
def test_03_matrix_multiplication(load, activation):
    module = load("03")
    a, b = (_random.random((2, 512, 512), np.float32) - 0.5).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    if activation:
        expected = np.where(expected >= 0, expected, 0.01 * expected)
    product = module.matmul(_on_device(a), _on_device(b), activation)
    np.testing.assert_allclose(product.numpy().astype(np.float32), expected, atol=1e-2, rtol=0)


def test_05_layer_norm(load):
    module = load("05")
    rows, columns, eps = 151, 1000, 1e-5
    x = (-2.3 + 0.5 * _random.standard_normal((rows, columns))).astype(np.float16)
    dy = (0.1 * _random.standard_normal((rows, columns))).astype(np.float16)
    w, b = _random.random((2, columns)).astype(np.float16)
    context = torch.autograd.Context()
    y = module.LayerNorm.forward(
        context, _on_device(x), (columns,), _on_device(w), _on_device(b), eps
    )
    dx, _, dw, db, _ = module.LayerNorm.backward(context, _on_device(dy))
    x, dy, w, b = (array.astype(np.float64) for array in (x, dy, w, b))
    rstd = 1 / np.sqrt(x.var(1, keepdims=True) + eps)
    xhat = (x - x.mean(1, keepdims=True)) * rstd
    wdy = w * dy
    c1, c2 = (xhat * wdy).mean(1, keepdims=True), wdy.mean(1, keepdims=True)
    for actual, expected in (
        (y, xhat * w + b),
        (dx, (wdy - (xhat * c1 + c2)) * rstd),
        (dw, (dy * xhat).sum(0)),
        (db, dy.sum(0)),
    ):
        np.testing.assert_allclose(
            actual.numpy().astype(np.float64), expected, atol=1e-2, rtol=5e-3
        )


def _attend(q, k, v, causal, scale):
    scores = q @ k.swapaxes(2, 3) * scale
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:])), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return p, p @ v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head", [64, 128])
def test_06_fused_attention(load, causal, head):
    module = load("06")
    scale = 0.5
    q, k, v, do = (0.5 * _random.standard_normal((4, 1, 2, 256, head))).astype(np.float16)
    context = torch.autograd.Context()
    o = module._attention.forward(context, *map(_on_device, (q, k, v)), causal, scale, False)
    dq, dk, dv, *_ = module._attention.backward(context, _on_device(do))
    q, k, v, do = (array.astype(np.float64) for array in (q, k, v, do))
    p, expected = _attend(q, k, v, causal, scale)
    dp = do @ v.swapaxes(2, 3)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
    for actual, gradient in (
        (o, expected),
        (dv, p.swapaxes(2, 3) @ do),
        (dk, ds.swapaxes(2, 3) @ q),
        (dq, ds @ k),
    ):
        np.testing.assert_allclose(actual.numpy().astype(np.float64), gradient, atol=1e-2, rtol=0)


def test_07_extern_functions(load):
    module = load("07")
    actual, expected = module.output_triton.numpy(), np.arcsin(module.x.numpy())
    np.testing.assert_allclose(actual, expected, rtol=4e-7)


def test_08_grouped_gemm(load):
    module = load("08")
    groups = [
        [(_random.random(shape, np.float32) - 0.5).astype(np.float16) for shape in shapes]
        for shapes in (((256, 128), (128, 256)), ((128, 256), (256, 128)))
    ]
    tensors = [[_on_device(array) for array in group] for group in groups]
    products = module.group_gemm_fn([g[0] for g in tensors], [g[1] for g in tensors])
    for product, (a, b) in zip(products, groups, strict=True):
        expected = a.astype(np.float32) @ b.astype(np.float32)
        np.testing.assert_allclose(product.numpy().astype(np.float32), expected, atol=1e-2, rtol=0)
