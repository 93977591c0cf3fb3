"""Estimates from a kernel's code which pipes of a multiprocessor it keeps busy.

The estimate is used for metrics. It is made when a module is compiled; nothing is counted while
the kernel runs. Code in a loop counts eight times, however often the loop runs. A matrix product
is assumed to occupy the tensor pipe for eight cycles, and any other instruction its pipe for one
cycle.
"""

from typing import Final

from vgpu_sim.isa import EFFECTS, DataType, Function, Instruction, Space
from vgpu_sim.isa.families import float as floats, matrix
from vgpu_sim.isa.opcodes import Op

PIPES: Final = ("tensor", "fp64", "fp32", "fp16", "memory")  # as in ``tessera_worker_pipe``
ALL: Final = 1 << 16  # TESSERA_WORKER_ALL
_LOOP, _DEEPEST = 8, 4
_PRODUCT_CYCLES = 8
_FLOATS: Final = frozenset(row.op for row in floats.ROWS)
_PRODUCTS: Final = frozenset(row.op for row in matrix.ROWS if not row.effects.accesses)
_OF_TYPE: Final = {
    DataType.F64: "fp64",
    DataType.F32: "fp32",
    DataType.F16: "fp16",
    DataType.BF16: "fp16",
}


def shares(function: Function) -> tuple[int, ...]:
    """Return, for each pipe, the share of the issue cycles in which an instruction begins on that
    pipe, in units of 1/ALL.
    """
    cycles = dict.fromkeys(PIPES, 0)
    total = 0
    for instruction, depth in zip(function.code, _depths(function), strict=True):
        weight = _LOOP ** min(depth, _DEEPEST)
        if instruction.op in _PRODUCTS:
            weight *= _PRODUCT_CYCLES
        total += weight
        pipe = _pipe(instruction)
        if pipe is not None:
            cycles[pipe] += weight
    return tuple(cycles[pipe] * ALL // max(total, 1) for pipe in PIPES)


def _pipe(instruction: Instruction) -> str | None:
    if instruction.op in _PRODUCTS:
        return "tensor"
    if instruction.op in _FLOATS:
        return _OF_TYPE.get(instruction.type.element)
    if EFFECTS[instruction.op].accesses and instruction.space in (Space.GLOBAL, Space.GENERIC):
        return "memory"
    return None


def _depths(function: Function) -> list[int]:
    """Return each instruction's loop depth; a loop is a backward branch over the instruction."""
    steps = [0] * (len(function.code) + 1)
    for index, instruction in enumerate(function.code):
        target = instruction.target if instruction.op is Op.BRA else None
        if target is not None and target <= index:
            steps[target] += 1
            steps[index + 1] -= 1
    depth, depths = 0, []
    for step in steps[:-1]:
        depth += step
        depths.append(depth)
    return depths
