"""Scalar types, address spaces and modifiers of the instruction set.

These are the vocabulary shared by the assembler, the compiler and every executor. Values are part
of the binary encoding: append, never renumber.
"""

from enum import IntEnum


class DataType(IntEnum):
    """What an instruction takes its operands for; registers themselves are untyped."""

    PRED = 0
    B8 = 1
    B16 = 2
    B32 = 3
    B64 = 4
    U8 = 5
    U16 = 6
    U32 = 7
    U64 = 8
    S8 = 9
    S16 = 10
    S32 = 11
    S64 = 12
    F16 = 13
    BF16 = 14
    F32 = 15
    F64 = 16

    @property
    def bits(self) -> int:
        """Width in bits (1 for a predicate)."""
        return _BITS[self]

    @property
    def bytes(self) -> int:
        """Width in memory in bytes.

        Raises:
            ValueError: for a predicate, which has no memory form.
        """
        if self is DataType.PRED:
            raise ValueError("a predicate has no memory form")
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self >= DataType.F16

    @property
    def is_signed(self) -> bool:
        """Return whether it is a signed *integer* type."""
        return DataType.S8 <= self <= DataType.S64

    @property
    def is_unsigned(self) -> bool:
        return DataType.U8 <= self <= DataType.U64

    @property
    def is_untyped(self) -> bool:
        return DataType.B8 <= self <= DataType.B64

    @property
    def is_integer(self) -> bool:
        """Return whether integer arithmetic may take it (untyped bits count as unsigned)."""
        return DataType.B8 <= self <= DataType.S64


_BITS = {
    DataType.PRED: 1,
    DataType.B8: 8,
    DataType.B16: 16,
    DataType.B32: 32,
    DataType.B64: 64,
    DataType.U8: 8,
    DataType.U16: 16,
    DataType.U32: 32,
    DataType.U64: 64,
    DataType.S8: 8,
    DataType.S16: 16,
    DataType.S32: 32,
    DataType.S64: 64,
    DataType.F16: 16,
    DataType.BF16: 16,
    DataType.F32: 32,
    DataType.F64: 64,
}


class Space(IntEnum):
    """Address spaces (PTX ISA, "State Spaces"); PARAM is the kernel's parameter block."""

    GENERIC = 0
    GLOBAL = 1
    SHARED = 2
    LOCAL = 3
    CONST = 4
    PARAM = 5


class Compare(IntEnum):
    """Comparisons of SETP; the ...U forms are true when an operand is NaN."""

    EQ = 0
    NE = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5
    EQU = 6
    NEU = 7
    LTU = 8
    LEU = 9
    GTU = 10
    GEU = 11
    NUM = 12
    NAN = 13


class BoolOp(IntEnum):
    """How SETP combines its comparison with a third, predicate operand."""

    NONE = 0
    AND = 1
    OR = 2
    XOR = 3


class Rounding(IntEnum):
    """RN, RZ, RM, RP round a float result; the ...I forms round a float to an integral value."""

    NONE = 0
    RN = 1
    RZ = 2
    RM = 3
    RP = 4
    RNI = 5
    RZI = 6
    RMI = 7
    RPI = 8
    APPROX = 9
    FULL = 10


class MulMode(IntEnum):
    """Which part of an integer product: low half, high half, or all of it (twice as wide)."""

    NONE = 0
    LO = 1
    HI = 2
    WIDE = 3


class SpecialRegister(IntEnum):
    """Read-only values of a thread, read by S2R (PTX ISA, "Special Registers")."""

    TID_X = 0
    TID_Y = 1
    TID_Z = 2
    NTID_X = 3
    NTID_Y = 4
    NTID_Z = 5
    CTAID_X = 6
    CTAID_Y = 7
    CTAID_Z = 8
    NCTAID_X = 9
    NCTAID_Y = 10
    NCTAID_Z = 11
    LANEID = 12
    WARPSIZE = 13
    SHARED_WINDOW = 14  # bits 32 to 63 of generic addresses of the block's shared memory
