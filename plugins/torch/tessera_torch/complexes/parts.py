"""Complex tensors split into their real and imaginary parts, and made from them."""

from typing import Any, Final

import torch

COMPLEX_OF: Final = {torch.float32: torch.complex64, torch.float64: torch.complex128}
REAL_OF: Final = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def split(one: Any) -> tuple[Any, Any]:
    """Return a tensor's parts: views where it is no conjugate view. Real ones have a zero part."""
    if not isinstance(one, torch.Tensor):
        number = complex(one)
        return number.real, number.imag
    if not one.is_complex():
        return one, torch.zeros((), dtype=one.dtype, device=one.device)
    if one.is_neg():
        real, imag = split(torch._neg_view(one))
        return -real, -imag
    if one.is_conj():
        real, imag = split(torch._conj(one))
        return real, -imag
    pairs = torch.view_as_real(one)
    return pairs.select(-1, 0), pairs.select(-1, 1)


def join(real: Any, imag: Any, dtype: Any = None) -> Any:
    """Return a new complex tensor of two real ones, which may need broadcasting."""
    shape = torch.broadcast_shapes(real.shape, imag.shape)
    out = torch.empty(shape, dtype=dtype or COMPLEX_OF[real.dtype], device=real.device)
    pairs = torch.view_as_real(out)
    pairs.select(-1, 0).copy_(real.expand(shape))
    pairs.select(-1, 1).copy_(imag.expand(shape))
    return out


def resolve(one: Any) -> Any:
    """Return a contiguous complex tensor that is no conjugate or negative view."""
    if one.is_contiguous() and not one.is_conj() and not one.is_neg():
        return one
    return join(*split(one))
