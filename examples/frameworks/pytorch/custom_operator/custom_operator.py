"""Two custom operators with gradients, one in Triton and one in CUDA C++, checked and compiled.

tessera cc -shared -Xcompiler -fPIC scale_shift.cu -o libscale_shift.so
tessera run --board h100-80gb --preload 13 -- python custom_operator.py ./libscale_shift.so
"""

import ctypes
import sys
from typing import Any

import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton

_LIBRARY = ctypes.CDLL(sys.argv[1])
_LAUNCHES = {
    torch.float32: _LIBRARY.scale_shift_float,
    torch.float64: _LIBRARY.scale_shift_double,
}


@triton.jit
def _square_kernel(x, out, count, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < count)
    tl.store(out + i, value * value, mask=i < count)


@triton_op("example::square", mutates_args={})
def square(x: torch.Tensor) -> torch.Tensor:
    """Return the square of each element."""
    x = x.contiguous()
    out = torch.empty_like(x)
    wrap_triton(_square_kernel)[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), 256)
    return out


def _save_input(ctx: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _square_backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
    return 2 * ctx.saved_tensors[0] * gradient


square.register_autograd(_square_backward, setup_context=_save_input)


@torch.library.custom_op("example::scale_shift", mutates_args=(), device_types="cuda")
def scale_shift(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return weight * x + bias, with a weight and a bias for each column."""
    x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
    out = torch.empty_like(x)
    addresses = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (x, weight, bias, out))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    rows, columns = ctypes.c_long(x.shape[0]), ctypes.c_int(x.shape[1])
    status = _LAUNCHES[x.dtype](*addresses, rows, columns, stream)
    if status:
        raise RuntimeError(f"scale_shift: CUDA error {status}")
    return out


@scale_shift.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def _save(ctx: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x, weight = ctx.saved_tensors
    return gradient * weight, (gradient * x).sum(0), gradient.sum(0)


scale_shift.register_autograd(_backward, setup_context=_save)


def main() -> None:
    """Check gradients against differences, then compile a program with both operators."""
    x = torch.randn(5, 3, dtype=torch.float64, device="cuda", requires_grad=True)
    weight, bias = (torch.randn(3, dtype=x.dtype, device="cuda", requires_grad=True) for _ in "wb")
    torch.autograd.gradcheck(square, x)
    torch.autograd.gradcheck(scale_shift, (x, weight, bias))
    torch.library.opcheck(scale_shift, (x, weight, bias))

    def both(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return square(scale_shift(x, weight, bias)).sum()

    expected = (weight * x + bias).square().sum()
    compiled = torch.compile(both, fullgraph=True)(x, weight, bias)
    torch.testing.assert_close(compiled, expected)
    gradients = (torch.autograd.grad(output, (x, weight, bias)) for output in (compiled, expected))
    torch.testing.assert_close(*gradients)
    print("gradients of both operators agree with differences; compiled program:", compiled.item())


if __name__ == "__main__":
    main()
