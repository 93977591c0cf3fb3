"""binary64 and binary32 arithmetic as LLVM operations, for ``approximations``."""

import struct

from vgpu_sim.exec.jit.text.writer import Text


class TextDoubles:
    """The operations of ``approximations.Doubles`` as LLVM text; a number is the name of an LLVM
    value.

    No operation has a flag that would allow LLVM to fuse or reorder it.
    """

    SCALAR, WORD, PATTERN = "double", "i64", ("<Q", "<d")

    def __init__(self, text: Text, vector: bool) -> None:
        self._text = text
        self._vector = vector
        self._number = text.type_of(self.SCALAR, vector)
        self._word = text.type_of(self.WORD, vector)

    def constant(self, value: float) -> str:
        word, number = self.PATTERN
        (pattern,) = struct.unpack(word, struct.pack(number, value))
        return self._text.const(pattern, self.SCALAR, self._vector)

    def add(self, a: str, b: str) -> str:
        return self._text.let(f"fadd {self._number} {a}, {b}")

    def subtract(self, a: str, b: str) -> str:
        return self._text.let(f"fsub {self._number} {a}, {b}")

    def multiply(self, a: str, b: str) -> str:
        return self._text.let(f"fmul {self._number} {a}, {b}")

    def divide(self, a: str, b: str) -> str:
        return self._text.let(f"fdiv {self._number} {a}, {b}")

    def round_to_integral(self, a: str) -> str:
        return self._text.intrinsic("roundeven", self.SCALAR, self._vector, a)

    def copy_sign(self, magnitude: str, sign: str) -> str:
        return self._text.intrinsic("copysign", self.SCALAR, self._vector, magnitude, sign)

    def less(self, a: str, b: str) -> str:
        return self._text.let(f"fcmp olt {self._number} {a}, {b}")

    def is_nan(self, a: str) -> str:
        return self._text.let(f"fcmp uno {self._number} {a}, {a}")

    def select(self, flag: str, yes: str, no: str) -> str:
        return self._text.select(flag, yes, no, self.SCALAR, self._vector)

    def pattern(self, a: str) -> str:
        return self._text.let(f"bitcast {self._number} {a} to {self._word}")

    def from_pattern(self, bits: str) -> str:
        return self._text.let(f"bitcast {self._word} {bits} to {self._number}")

    def convert_signed(self, bits: str) -> str:
        return self._text.let(f"sitofp {self._word} {bits} to {self._number}")

    def sum(self, a: str, b: str) -> str:
        return self._text.let(f"add {self._word} {a}, {b}")

    def offset(self, a: str, b: int) -> str:
        return self.sum(a, self._integer(b))

    def mask(self, a: str, b: int) -> str:
        return self._text.let(f"and {self._word} {a}, {self._integer(b)}")

    def shift_left(self, a: str, count: int) -> str:
        return self._text.let(f"shl {self._word} {a}, {self._integer(count)}")

    def shift_right(self, a: str, count: int) -> str:
        return self._text.let(f"ashr {self._word} {a}, {self._integer(count)}")

    def bit(self, a: str, place: int) -> str:
        masked_bit = self.mask(a, 1 << place)
        return self._text.let(f"icmp ne {self._word} {masked_bit}, {self._integer(0)}")

    def _integer(self, value: int) -> str:
        return self._text.const(value, self.WORD, self._vector)


class TextSingles(TextDoubles):
    """The operations of ``approximations.Singles`` as LLVM text."""

    SCALAR, WORD, PATTERN = "float", "i32", ("<I", "<f")

    def fuse(self, a: str, b: str, c: str) -> str:
        return self._text.intrinsic("fma", self.SCALAR, self._vector, a, b, c)

    def difference(self, a: str, b: str) -> str:
        return self._text.let(f"sub {self._word} {a}, {b}")
