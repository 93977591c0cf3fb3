"""Scalar types, address spaces and modifiers of the instruction set.

The assembler, the compiler and every executor share these. Values are part of the binary
encoding: append, never renumber.
"""

from enum import IntEnum


class DataType(IntEnum):
    """The type of an instruction's operands; registers themselves are untyped."""

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
    F16X2 = 17
    BF16X2 = 18
    F32X2 = 19
    TF32 = 20  # binary32 with 10 bits of fraction, in 32 bits whose lower 13 are zero
    E4M3 = 21  # formats of 8 bits and fewer: numbers of exponent and fraction bits
    E5M2 = 22
    E2M3 = 23
    E3M2 = 24
    E2M1 = 25
    UE8M0 = 26  # a power of two, without a sign

    @property
    def element(self) -> "DataType":
        """The element type of a packed type; for any other type, the type itself.

        A packed type holds two elements, the first in the low half.
        """
        return _ELEMENTS.get(self, self)

    @property
    def bits(self) -> int:
        """The width of a value in bits; 1 for a predicate."""
        return _BITS[self]

    @property
    def bytes(self) -> int:
        """The width of a value in memory, in bytes.

        Raises:
            ValueError: the type is a predicate, which has no memory form.
        """
        if self is DataType.PRED:
            raise ValueError("a predicate cannot be stored in memory")
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self >= DataType.F16

    @property
    def is_signed(self) -> bool:
        """True for a signed *integer* type."""
        return DataType.S8 <= self <= DataType.S64

    @property
    def is_unsigned(self) -> bool:
        return DataType.U8 <= self <= DataType.U64

    @property
    def is_untyped(self) -> bool:
        return DataType.B8 <= self <= DataType.B64

    @property
    def is_integer(self) -> bool:
        """True if integer arithmetic accepts the type (untyped bits count as unsigned)."""
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
    DataType.F16X2: 32,
    DataType.BF16X2: 32,
    DataType.F32X2: 64,
    DataType.TF32: 32,
    DataType.E4M3: 8,
    DataType.E5M2: 8,
    DataType.E2M3: 8,
    DataType.E3M2: 8,
    DataType.E2M1: 8,
    DataType.UE8M0: 8,
}

_ELEMENTS = {
    DataType.F16X2: DataType.F16,
    DataType.BF16X2: DataType.BF16,
    DataType.F32X2: DataType.F32,
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
    """How SETP combines its comparison with a predicate operand."""

    NONE = 0
    AND = 1
    OR = 2
    XOR = 3


class Rounding(IntEnum):
    """RN, RZ, RM, RP, RNA (ties away from zero) round a float result; the ...I forms round a float
    to an integral value.
    """

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
    RNA = 11


class MulMode(IntEnum):
    """The part of an integer product that an instruction returns.

    It is the low half, the high half, or the whole, which is twice as wide.
    """

    NONE = 0
    LO = 1
    HI = 2
    WIDE = 3


class Permute(IntEnum):
    """The rule by which PRMT selects bytes. With NONE, the third operand selects each byte of the
    result separately.
    """

    NONE = 0
    F4E = 1
    B4E = 2
    RC8 = 3
    ECL = 4
    ECR = 5
    RC16 = 6


class ShuffleMode(IntEnum):
    """How SHFL computes the index of the source lane.

    UP subtracts the operand from the lane's own index, DOWN adds the two, and BFLY combines the
    two with exclusive or. With IDX, the operand itself is the index.
    """

    UP = 0
    DOWN = 1
    BFLY = 2
    IDX = 3


class MatrixShape(IntEnum):
    """The sizes of a product of matrices: rows of A, columns of B, and depth."""

    M8N8K16 = 0
    M16N8K4 = 1
    M16N8K8 = 2
    M16N8K16 = 3
    M16N8K32 = 4

    @property
    def rows(self) -> int:
        return 8 if self is MatrixShape.M8N8K16 else 16

    @property
    def depth(self) -> int:
        return int(self.name.partition("K")[2])


class VoteMode(IntEnum):
    """The result that VOTE computes over the participating lanes."""

    ALL = 0
    ANY = 1
    UNI = 2
    BALLOT = 3


class MatchMode(IntEnum):
    """The result of MATCH: the lanes whose value equals the lane's own value (ANY), or whether the
    values of all lanes are equal (ALL).
    """

    ANY = 0
    ALL = 1


class Reduction(IntEnum):
    """The operation that reduces the lanes' values to one. POPC counts the values that are true."""

    ADD = 0
    MIN = 1
    MAX = 2
    AND = 3
    OR = 4
    XOR = 5
    POPC = 6


class Update(IntEnum):
    """The operation by which ATOM and RED update the value in memory (PTX ISA, "atom")."""

    AND = 0
    OR = 1
    XOR = 2
    EXCH = 3
    ADD = 4
    INC = 5
    DEC = 6
    MIN = 7
    MAX = 8
    CAS = 9
    ARRIVE = 10
    DROP = 11
    TX = 12


class Cache(IntEnum):
    """The caches that a load may fill (PTX ISA, "Cache Operators"). The choice affects no result.

    CA: all levels; CG: not the first level; CS and LU: all, to be evicted first; CV: none.
    """

    CA = 0
    CG = 1
    CS = 2
    LU = 3
    CV = 4


class Order(IntEnum):
    """The kinds of ordering that FENCE provides (PTX ISA, "Memory Consistency Model")."""

    ACQ_REL = 0
    SC = 1


class Scope(IntEnum):
    """The threads for which an ordering holds (PTX ISA, "Scope")."""

    CTA = 0
    CLUSTER = 1
    GPU = 2
    SYS = 3


class TrapCause(IntEnum):
    """The cause of a TRAP that the compiler inserted."""

    NONE = 0  # the source contains the trap
    STACK = 1  # calls need more local memory than exists
    FUNCTION = 2  # a call of an invalid function pointer
    TARGET = 3  # an indirect branch beyond its list of targets
    ASSERTION = 4  # an assertion of the program failed
    TENSOR_MEMORY = 5  # tensor memory is not allocated there, or not of the warp's lanes
    TENSOR_OPERAND = 6  # a descriptor or an operand of tcgen05 is illegal
    TENSOR_COPY = 7  # a tensor map, a coordinate or an address of a tensor copy is illegal
    TENSOR_SATURATION = 8  # a product of integers in tensor memory is to saturate


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
    DYNAMIC_SHARED = 15  # bytes of dynamic shared memory of the launch
    NSMID = 16  # multiprocessors of the device
    GRIDID = 17  # 64 bits: number of launches of this context so far
    CLOCK64 = 18  # 64 bits: a counter that increases at an unspecified rate
    GLOBALTIMER = 19  # 64 bits: nanoseconds since some moment before the context began
    CLUSTER_NCTAID_X = 20  # blocks of a cluster
    CLUSTER_NCTAID_Y = 21
    CLUSTER_NCTAID_Z = 22
    CLUSTER_EXPLICIT = 23  # 1 if the launch or the kernel states the cluster's size, else 0

    @property
    def bits(self) -> int:
        """The width of the register's value in bits."""
        wide = SpecialRegister.GRIDID <= self <= SpecialRegister.GLOBALTIMER
        return 64 if wide else 32

    @property
    def is_clock(self) -> bool:
        """True if the register is a clock: its value changes while a kernel runs, and never
        decreases.
        """
        return self in (SpecialRegister.CLOCK64, SpecialRegister.GLOBALTIMER)
