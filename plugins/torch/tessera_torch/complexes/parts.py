"""Complex tensors split into their real and imaginary parts, and made from them."""

from typing import Any, Final

import torch

COMPLEX_OF: Final = {torch.float32: torch.complex64, torch.float64: torch.complex128}
REAL_OF: Final = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def split(operand: Any) -> tuple[Any, Any]:
    """Return a tensor's parts: views where it is no conjugate view. Real ones have a zero part."""
    if not isinstance(operand, torch.Tensor):
        number = complex(operand)
        return number.real, number.imag
    if not operand.is_complex():
        return operand, torch.zeros((), dtype=operand.dtype, device=operand.device)
    if operand.is_neg():
        real, imag = split(torch._neg_view(operand))
        return -real, -imag
    if operand.is_conj():
        real, imag = split(torch._conj(operand))
        return real, -imag
    pairs = torch.view_as_real(operand)
    return pairs.select(-1, 0), pairs.select(-1, 1)


def join(real: Any, imag: Any, dtype: Any = None) -> Any:
    """Return a new complex tensor of two real ones, which may need broadcasting."""
    shape = torch.broadcast_shapes(real.shape, imag.shape)
    out = torch.empty(shape, dtype=dtype or COMPLEX_OF[real.dtype], device=real.device)
    pairs = torch.view_as_real(out)
    pairs.select(-1, 0).copy_(real.expand(shape))
    pairs.select(-1, 1).copy_(imag.expand(shape))
    return out


def resolve(tensor: Any) -> Any:
    """Return a contiguous complex tensor that is no conjugate or negative view."""
    if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return tensor
    return join(*split(tensor))
