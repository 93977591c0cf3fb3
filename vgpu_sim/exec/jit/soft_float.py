"""Float formats and roundings that the host lacks, as LLVM operations.

binary16, bfloat16 and the directed roundings are computed in binary64 rounded to odd and rounded
once more by integer operations: rounding to odd keeps a sticky bit, so the second rounding sees
what the first dropped (S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums").
"""

from dataclasses import dataclass

from vgpu_sim.exec.jit.support import DIRECTED
from vgpu_sim.exec.jit.text import Text
from vgpu_sim.isa import DataType, Family, Instruction, Op, Rounding

_MANTISSA = (1 << 52) - 1


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE 754 binary format; ``precision`` counts the hidden bit."""

    bits: int
    precision: int
    canonical_nan: int

    @property
    def maximum_exponent(self) -> int:
        return (1 << (self.bits - self.precision - 1)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << (self.bits - self.precision)) - 1) << (self.precision - 1)


FORMATS = {
    DataType.F16: Format(16, 11, 0x7FFF),
    DataType.BF16: Format(16, 8, 0x7FFF),
    DataType.F32: Format(32, 24, 0x7FFF_FFFF),
}


def is_soft(instruction: Instruction) -> bool:
    """Return whether the instruction's result is rounded by integer operations."""
    op, type_ = instruction.op, instruction.type
    if op is not Op.CVT and (op.family is not Family.FLOAT or op in (Op.FNEG, Op.FABS)):
        return False
    if type_ is DataType.F32:
        return instruction.rounding in DIRECTED and op not in (Op.FMIN, Op.FMAX)
    return type_ in FORMATS


