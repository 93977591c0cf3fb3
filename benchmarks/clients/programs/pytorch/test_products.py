"""PyTorch's matrix products, which cuBLAS and cuBLASLt compute, against the CPU."""

import pytest
import torch

_functional = torch.nn.functional
_TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-10, torch.float16: 2e-2, torch.bfloat16: 1e-1}


def _numbers(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def _check(function, *inputs, dtype=torch.float32):
    actual = function(*(tensor.to("cuda") for tensor in inputs)).cpu()
    expected = function(*(tensor.double() for tensor in inputs))
    tolerance = _TOLERANCES[dtype]
    torch.testing.assert_close(actual.double(), expected, atol=tolerance, rtol=tolerance)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", _TOLERANCES, ids=str)
def test_mm(dtype):
    _check(torch.mm, _numbers(33, 20, dtype=dtype), _numbers(20, 17, dtype=dtype), dtype=dtype)


@pytest.mark.parametrize("dtype", _TOLERANCES, ids=str)
def test_bmm(dtype):
    _check(torch.bmm, _numbers(3, 9, 20, dtype=dtype), _numbers(3, 20, 7, dtype=dtype), dtype=dtype)


@pytest.mark.parametrize("dtype", _TOLERANCES, ids=str)
def test_linear_with_bias(dtype):
    x, weight = _numbers(16, 24, dtype=dtype), _numbers(8, 24, dtype=dtype)
    _check(_functional.linear, x, weight, _numbers(8, dtype=dtype), dtype=dtype)


def test_mm_of_transposed_matrices():
    _check(lambda a, b: a.t() @ b.t(), _numbers(20, 33), _numbers(17, 20))


def test_mv():
    _check(torch.mv, _numbers(33, 20), _numbers(20))


def test_dot():
    _check(torch.dot, _numbers(1000), _numbers(1000))


def test_linear_with_relu():
    _check(
        lambda x, w, b: torch._addmm_activation(b, x, w.t()),
        _numbers(16, 24),
        _numbers(8, 24),
        _numbers(8),
    )


def test_a_product_in_a_graph():
    a, b = _numbers(16, 24).cuda(), _numbers(24, 8).cuda()
    target = torch.empty(16, 8, device="cuda")
    torch.mm(a, b, out=target)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.mm(a, b, out=target)
    newer = _numbers(16, 24)
    a.copy_(newer)
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(target.cpu(), newer @ b.cpu(), atol=1e-4, rtol=1e-4)
