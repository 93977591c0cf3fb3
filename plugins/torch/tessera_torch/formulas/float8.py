"""Floats of 8 bits as bytes: decoded to float32 and encoded from it by integer arithmetic.

Kernels read and write bytes, because Triton has no conversion between some of these types and
others, and its conversion to ``float8_e5m2`` saturates. The results are those of PyTorch's types in
C++ (``torch/headeronly/util/Float8_*.h``), which its CUDA kernels use.
"""

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils._pytree import tree_leaves, tree_map

_SIGN: Final = 0x80
_INFINITY: Final = 0x7F800000  # of float32
_MANTISSA: Final = 23


@dataclass(frozen=True, slots=True)
class _Format:
    """A format with a sign."""

    mantissa: int  # bits
    bias: int
    largest: int  # code of the largest number
    overflow: int  # code of what is too large
    infinite: int  # code of an infinity
    nan: int
    has_negative_zero: bool


_FORMATS: Final = {
    torch.float8_e4m3fn: _Format(3, 7, 0x7E, 0x7E, 0x7E, 0x7F, True),
    torch.float8_e5m2: _Format(2, 15, 0x7B, 0x7C, 0x7C, 0x7F, True),
    torch.float8_e4m3fnuz: _Format(3, 8, 0x7F, 0x80, 0x80, 0x80, False),
    torch.float8_e5m2fnuz: _Format(2, 16, 0x7F, 0x80, 0x80, 0x80, False),
}
TYPES: Final = frozenset({*_FORMATS, torch.float8_e8m0fnu})


def as_bytes(tensor: Any) -> Any:
    """Return a view of the bytes of a tensor of 8-bit floats, and any other tensor itself."""
    return tensor.view(torch.uint8) if tensor.dtype in TYPES else tensor


def only_type(arguments: Any) -> Any:
    """Return the type of 8-bit floats that all floats among arguments have, or None."""
    tensors = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
    floats = {
        tensor.dtype for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()
    }
    dtype = floats.pop() if len(floats) == 1 else None
    return dtype if dtype in TYPES else None


def as_bytes_within(arguments: Any) -> Any:
    """Return arguments, or results, with bytes in the place of 8-bit floats."""
    return tree_map(lambda one: as_bytes(one) if isinstance(one, torch.Tensor) else one, arguments)


def as_floats_within(results: Any, dtype: Any) -> Any:
    """Return results of bytes as 8-bit floats of a type."""

    def view(leaf: Any) -> Any:
        is_bytes = isinstance(leaf, torch.Tensor) and leaf.dtype == torch.uint8
        return leaf.view(dtype) if is_bytes else leaf

    return tree_map(view, results)


def decode(codes: Any, dtype: Any) -> Any:
    """Return the numbers of bytes, in float32."""
    bits = codes.to(torch.int32)
    if dtype == torch.float8_e8m0fnu:
        exponent = torch.where(bits == 0, 0x00400000, bits << _MANTISSA)
        return torch.where(bits == 0xFF, torch.nan, exponent.view(torch.float32))
    form = _FORMATS[dtype]
    size = bits & 0x7F
    normal = (size << (_MANTISSA - form.mantissa)) + ((127 - form.bias) << _MANTISSA)
    small = size.to(torch.float32) * 2.0 ** (1 - form.bias - form.mantissa)
    number = torch.where(size >> form.mantissa == 0, small, normal.view(torch.float32))
    if not form.has_negative_zero:
        number = torch.where(bits == form.nan, torch.nan, number)
    else:
        if form.infinite != form.largest:
            number = torch.where(size == form.infinite, torch.inf, number)
        number = torch.where(size > max(form.largest, form.overflow), torch.nan, number)
    return torch.where(bits >= _SIGN, -number, number)


def encode(numbers: Any, dtype: Any) -> Any:
    """Return the bytes of the nearest 8-bit floats of float32 numbers; ties are to even codes."""
    bits = numbers.view(torch.int32)
    size = bits & 0x7FFFFFFF
    if dtype == torch.float8_e8m0fnu:
        return _encode_exponent(size)
    form = _FORMATS[dtype]
    cut = _MANTISSA - form.mantissa
    scaled = size - ((127 - form.bias) << _MANTISSA)
    normal = (scaled + ((1 << (cut - 1)) - 1) + ((scaled >> cut) & 1)) >> cut
    unit = 2.0 ** (1 - form.bias - form.mantissa)  # the sum has this distance between numbers
    shifted = size.view(torch.float32) + unit * 2.0**_MANTISSA
    small = shifted.view(torch.int32) & ((1 << _MANTISSA) - 1)
    code = torch.where(size < ((128 - form.bias) << _MANTISSA), small, normal)
    code = torch.where(code > form.largest, form.overflow, code)
    code = torch.where(size >= _INFINITY, form.infinite, code)
    code = torch.where(size > _INFINITY, form.nan, code)
    sign = (bits >> 24) & _SIGN
    if not form.has_negative_zero:
        sign = torch.where((code == 0) | (code == form.nan), 0, sign)
    return (code | sign).to(torch.uint8)


def _encode_exponent(size: Any) -> Any:
    """Return the exponents nearest to the absolute values."""
    exponent = size >> _MANTISSA
    mantissa = size & ((1 << _MANTISSA) - 1)
    half = 1 << (_MANTISSA - 1)
    is_above = torch.where(exponent == 0, mantissa > half, mantissa >= half)
    up = torch.where(is_above, 1, 0)
    return torch.where(exponent == 0xFF, 0xFF, exponent + up).to(torch.uint8)
