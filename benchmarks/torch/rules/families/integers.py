"""Bitwise operators, shifts and common divisors of integers."""

import numpy as np

from benchmarks.torch.rules.dtypes import COMPLEXES, FLOATS, INTS, Array
from benchmarks.torch.rules.elementwise import Compute, Functor, binary, unary
from benchmarks.torch.rules.families.arithmetic import wrap
from benchmarks.torch.rules.row import Row
from benchmarks.torch.rules.sources import cuda

_BITS = cuda("BinaryBitwiseOpsKernels.cu", "BitwiseAndFunctor and its siblings")
_SHIFTS = cuda("BinaryShiftOpsKernels.cu", "lshift_kernel_cuda, rshift_kernel_cuda")
_DIVISORS = cuda("GcdLcmKernel.cu", "gcd_kernel_cuda, lcm_kernel_cuda")
_REFUSED = (*FLOATS, *COMPLEXES)


def _shift_left(first: Array, second: Array) -> Array:
    bits = first.dtype.itemsize * 8
    inside = (second >= 0) & (second < bits)
    exact = first.astype(object) << np.where(inside, second, 0).astype(object)
    return np.where(inside, wrap(exact, first), 0).astype(first.dtype)


def _shift_right(first: Array, second: Array) -> Array:
    limit = first.dtype.itemsize * 8 - (first.dtype.kind == "i")
    inside = (second >= 0) & (second < limit)
    return np.asarray(np.right_shift(first, np.where(inside, second, limit).astype(first.dtype)))


def _gcd(first: Array, second: Array) -> Array:
    return np.gcd(first, second)


def _lcm(first: Array, second: Array) -> Array:
    divisor = np.gcd(first, second)
    quotient = first.astype(object) // np.where(divisor == 0, 1, divisor).astype(object)
    product = quotient * second.astype(object)
    if first.dtype.itemsize >= 4:  # narrower ones are multiplied as int, and wrap at the end
        product = wrap(product, first).astype(object)
    return np.where(divisor == 0, 0, wrap(np.abs(product), first)).astype(first.dtype)


def _without_least(first: Array, second: Array) -> Array:
    minimum = np.iinfo(first.dtype).min
    return np.asarray(((first != minimum) & (second != minimum)) | (minimum == 0))


def _row(
    name: str, rule: str, source: str, computes: Compute, accepts: tuple[str, ...] = INTS
) -> Row:
    valid = _without_least if name in ("gcd", "lcm") else None
    call = f"torch.{name}(a, b)"
    make = binary(Functor(computes), call, valid=valid, numbers=False)
    return Row(name, "integers", rule, source, accepts, make, call, _REFUSED, out="castable")


_AND_BOOL = ("bool", *INTS)
_NOT = cuda("UnaryOpsKernel.cu", "bitwise_not_kernel_cuda")

ROWS = (
    _row("bitwise_and", "of the common type's bits; floats are refused", _BITS, np.bitwise_and, _AND_BOOL),
    _row("bitwise_or", "of the common type's bits; floats are refused", _BITS, np.bitwise_or, _AND_BOOL),
    _row("bitwise_xor", "of the common type's bits; floats are refused", _BITS, np.bitwise_xor, _AND_BOOL),
    _row("bitwise_left_shift", "0 for a negative shift or one of the width and more", _SHIFTS, _shift_left),
    _row("bitwise_right_shift", "a negative or too large shift leaves sign bits alone", _SHIFTS, _shift_right),
    _row("gcd", "never negative; gcd(0, 0) is 0", _DIVISORS, _gcd),
    _row("lcm", "|a / gcd * b|, which wraps; 0 where the divisor is 0", _DIVISORS, _lcm),
    Row("bitwise_not", rule="integers: all bits, bool: negation; floats are refused", source=_NOT,
        family="integers", accepts=_AND_BOOL, make=unary(Functor(np.invert), "torch.bitwise_not(a)"),
        call="torch.bitwise_not(a)", refuses=_REFUSED, out="exact"),
)  # fmt: skip
