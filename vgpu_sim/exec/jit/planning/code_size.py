"""Estimates of code size in ordinary instructions, and the limits of code size."""

from typing import Final

from vgpu_sim.exec.jit.ir.ssa import Merge, Operation, SsaFunction
from vgpu_sim.exec.jit.progress import wait_points
from vgpu_sim.isa import DataType, Family, Instruction, Op

# 2 s of compile time at code generation level 1 correspond to about 20,000 LLVM instructions, and a
# node of one vector to about three of them before the passes.
MAX_NODE_VECTORS = 8_000
# Lane by lane, a collective is a call and a context switch per lane, hundreds of times as slow: a
# group of one warp may have more. Matrix products are long, but simple: 64 of m16n8k16 take 2 s.
MAX_WARP_NODE_VECTORS = 32_000
# Without LLVM's passes: 53,000 of Triton's backward attention take 12 s, no more than its code for
# single lanes, and at level 1 they take 33 s.
MAX_PLAIN_WARP_NODE_VECTORS = 128_000
_LANE_LOOP_COST: Final = 12
_SERIES: Final = (Op.FLG2, Op.FSIN, Op.FCOS, Op.FTANH)  # two vectors of binary64
_SERIES_AMOUNT: Final = 40
_POWER_AMOUNT: Final = 20
_TINY: Final = tuple(type_ for type_ in DataType if type_ >= DataType.TF32)
_SMALL: Final = (DataType.F16, DataType.BF16)
_ROUNDED_AMOUNT: Final = 6
_ODD_AMOUNT: Final = 12  # rounded twice, then selected
_TINY_AMOUNT: Final = 24
_MATRIX_AMOUNT: Final = 8  # a call with its arguments and results


def instruction_size(instruction: Instruction) -> int:
    """Return how many ordinary instructions have the same code size as this instruction."""
    op, type_ = instruction.op, instruction.type.element
    if op.family in (Family.MATRIX, Family.TENSOR):
        return _MATRIX_AMOUNT
    numbers = 1 if type_ is instruction.type else 2
    if op in (Op.CVT, Op.CVT_RS) and (
        type_ in _TINY or instruction.source_type in _TINY or op is Op.CVT_RS
    ):
        return _TINY_AMOUNT
    if op in _SERIES:
        return _SERIES_AMOUNT * numbers
    if op is Op.FEX2:
        return _POWER_AMOUNT * numbers
    if type_ not in _SMALL or op in (Op.FNEG, Op.FABS):
        return numbers
    if op is Op.FMA or (op is Op.FMUL and type_ is DataType.BF16):
        return _ODD_AMOUNT * numbers
    return _ROUNDED_AMOUNT * numbers if op is Op.CVT or op.family.name == "FLOAT" else 1


def nodes_of(ssa: SsaFunction) -> int:
    """Return the code size of a kernel for one vector of lanes, counted in ordinary
    instructions.
    """
    return sum(_cost(node) for block in ssa.blocks.values() for node in block.nodes)


def is_too_large(ssa: SsaFunction, nodes: int) -> bool:
    """Return whether a kernel is so large that it is compiled only with narrow vectors and without
    LLVM's passes.

    ``nodes`` is the kernel's code size, as ``nodes_of`` returns it.
    """
    return nodes > (
        MAX_WARP_NODE_VECTORS if any(wait_points.collectives(ssa)) else MAX_NODE_VECTORS
    )


def _cost(node: Operation | Merge) -> int:
    """Return the code size of a node for a lane group, in ordinary nodes."""
    if not isinstance(node, Operation):
        return 1
    if node.instruction.op.family is Family.ATOMIC:
        return _LANE_LOOP_COST
    return instruction_size(node.instruction)
