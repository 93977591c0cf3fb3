"""Numbers that thread indices leave no choice: the sign of ``threadIdx.y * 16 + threadIdx.x``.

A compiler writes ``t / 32`` and ``t % 32`` of an ``int`` by adding 31 to what is negative: by the
sign of t, spread over the word. Where t is made of thread indices the block's shape says that there
is none, and rounding is a shift again, of which it is known what it does to a group's lanes.
"""

from collections.abc import Callable, Mapping
from typing import Final

from vgpu_sim.exec.jit.ir.ssa import Operation, Source, SsaFunction, Value
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.isa import Literal, MulMode, Op, SpecialRegister

_END: Final = 1 << 31
_BITS: Final = 32
_INDICES: Final = (SpecialRegister.TID_X, SpecialRegister.TID_Y, SpecialRegister.TID_Z)
_SIZES: Final = (SpecialRegister.NTID_X, SpecialRegister.NTID_Y, SpecialRegister.NTID_Z)


_COMPUTED: Final[dict[Op, Callable[..., int]]] = {
    Op.MOV: lambda a: a,
    Op.ADD: lambda a, b: a + b,
    Op.MUL: lambda a, b: a * b,
    Op.MAD: lambda a, b, c: a * b + c,
    Op.SHL: lambda a, count: a << min(count, _BITS),
    Op.SHR: lambda a, count: a >> min(count, _BITS),
}


def single(ssa: SsaFunction, block: tuple[int, int, int]) -> Mapping[Value, int]:
    """Return results of 32 bits that are one number in all threads of blocks of this shape."""
    most: dict[Value, int] = {}  # of what is not negative
    found: dict[Value, int] = {}
    for ssa_block in ssa.blocks.values():
        for node in ssa_block.nodes:
            if not isinstance(node, Operation) or len(node.results) != 1:
                continue
            result, type_ = node.results[0], fold.result_type(node.instruction)
            if result is None or result.bits != _BITS or type_.bits != _BITS:
                continue
            if not type_.is_integer or node.instruction.saturate:
                continue
            end = _most(node, block, most)
            if end is not None and end < _END:
                most[result] = end
                if end == 0:
                    found[result] = 0
    return found


def _most(node: Operation, block: tuple[int, int, int], most: Mapping[Value, int]) -> int | None:
    """Return the greatest number that an operation gives whose operands are not negative."""
    instruction = node.instruction
    if instruction.op is Op.S2R:
        for registers, less in ((_INDICES, 1), (_SIZES, 0)):
            if instruction.sreg in registers:
                return block[registers.index(instruction.sreg)] - less
        return None
    if instruction.type.bits != _BITS:
        return None
    numbers = [_of(source, most) for source in node.sources]
    if instruction.op is Op.AND:
        known = [number for number in numbers if number is not None]
        return min(known) if known else None
    operands = [number for number in numbers if number is not None]
    if len(operands) < len(numbers):
        return None
    compute = _COMPUTED.get(instruction.op)
    if instruction.op in (Op.MUL, Op.MAD) and instruction.mode is not MulMode.LO:
        return None
    if instruction.op in (Op.SHL, Op.SHR) and not isinstance(node.sources[1], Literal):
        return None
    return None if compute is None else compute(*operands)


def _of(source: Source, most: Mapping[Value, int]) -> int | None:
    if isinstance(source, Literal):
        number = source.bits % (1 << _BITS)
        return number if number < _END else None
    return most.get(source) if isinstance(source, Value) else None
