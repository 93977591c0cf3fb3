"""One instruction in memory: the value that assembler, compiler and executors exchange."""

from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.types import (
    BoolOp,
    Cache,
    Compare,
    DataType,
    MatchMode,
    MatrixShape,
    MulMode,
    Order,
    Permute,
    Reduction,
    Rounding,
    Scope,
    ShuffleMode,
    Space,
    SpecialRegister,
    TrapCause,
    Update,
    VoteMode,
)
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Register:
    """A mutable register of the function's register file; its width is
    ``Function.register_bits``.
    """

    index: int


@dataclass(frozen=True, slots=True)
class Predicate:
    """A one-bit register of the function's predicate file."""

    index: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant, given as the low bits of a 64-bit pattern.

    Floats are given by their bits, and negative numbers modulo 2^64. In the binary, the constant
    is stored in the function's read-only literal pool, which analyses can read.
    """

    bits: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a module variable plus ``addend`` bytes, known when the module is loaded."""

    name: str
    addend: int = 0


Operand = Register | Predicate | Literal | Symbol
Destination = Register | Predicate | None


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard ``@p`` or ``@!p`` of an instruction. Lanes for which the guard is false skip the
    instruction.
    """

    predicate: Predicate
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """A decoded 128-bit word. Fields that an opcode does not use keep their defaults.

    ``target`` is the index of an instruction in the same function. ``displacement`` is in bytes,
    signed, 32 bits. ``vector`` is 1, 2 or 4; vector operands are listed one by one. If the
    destination is wider than the result, the result is zero- or sign-extended, depending on the
    result's type (PTX ISA, "Operand Size Exceeding Instruction-Type Size").
    """

    op: Op
    type: DataType = DataType.B32
    dsts: tuple[Destination, ...] = ()
    srcs: tuple[Operand, ...] = ()
    guard: Guard | None = None
    source_type: DataType | None = None
    mode: MulMode = MulMode.NONE
    rounding: Rounding = Rounding.NONE
    ftz: bool = False
    saturate: bool = False
    relu: bool = False
    finite: bool = False
    nan: bool = False
    xorsign: bool = False
    compare: Compare | None = None
    combine: BoolOp = BoolOp.NONE
    sreg: SpecialRegister | None = None
    space: Space = Space.GENERIC
    vector: int = 1
    displacement: int = 0
    volatile: bool = False
    read_only: bool = False
    cache: Cache = Cache.CA
    target: int | None = None
    cause: TrapCause = TrapCause.NONE
    uniform: bool = False
    wrap: bool = False
    shift_amount: bool = False
    permute: Permute = Permute.NONE
    shuffle: ShuffleMode | None = None
    vote: VoteMode | None = None
    match: MatchMode | None = None
    reduction: Reduction | None = None
    absolute: bool = False
    matrix: MatrixShape | None = None
    transposed: bool = False
    update: Update | None = None
    order: Order = Order.SC
    scope: Scope = Scope.SYS
