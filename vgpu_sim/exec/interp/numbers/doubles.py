"""binary64 and binary32 arithmetic on numpy's arrays, for ``approximations``."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.numbers.bits import Mask
from vgpu_sim.exec.interp.numbers.formats import Doubles as Numbers, sum_to_odd

_Patterns = NDArray[np.uint64]


class NumpyDoubles:
    """The operations of ``approximations.Doubles`` on numpy's arrays of any shape."""

    def constant(self, value: float) -> Numbers:
        return np.array([value], dtype=np.float64)

    def add(self, a: Numbers, b: Numbers) -> Numbers:
        return a + b

    def subtract(self, a: Numbers, b: Numbers) -> Numbers:
        return a - b

    def multiply(self, a: Numbers, b: Numbers) -> Numbers:
        return a * b

    def divide(self, a: Numbers, b: Numbers) -> Numbers:
        return a / b

    def round_to_integral(self, a: Numbers) -> Numbers:
        return np.rint(a)

    def copy_sign(self, magnitude: Numbers, sign: Numbers) -> Numbers:
        return np.copysign(magnitude, sign)

    def less(self, a: Numbers, b: Numbers) -> Mask:
        return a < b

    def is_nan(self, a: Numbers) -> Mask:
        return np.isnan(a)

    def select(self, flag: Mask, yes: Numbers, no: Numbers) -> Numbers:
        return np.where(flag, yes, no)

    def pattern(self, a: Numbers) -> _Patterns:
        return a.view(np.uint64)

    def from_pattern(self, bits: _Patterns) -> Numbers:
        return bits.view(np.float64)

    def convert_signed(self, bits: _Patterns) -> Numbers:
        return bits.view(np.int64).astype(np.float64)

    def sum(self, a: _Patterns, b: _Patterns) -> _Patterns:
        return a + b

    def offset(self, a: _Patterns, b: int) -> _Patterns:
        return a + np.uint64(b & _ALL)

    def mask(self, a: _Patterns, b: int) -> _Patterns:
        return a & np.uint64(b)

    def shift_left(self, a: _Patterns, count: int) -> _Patterns:
        return a << np.uint64(count)

    def shift_right(self, a: _Patterns, count: int) -> _Patterns:
        return (a.view(np.int64) >> np.int64(count)).view(np.uint64)

    def bit(self, a: _Patterns, place: int) -> Mask:
        result: Mask = (a & np.uint64(1 << place)) != 0
        return result


_Singles = NDArray[np.float32]
_Words = NDArray[np.uint32]


class NumpySingles:
    """The operations of ``approximations.Singles`` on numpy's arrays."""

    def constant(self, value: float) -> _Singles:
        return np.array([value], dtype=np.float32)

    def add(self, a: _Singles, b: _Singles) -> _Singles:
        return a + b

    def subtract(self, a: _Singles, b: _Singles) -> _Singles:
        return a - b

    def multiply(self, a: _Singles, b: _Singles) -> _Singles:
        return a * b

    def fuse(self, a: _Singles, b: _Singles, c: _Singles) -> _Singles:
        # The product is exact in binary64, and a sum rounded to odd may be rounded again.
        product = a.astype(np.float64) * b.astype(np.float64)
        return sum_to_odd(product, c.astype(np.float64)).astype(np.float32)

    def less(self, a: _Singles, b: _Singles) -> Mask:
        return a < b

    def is_nan(self, a: _Singles) -> Mask:
        return np.isnan(a)

    def select(self, flag: Mask, yes: _Singles, no: _Singles) -> _Singles:
        return np.where(flag, yes, no)

    def pattern(self, a: _Singles) -> _Words:
        return a.view(np.uint32)

    def from_pattern(self, bits: _Words) -> _Singles:
        return bits.view(np.float32)

    def sum(self, a: _Words, b: _Words) -> _Words:
        return a + b

    def difference(self, a: _Words, b: _Words) -> _Words:
        return a - b

    def offset(self, a: _Words, b: int) -> _Words:
        return a + np.uint32(b)

    def shift_left(self, a: _Words, count: int) -> _Words:
        return a << np.uint32(count)

    def shift_right(self, a: _Words, count: int) -> _Words:
        return (a.view(np.int32) >> np.int32(count)).view(np.uint32)


_ALL: Final = (1 << 64) - 1
ARITHMETIC: Final = NumpyDoubles()
SINGLES: Final = NumpySingles()