class SoftFloat:
    """Writes to ``text``, scalars or vectors of its width."""

    def __init__(self, text: Text, vector: bool) -> None:
        self._text = text
        self._vector = vector
        self._double = text.type_of("double", vector)
        self._word = text.type_of("i64", vector)

    def widen(self, value: str, type_: DataType) -> str:
        """Return a pattern as double: an integer of the format's width, floats as such."""
        text = self._text
        if type_ is DataType.F64:
            return value
        single = text.type_of("float", self._vector)
        if type_ is DataType.F16:
            half = text.type_of("half", self._vector)
            number = text.let(f"bitcast {text.type_of('i16', self._vector)} {value} to {half}")
            value = text.let(f"fpext {half} {number} to {single}")
        elif type_ is DataType.BF16:
            short, whole = (text.type_of(t, self._vector) for t in ("i16", "i32"))
            bits = text.let(f"zext {short} {value} to {whole}")
            bits = text.let(f"shl {whole} {bits}, {text.const(16, 'i32', self._vector)}")
            value = text.let(f"bitcast {whole} {bits} to {single}")
        return text.let(f"fpext {single} {value} to {self._double}")

    def to_odd(self, rounded: str, error: str) -> str:
        """Return a nearest-rounded double moved to odd; ``error`` has the dropped part's sign."""
        text = self._text
        bits, sign = self._bits(rounded), self._bits(error)
        zero = text.const(0, "double", self._vector)
        dropped = self._flag(f"fcmp one {self._double} {error}, {zero}")
        even = self._flag(f"icmp eq {self._word} {self._and(bits, 1)}, {self._const(0)}")
        magnitude = self._and(bits, (1 << 63) - 1)
        finite = self._flag(f"icmp ult {self._word} {magnitude}, {self._const(0x7FF << 52)}")
        differs = text.let(f"xor {self._word} {bits}, {sign}")
        inward = self._flag(f"icmp slt {self._word} {differs}, {self._const(0)}")
        step = self._choose(inward, self._const(-1), self._const(1))
        moved = text.let(f"add {self._word} {bits}, {step}")
        move = self._both(self._both(dropped, even), finite)
        return self._number(self._choose(move, moved, bits))

    def sum_to_odd(self, a: str, b: str) -> str:
        """a + b rounded to odd, the error by D. Knuth's TwoSum."""
        total = self._arith("fadd", a, b)
        virtual = self._arith("fsub", total, a)
        rest = self._arith("fsub", a, self._arith("fsub", total, virtual))
        error = self._arith("fadd", rest, self._arith("fsub", b, virtual))
        # An infinite sum has a NaN for an error, which compares as "nothing dropped".
        return self.to_odd(total, error)

    def quotient_to_odd(self, a: str, b: str) -> str:
        """a / b rounded to odd; both have at most 24 significant bits."""
        text = self._text
        quotient = self._arith("fdiv", a, b)
        negated = text.let(f"fneg {self._double} {quotient}")
        rest = text.intrinsic("fma", "double", self._vector, negated, b, a)
        one = text.const(0x3FF << 52, "double", self._vector)
        sign = text.intrinsic("copysign", "double", self._vector, one, b)
        return self.to_odd(quotient, self._arith("fmul", rest, sign))

    def root_to_odd(self, a: str) -> str:
        """Return the square root of a, rounded to odd; it has at most 24 significant bits."""
        text = self._text
        root = text.intrinsic("sqrt", "double", self._vector, a)
        negated = text.let(f"fneg {self._double} {root}")
        return self.to_odd(root, text.intrinsic("fma", "double", self._vector, negated, root, a))

    def magnitude_to_odd(self, magnitude: str) -> str:
        """Return an unsigned 64-bit integer as a double rounded to odd: low bits are one sticky."""
        text = self._text
        low = self._and(magnitude, 0x7FF)
        inexact = self._flag(f"icmp ne {self._word} {low}, {self._const(0)}")
        large = self._flag(f"icmp ugt {self._word} {magnitude}, {self._const((1 << 53) - 1)}")
        cleared = self._and(magnitude, -0x800)
        sticky = self._choose(inexact, self._const(0x800), self._const(0))
        odd = text.let(f"or {self._word} {cleared}, {sticky}")
        exact = self._choose(large, odd, magnitude)
        return text.let(f"uitofp {self._word} {exact} to {self._double}")

    def narrow(self, value: str, type_: DataType, rounding: Rounding) -> str:
        """Round a double to the pattern of a narrower format; NaNs become canonical."""
        text, format_ = self._text, FORMATS[type_]
        bits = self._bits(value)
        negative = self._flag(f"icmp slt {self._word} {bits}, {self._const(0)}")
        magnitude = self._and(bits, (1 << 63) - 1)
        field = self._shift("lshr", magnitude, self._const(52))
        normal = self._flag(f"icmp ne {self._word} {field}, {self._const(0)}")
        hidden = self._choose(normal, self._const(1 << 52), self._const(0))
        significand = text.let(f"or {self._word} {self._and(bits, _MANTISSA)}, {hidden}")
        least = 1024 - format_.maximum_exponent  # biased exponent of the least normal number
        exponent = text.intrinsic("umax", "i64", self._vector, field, self._const(1))
        quantum = text.intrinsic("umax", "i64", self._vector, exponent, self._const(least))
        distance = text.let(f"sub {self._word} {quantum}, {exponent}")
        distance = text.let(f"add {self._word} {distance}, {self._const(53 - format_.precision)}")
        shift = text.intrinsic("umin", "i64", self._vector, distance, self._const(62))
        kept = self._shift("lshr", significand, shift)
        restored = self._shift("shl", kept, shift)
        rest = text.let(f"sub {self._word} {significand}, {restored}")
        up = self._rounds_up(kept, rest, shift, negative, rounding)
        biased = text.let(f"sub {self._word} {quantum}, {self._const(least)}")
        biased = self._shift("shl", biased, self._const(format_.precision - 1))
        result = text.let(f"add {self._word} {biased}, {kept}")
        result = text.let(f"add {self._word} {result}, {up}")
        result = self._specials(result, magnitude, negative, format_, rounding)
        narrow = text.type_of(f"i{format_.bits}", self._vector)
        return text.let(f"trunc {self._word} {result} to {narrow}")

    def _specials(
        self, result: str, magnitude: str, negative: str, format_: Format, rounding: Rounding
    ) -> str:
        text = self._text
        infinity, largest = self._const(format_.infinity), self._const(format_.infinity - 1)
        limit = infinity
        if rounding is Rounding.RZ:
            limit = largest
        elif rounding is Rounding.RM:
            limit = self._choose(negative, infinity, largest)
        elif rounding is Rounding.RP:
            limit = self._choose(negative, largest, infinity)
        over = self._flag(f"icmp uge {self._word} {result}, {infinity}")
        result = self._choose(over, limit, result)
        everything = self._const(0x7FF << 52)
        infinite = self._flag(f"icmp eq {self._word} {magnitude}, {everything}")
        result = self._choose(infinite, infinity, result)
        sign = self._choose(negative, self._const(1 << (format_.bits - 1)), self._const(0))
        result = text.let(f"or {self._word} {result}, {sign}")
        nan = self._flag(f"icmp ugt {self._word} {magnitude}, {everything}")
        return self._choose(nan, self._const(format_.canonical_nan), result)

    def _rounds_up(
        self, kept: str, rest: str, shift: str, negative: str, rounding: Rounding
    ) -> str:
        text, zero, one = self._text, self._const(0), self._const(1)
        if rounding is Rounding.RZ:
            return zero
        if rounding in (Rounding.RM, Rounding.RP):
            some = self._flag(f"icmp ne {self._word} {rest}, {zero}")
            step = self._choose(some, one, zero)
            away = (step, zero) if rounding is Rounding.RM else (zero, step)
            return self._choose(negative, *away)
        half = self._shift("shl", one, text.let(f"sub {self._word} {shift}, {one}"))
        above = self._flag(f"icmp ugt {self._word} {rest}, {half}")
        tie = self._flag(f"icmp eq {self._word} {rest}, {half}")
        odd = self._choose(tie, self._and(kept, 1), zero)
        return self._choose(above, one, odd)

    def _bits(self, value: str) -> str:
        return self._text.let(f"bitcast {self._double} {value} to {self._word}")

    def _number(self, bits: str) -> str:
        return self._text.let(f"bitcast {self._word} {bits} to {self._double}")

    def _arith(self, operation: str, a: str, b: str) -> str:
        return self._text.let(f"{operation} {self._double} {a}, {b}")

    def _shift(self, operation: str, value: str, count: str) -> str:
        return self._text.let(f"{operation} {self._word} {value}, {count}")

    def _const(self, value: int) -> str:
        return self._text.const(value, "i64", self._vector)

    def _and(self, value: str, mask: int) -> str:
        return self._text.let(f"and {self._word} {value}, {self._const(mask)}")

    def _flag(self, comparison: str) -> str:
        return self._text.let(comparison)

    def _both(self, a: str, b: str) -> str:
        return self._text.let(f"and {self._text.type_of('i1', self._vector)} {a}, {b}")

    def _choose(self, flag: str, yes: str, no: str) -> str:
        return self._text.select(flag, yes, no, "i64", self._vector)
