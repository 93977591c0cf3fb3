"""Formats of 8 bits and fewer, and TF32: conversions from and to binary32 on 32-bit LLVM values."""

from typing import Final

from vgpu_sim.exec.jit.analysis.nans import CANONICAL
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.isa import DataType, Rounding
from vgpu_sim.records import dataclass

_BIAS: Final = 127
_STORED: Final = 23  # bits of binary32's fraction
_INFINITY: Final = 0x7F80_0000
_MAGNITUDE: Final = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a floating-point format. ``stored`` is the number of its fraction bits.
    ``largest`` is the bit pattern of its largest number.
    """

    bits: int
    stored: int
    bias: int
    largest: int


LAYOUTS: Final = {
    DataType.F16: Layout(16, 10, 15, 0x7BFF),
    DataType.BF16: Layout(16, 7, 127, 0x7F7F),
    DataType.E4M3: Layout(8, 3, 7, 0x7E),
    DataType.E5M2: Layout(8, 2, 15, 0x7B),
    DataType.E2M3: Layout(6, 3, 1, 0x1F),
    DataType.E3M2: Layout(6, 2, 3, 0x1F),
    DataType.E2M1: Layout(4, 1, 1, 0x7),
}
_CHANCE_BITS: Final = {DataType.F16: 13}  # 16 for other types


class TinyFloats:
    """Emits code that converts between float and tiny floats, such as E4M3. The code is appended to
    ``text``.

    The operands are scalars, or vectors of ``text.width`` lanes. Numbers have the LLVM type
    float; patterns have the type i32.
    """

    def __init__(self, text: Text, vector: bool) -> None:
        self._text = text
        self._vector = vector
        self._word = text.type_of("i32", vector)
        self._single = text.type_of("float", vector)

    def round_to_nearest(self, single: str, type_: DataType) -> str:
        """Round a float to the nearest number of ``type_``, ties to even.

        Return the pattern of the rounded magnitude. If the magnitude overflows, return the
        pattern of the largest number.
        """
        layout = LAYOUTS[type_]
        dropped = _STORED - layout.stored
        magnitude = self._and(self._bits(single), _MAGNITUDE)
        last = self._and(self._op("lshr", magnitude, self._const(dropped)), 1)
        biased = self._op("add", magnitude, self._const((1 << (dropped - 1)) - 1))
        normal = self._normal(self._op("add", biased, last), layout)
        # Adding a number whose ulp is the smallest subnormal rounds the other operand to that ulp.
        spacer = self._float(1 - layout.bias - layout.stored + _STORED)
        spaced = self._fop("fadd", self._number(magnitude), spacer)
        tiny = self._op("sub", self._bits(spaced), self._bits(spacer))
        return self._limit(self._split(magnitude, layout, tiny, normal), layout)

    def round_stochastically(self, single: str, type_: DataType, chance: str) -> str:
        """Round a magnitude up if the fraction that rounding drops, plus ``chance``, reaches one;
        otherwise round it down. See CVT_RS.

        The returned pattern of an infinity or an overflow exceeds ``LAYOUTS[type_].largest``.
        """
        layout = LAYOUTS[type_]
        width = _CHANCE_BITS.get(type_, 16)
        dropped = _STORED - layout.stored
        magnitude = self._and(self._bits(single), _MAGNITUDE)
        chance = self._and(chance, (1 << width) - 1)
        raised = self._op("shl", chance, self._const(dropped - width))
        normal = self._normal(self._op("add", magnitude, raised), layout)
        if layout.bias == _BIAS:
            return normal  # subnormal numbers are those of binary32
        # In units of 2^-width ulp, truncated to an integer.
        scale = self._float(width - (1 - layout.bias - layout.stored))
        scaled = self._fop("fmul", self._number(magnitude), scale)
        small = self._text.let(
            f"fcmp olt {self._single} {scaled}, {self._float(width + layout.stored)}"
        )
        bounded = self._text.select(
            small, scaled, self._text.const(0, "float", self._vector), "float", self._vector
        )
        units = self._text.let(f"fptoui {self._single} {bounded} to {self._word}")
        tiny = self._op("lshr", self._op("add", units, chance), self._const(width))
        return self._split(magnitude, layout, tiny, normal)

    def clamp_overflow(
        self, single: str, pattern: str, type_: DataType, *, finite: bool, relu: bool
    ) -> str:
        """Return ``pattern`` with the sign of ``single``, and with NaN and overflow replaced.

        A NaN becomes canonical. With ``finite``, an overflow becomes the format's largest
        number. Otherwise it becomes the pattern that is greater by one than that of the largest
        number. With ``relu``, negative numbers become +0.
        """
        text, layout = self._text, LAYOUTS[type_]
        if finite:
            pattern = self._limit(pattern, layout)
        else:
            pattern = text.intrinsic(
                "umin", "i32", self._vector, pattern, self._const(layout.largest + 1)
            )
        bits = self._bits(single)
        negative = text.let(f"icmp slt {self._word} {bits}, {self._const(0)}")
        sign = self._const(1 << (layout.bits - 1))
        marked = self._const(0) if relu else self._op("or", pattern, sign)
        pattern = text.select(negative, marked, pattern, "i32", self._vector)
        return self._unless_nan(single, pattern, CANONICAL[type_])

    def to_single(self, pattern: str, type_: DataType) -> str:
        """Convert a pattern to float; bits above the format's width are ignored."""
        text, layout = self._text, LAYOUTS[type_]
        magnitude = self._and(pattern, (1 << (layout.bits - 1)) - 1)
        shifted = self._op("shl", magnitude, self._const(_STORED - layout.stored))
        number = self._fop("fmul", self._number(shifted), self._float(_BIAS - layout.bias))
        bits = self._bits(number)
        if type_ is DataType.E5M2:
            infinite = text.let(f"icmp eq {self._word} {magnitude}, {self._const(0x7C)}")
            bits = text.select(infinite, self._const(_INFINITY), bits, "i32", self._vector)
        sign = self._op("shl", pattern, self._const(32 - layout.bits))
        bits = self._op("or", bits, self._and(sign, 1 << 31))
        if layout.bits == 8:
            last = layout.largest + (type_ is DataType.E5M2)
            beyond = text.let(f"icmp ugt {self._word} {magnitude}, {self._const(last)}")
            bits = text.select(beyond, self._const(0x7FFF_FFFF), bits, "i32", self._vector)
        return self._number(bits)

    def tf32(self, single: str, rounding: Rounding, *, finite: bool, relu: bool) -> str:
        """Round a float to 10 bits of fraction; return its pattern."""
        text, bits = self._text, self._bits(single)
        magnitude = self._and(bits, _MAGNITUDE)
        if rounding is Rounding.RN:
            last = self._and(self._op("lshr", magnitude, self._const(13)), 1)
            magnitude = self._op("add", magnitude, self._const(0xFFF))
            magnitude = self._op("add", magnitude, last)
        elif rounding is Rounding.RNA:
            magnitude = self._op("add", magnitude, self._const(0x1000))
        magnitude = self._and(magnitude, -0x2000)
        if finite:
            largest = self._const(_INFINITY - 0x2000)
            magnitude = text.intrinsic("umin", "i32", self._vector, magnitude, largest)
        negative = text.let(f"icmp slt {self._word} {bits}, {self._const(0)}")
        marked = self._const(0) if relu else self._op("or", magnitude, self._const(1 << 31))
        result = text.select(negative, marked, magnitude, "i32", self._vector)
        return self._unless_nan(single, result, CANONICAL[DataType.TF32])

    def to_power_of_two(self, single: str, *, upward: bool, finite: bool) -> str:
        """Round the magnitude of a float to a power of two, up or down; return the power as
        UE8M0.
        """
        text = self._text
        magnitude = self._and(self._bits(single), _MAGNITUDE)
        if upward:
            # A fraction carries; in subnormal numbers only the bits above 2^-127 do.
            normal = self._op("add", magnitude, self._const((1 << _STORED) - 1))
            subnormal = self._op("add", magnitude, self._const((1 << (_STORED - 1)) - 1))
            small = text.let(f"icmp ult {self._word} {magnitude}, {self._const(1 << _STORED)}")
            magnitude = text.select(small, subnormal, normal, "i32", self._vector)
        power = self._op("lshr", magnitude, self._const(_STORED))
        maximum = self._const(0xFE if finite else 0xFF)
        power = text.intrinsic("umin", "i32", self._vector, power, maximum)
        return self._unless_nan(single, power, 0xFF)

    def from_power_of_two(self, pattern: str) -> str:
        """Convert a UE8M0 pattern to float."""
        text = self._text
        bits = self._op("shl", pattern, self._const(_STORED))
        is_least = text.let(f"icmp eq {self._word} {pattern}, {self._const(0)}")
        bits = text.select(is_least, self._const(1 << (_STORED - 1)), bits, "i32", self._vector)
        nan = text.let(f"icmp eq {self._word} {pattern}, {self._const(0xFF)}")
        bits = text.select(nan, self._const(0x7FFF_FFFF), bits, "i32", self._vector)
        return self._number(bits)

    def _normal(self, rounded: str, layout: Layout) -> str:
        shifted = self._op("lshr", rounded, self._const(_STORED - layout.stored))
        return self._op("sub", shifted, self._const((_BIAS - layout.bias) << layout.stored))

    def _split(self, magnitude: str, layout: Layout, tiny: str, normal: str) -> str:
        threshold = self._const((_BIAS + 1 - layout.bias) << _STORED)
        small = self._text.let(f"icmp ult {self._word} {magnitude}, {threshold}")
        return self._text.select(small, tiny, normal, "i32", self._vector)

    def _limit(self, pattern: str, layout: Layout) -> str:
        largest = self._const(layout.largest)
        return self._text.intrinsic("umin", "i32", self._vector, pattern, largest)

    def _unless_nan(self, single: str, pattern: str, nan: int) -> str:
        is_nan = self._text.let(f"fcmp uno {self._single} {single}, {single}")
        return self._text.select(is_nan, self._const(nan), pattern, "i32", self._vector)

    def _float(self, exponent: int) -> str:
        """Return two to the power ``exponent``."""
        return self._text.const((exponent + _BIAS) << _STORED, "float", self._vector)

    def _const(self, value: int) -> str:
        return self._text.const(value, "i32", self._vector)

    def _and(self, value: str, mask: int) -> str:
        return self._op("and", value, self._const(mask))

    def _op(self, operation: str, a: str, b: str) -> str:
        return self._text.let(f"{operation} {self._word} {a}, {b}")

    def _fop(self, operation: str, a: str, b: str) -> str:
        return self._text.let(f"{operation} {self._single} {a}, {b}")

    def _bits(self, single: str) -> str:
        return self._text.let(f"bitcast {self._single} {single} to {self._word}")

    def _number(self, bits: str) -> str:
        return self._text.let(f"bitcast {self._word} {bits} to {self._single}")
