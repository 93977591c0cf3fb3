"""Which pipes of a multiprocessor an ISA instruction uses, and for how many issues.

An instruction of Tessera's ISA corresponds to one or several instructions of the hardware: a
64-bit integer operation is a pair of 32-bit operations, and a division is a short program. The
lengths of such programs are taken from public disassemblies of ``ptxas``'s code and rounded.
Where a pipe was measured on an H100 (docs/silicon.md), the pipe follows the measurement: ``ptxas``
divides integer additions and shifts by constants between the ALU and the pipe for products.
"""

from collections.abc import Mapping
from enum import Enum, unique
from types import MappingProxyType
from typing import Final

from vgpu_sim.isa import EFFECTS, DataType, Family, Instruction, Literal, Op, Space
from vgpu_sim.isa.types import Rounding


@unique
class Pipe(Enum):
    """The pipes of a multiprocessor, by their names in counts and metrics."""

    ALU = "alu"  # integers, logic, comparisons, moves, selections
    FMA = "fma"  # binary32
    IMAD = "imad"  # integer products, which have half of the lanes of binary32
    FP16 = "fp16"
    FP64 = "fp64"
    XU = "xu"  # special functions
    CVT = "cvt"  # conversions
    TENSOR = "tensor"
    LSU = "lsu"  # accesses, shuffles
    CBU = "cbu"  # branches and barriers


Work = Mapping[Pipe, float]
_COLUMNS: Final = 8  # columns of a product's right matrix
_LANES: Final = 32
_HALVES: Final[Work] = MappingProxyType({Pipe.ALU: 0.5, Pipe.IMAD: 0.5})
_NOTHING: Final[Work] = MappingProxyType({})
_PRODUCTS: Final = frozenset({Op.MUL, Op.MAD, Op.DP4A, Op.DP2A})
_INTEGERS: Final = frozenset(
    kind for kind in DataType if kind.name[0] in "US" and kind.name[1:].isdigit()
)
_COUNTING: Final = frozenset({Op.POPC, Op.CLZ, Op.BFIND, Op.BREV})
_DIVIDED: Final = frozenset({Op.ADD, Op.SUB})
_SPECIAL: Final = frozenset({Op.FRCP, Op.FRSQRT, Op.FEX2, Op.FLG2, Op.FTANH})
_FAST: Final = frozenset({Rounding.APPROX, Rounding.FULL})
# Issues of programs for one instruction: 32-bit division and its parts; 64-bit division likewise.
_DIVISION: Final[Work] = {Pipe.ALU: 12, Pipe.FMA: 8, Pipe.XU: 1, Pipe.CVT: 2}
_LONG_DIVISION: Final[Work] = {Pipe.ALU: 50, Pipe.FMA: 30, Pipe.XU: 1, Pipe.CVT: 2}


def work_of(instruction: Instruction) -> Work:
    """Return how many issue slots of each pipe a warp needs for an instruction."""
    op, family = instruction.op, instruction.op.family
    if op in (Op.NOP, Op.MOV, Op.MMA_SCALE, Op.CLUSTER_WAIT):
        # ptxas assigns both ends of a copy to one register; scales are part of the product. An
        # arrival has the cost of a cluster's barrier, because a sampled warp waits several times.
        return _NOTHING
    if op in (Op.MMA, Op.TMMA):
        return {Pipe.TENSOR: 1}
    if EFFECTS[op].accesses or op is Op.LDMATRIX:
        # A parameter is an operand, from the constant bank, of the instruction that needs it.
        return _NOTHING if instruction.space is Space.PARAM else {Pipe.LSU: 1}
    if family is Family.CONTROL or family is Family.SYNC:
        return {Pipe.CBU: 1}
    if op is Op.REDUX:
        # Programming guide: 16 results per clock, half of a shuffle's. ptxas then moves the result,
        # which is in a uniform register.
        return {Pipe.LSU: 2, Pipe.ALU: 1}
    if family is Family.WARP:
        return {Pipe.LSU: 1} if op in (Op.SHFL, Op.MATCH) else {Pipe.ALU: 1}
    if family is Family.FLOAT:
        return _float(instruction)
    if family is Family.CONVERT:
        return {Pipe.XU if _is_slow(instruction) else Pipe.CVT: 1}
    if family is Family.INTEGER:
        return _integer(instruction)
    if family is Family.COMPARE and instruction.type is DataType.F64:
        return {Pipe.FP64: 1}
    if op in _COUNTING:
        return {Pipe.XU: 1}
    wide = instruction.type.bits == 64 and instruction.type is not DataType.F64
    return {Pipe.ALU: 2 if wide else 1}


def _integer(instruction: Instruction) -> Work:
    op, wide = instruction.op, instruction.type.bits == 64
    if op in (Op.DIV, Op.REM):
        return _LONG_DIVISION if wide else _DIVISION
    if op in _PRODUCTS:
        return {Pipe.IMAD: 4 if wide else 1}
    if op in _DIVIDED:
        return {Pipe.ALU: 1, Pipe.IMAD: 1} if wide else _HALVES
    if op is Op.SHL and isinstance(instruction.srcs[1], Literal) and not wide:
        return _HALVES
    return {Pipe.ALU: 2 if wide else 1}


def _is_slow(instruction: Instruction) -> bool:
    """True for conversions that the pipe of special functions performs: from floating point to
    integers, and those of binary64.
    """
    source = instruction.source_type or instruction.type
    floats = (DataType.F16, DataType.BF16, DataType.F32)
    return DataType.F64 in (source, instruction.type) or (
        source in floats and instruction.type.element in _INTEGERS
    )


def _float(instruction: Instruction) -> Work:
    op, element = instruction.op, instruction.type.element
    if element is DataType.F64:
        return {Pipe.FP64: {Op.FDIV: 12, Op.FRCP: 8, Op.FSQRT: 12}.get(op, 1)}
    if op in (Op.FDIV, Op.FSQRT):
        return {Pipe.XU: 1, Pipe.FMA: 2 if instruction.rounding in _FAST else 8}
    if op in _SPECIAL or op in (Op.FSIN, Op.FCOS):
        rounded = op is Op.FRCP and instruction.rounding not in _FAST
        return {Pipe.XU: 1, Pipe.FMA: 4 if rounded else 1}
    if op in (Op.FMIN, Op.FMAX, Op.FNEG, Op.FABS):
        return {Pipe.ALU: 1}
    if element in (DataType.F16, DataType.BF16):
        return {Pipe.FP16: 1}
    return {Pipe.FMA: 2 if instruction.type is DataType.F32X2 else 1}


def tensor_type(instruction: Instruction) -> str:
    """Return the operand type of a matrix product, named as in a board's tensor rates. Return an
    empty string for any other instruction.

    Floats of 8 and fewer bits have the rate of bytes.
    """
    if instruction.op is not Op.MMA:
        return ""
    return {DataType.F16: "fp16", DataType.BF16: "bf16", DataType.TF32: "tf32"}.get(
        instruction.source_type or instruction.type, "int8"
    )


def flop_of(instruction: Instruction) -> int:
    """Return the number of floating-point operations that an instruction performs per lane; for a
    matrix product, the lane's share.
    """
    if instruction.op is Op.MMA and instruction.matrix is not None:
        return 2 * instruction.matrix.rows * _COLUMNS * instruction.matrix.depth // _LANES
    if instruction.op not in (Op.FADD, Op.FSUB, Op.FMUL, Op.FMA):
        return 0
    elements = 1 if instruction.type.element is instruction.type else 2
    return elements * (2 if instruction.op is Op.FMA else 1)
