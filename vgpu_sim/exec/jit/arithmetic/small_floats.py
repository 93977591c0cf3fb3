"""Formats narrower than binary32, and rounding to narrower formats, as LLVM operations.

binary16 and bfloat16 are computed in binary32, or rounded to odd as an intermediate step: that
keeps a sticky bit, so that the final rounding accounts for the bits that the first one dropped
(S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

from collections.abc import Sequence
from typing import Final

from vgpu_sim.exec.jit.arithmetic.directed_rounding import round_directed
from vgpu_sim.exec.jit.arithmetic.floats import DIRECTED
from vgpu_sim.exec.jit.text.writer import BITS, Text, integer
from vgpu_sim.isa import DataType, Rounding

_CANONICAL: Final = 0x7FFF  # NaN, of binary16 and of bfloat16
_WIDER: Final = {"float": "double", "half": "float"}


class SmallFloats:
    """Emits code for operations on binary16 and bfloat16 numbers. The code is appended to ``text``.

    The operands are scalars, or vectors of ``text.width`` lanes.
    """

    def __init__(self, text: Text, vector: bool) -> None:
        self._text = text
        self._vector = vector

    def to_single(self, pattern: str, type_: DataType) -> str:
        """Convert a binary16 or bfloat16 pattern to a float."""
        text = self._text
        single, short = self._type("float"), self._type("i16")
        if type_ is DataType.F16:
            half = self._type("half")
            return text.let(f"fpext {half} {self._as(pattern, 'i16', 'half')} to {single}")
        bits = text.let(f"zext {short} {pattern} to {self._type('i32')}")
        bits = text.let(f"shl {self._type('i32')} {bits}, {self._const(16, 'i32')}")
        return self._as(bits, "i32", "float")

    def to_double(self, single: str) -> str:
        """Convert a float to a double."""
        return self._text.let(f"fpext {self._type('float')} {single} to {self._type('double')}")

    def round_to_small(self, single: str, type_: DataType, rounding: Rounding) -> str:
        """Round a float to a pattern of binary16 or bfloat16; NaNs become canonical."""
        text = self._text
        if type_ is DataType.F16:
            pattern = self._as(self.round_to(single, "half", rounding), "half", "i16")
        else:
            pattern = self._upper_half(single, rounding)
        is_nan = text.let(f"fcmp uno {self._type('float')} {single}, {single}")
        return text.select(is_nan, self._const(_CANONICAL, "i16"), pattern, "i16", self._vector)

    def round_to(self, value: str, to: str, rounding: Rounding) -> str:
        """Round a number to the next narrower scalar type, in any direction."""
        text, wide = self._text, _WIDER[to]
        source_type, target_type, word = self._type(wide), self._type(to), integer(BITS[to])
        nearest = text.let(f"fptrunc {source_type} {value} to {target_type}")
        if rounding not in DIRECTED:
            return nearest
        back = text.let(f"fpext {target_type} {nearest} to {source_type}")
        if rounding is Rounding.RZ:
            value, back = (text.intrinsic("fabs", wide, self._vector, v) for v in (value, back))
        relation = "olt" if rounding is Rounding.RP else "ogt"
        beyond = text.let(f"fcmp {relation} {source_type} {back}, {value}")
        bits = self._as(nearest, to, word)
        step = self._const(-1, word)
        if rounding is not Rounding.RZ:
            negative = text.let(f"icmp slt {self._type(word)} {bits}, {self._const(0, word)}")
            outward = rounding is Rounding.RM
            up, down = self._const(1, word), self._const(-1, word)
            negative_step, positive_step = (up, down) if outward else (down, up)
            step = text.select(negative, negative_step, positive_step, word, self._vector)
        moved = text.let(f"add {self._type(word)} {bits}, {step}")
        return self._as(text.select(beyond, moved, bits, word, self._vector), word, to)

    def computed_to_odd(self, operation: str, operands: Sequence[str]) -> str:
        """Return a sum or product of floats, rounded to odd if it is inexact.

        The operation is computed twice, rounded down and rounded up. If the result is inexact,
        the two numbers are adjacent, and the odd one is returned. If it is exact, the two are
        equal. There is one exception: if the terms of a sum cancel, the two numbers are -0 and
        +0. Then +0 is returned, which is also the sum rounded to nearest.
        """
        text, word = self._text, self._type("i32")
        down, up = (
            round_directed(text, operation, "float", rounding, operands, self._vector)
            for rounding in (Rounding.RM, Rounding.RP)
        )
        last = text.let(f"and {word} {self._as(down, 'float', 'i32')}, {self._const(1, 'i32')}")
        odd = text.let(f"icmp ne {word} {last}, {self._const(0, 'i32')}")
        return text.select(odd, down, up, "float", self._vector)

    def to_odd(self, value: str) -> str:
        """Round a double to a float. If the result is inexact, it is the adjacent float whose last
        bit is 1 (round to odd).

        If a finite number would round to infinity, the result is the largest number, which is
        odd. Infinity remains infinity, because its rounding error is NaN: the comparison of NaN
        with zero is false, so the result counts as exact.
        """
        text, single, double = self._text, self._type("float"), self._type("double")
        nearest = text.let(f"fptrunc {double} {value} to {single}")
        error = text.let(f"fsub {double} {value}, {self.to_double(nearest)}")
        word, flags = self._type("i32"), self._type("i1")
        zero, unit = self._const(0, "i32"), self._const(1, "i32")
        nothing = self._const(0, "double")
        bits = self._as(nearest, "float", "i32")
        dropped = text.let(f"fcmp one {double} {error}, {nothing}")
        even = text.let(f"icmp eq {word} {text.let(f'and {word} {bits}, {unit}')}, {zero}")
        below = text.let(f"fcmp olt {double} {error}, {nothing}")
        negative = text.let(f"icmp slt {word} {bits}, {zero}")
        inward = text.let(f"xor {flags} {below}, {negative}")
        step = self._choose(inward, self._const(-1, "i32"), unit, "i32")
        moved = text.let(f"add {word} {bits}, {step}")
        move = text.let(f"and {flags} {dropped}, {even}")
        return self._as(self._choose(move, moved, bits, "i32"), "i32", "float")

    def magnitude_to_odd(self, magnitude: str) -> str:
        """Return an unsigned 64-bit integer as a double, rounded to odd.

        If the integer has more than 53 bits, its low 11 bits are cleared. If one of them was
        set, the sticky bit, bit 11, is set.
        """
        text, word = self._text, self._type("i64")

        def both(value: str, mask: int) -> str:
            return text.let(f"and {word} {value}, {self._const(mask, 'i64')}")

        inexact = text.let(f"icmp ne {word} {both(magnitude, 0x7FF)}, {self._const(0, 'i64')}")
        large = text.let(f"icmp ugt {word} {magnitude}, {self._const((1 << 53) - 1, 'i64')}")
        sticky = self._choose(inexact, self._const(0x800, "i64"), self._const(0, "i64"), "i64")
        odd = text.let(f"or {word} {both(magnitude, -0x800)}, {sticky}")
        exact = self._choose(large, odd, magnitude, "i64")
        return text.let(f"uitofp {word} {exact} to {self._type('double')}")

    def _upper_half(self, single: str, rounding: Rounding) -> str:
        """Round a float that is not NaN to a bfloat16 pattern; a carry may produce infinity."""
        text, word = self._text, self._type("i32")
        bits = self._as(single, "float", "i32")
        if rounding in (Rounding.RM, Rounding.RP):
            zero, all_ones = self._const(0, "i32"), self._const(0xFFFF, "i32")
            negative = text.let(f"icmp slt {word} {bits}, {zero}")
            away = (all_ones, zero) if rounding is Rounding.RM else (zero, all_ones)
            bits = text.let(f"add {word} {bits}, {self._choose(negative, *away, 'i32')}")
        elif rounding is not Rounding.RZ:
            last = text.let(f"lshr {word} {bits}, {self._const(16, 'i32')}")
            last = text.let(f"and {word} {last}, {self._const(1, 'i32')}")
            almost = text.let(f"add {word} {bits}, {self._const(0x7FFF, 'i32')}")
            bits = text.let(f"add {word} {almost}, {last}")
        upper = text.let(f"lshr {word} {bits}, {self._const(16, 'i32')}")
        return text.let(f"trunc {word} {upper} to {self._type('i16')}")

    def _type(self, scalar: str) -> str:
        return self._text.type_of(scalar, self._vector)

    def _const(self, pattern: int, scalar: str) -> str:
        return self._text.const(pattern, scalar, self._vector)

    def _as(self, value: str, source_scalar: str, target_scalar: str) -> str:
        return self._text.let(
            f"bitcast {self._type(source_scalar)} {value} to {self._type(target_scalar)}"
        )

    def _choose(self, flag: str, yes: str, no: str, scalar: str) -> str:
        return self._text.select(flag, yes, no, scalar, self._vector)
