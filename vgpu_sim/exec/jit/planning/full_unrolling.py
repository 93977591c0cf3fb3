"""Full unrolling of loops with a small trip count that the block shape bounds.

Threads that fill a tile together (``for (i = thread; i < 340; i += 256)``) iterate once or
twice, depending on their index. After unrolling, that index is known in each iteration, and with
it the active lanes, quotients by the tile's width, and which addresses are contiguous.
"""

from dataclasses import replace
from typing import Final

from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.ir.ssa import Operation, Phi, Source, SsaFunction, Value
from vgpu_sim.exec.jit.numbers.comparisons import NEGATED
from vgpu_sim.exec.jit.numbers.trip_counts import step_of
from vgpu_sim.exec.jit.shapes.lane_shapes import to_signed
from vgpu_sim.isa import (
    BoolOp,
    Compare,
    Function,
    Guard,
    Instruction,
    Literal,
    MulMode,
    Op,
    SpecialRegister,
)

_MOST_ITERATIONS: Final = 8
_MOST_WORDS: Final = 256
_LARGE: Final = 1 << 24
_INDICES = (SpecialRegister.TID_X, SpecialRegister.TID_Y, SpecialRegister.TID_Z)
_SIZES = (SpecialRegister.NTID_X, SpecialRegister.NTID_Y, SpecialRegister.NTID_Z)
Block = tuple[int, int, int]


def build(function: Function, block: Block) -> SsaFunction:
    """Convert ``function`` to SSA form for blocks of this shape.

    Raises:
        ControlFlowError: see ``ssa.build``.
    """
    form = ssa.build(function)
    trips = {
        header: trip_bound
        for header in form.graph.loops
        if (trip_bound := _most_iterations(form, header, block))
    }
    return _unroll(form, trips) if trips else form


def _unroll(form: SsaFunction, trips: dict[int, int]) -> SsaFunction:
    function, origins = form.function, form.origins
    loops = {form.graph.blocks[header].start: header for header in trips}
    code: list[tuple[Instruction, int | None]] = []  # with the old index of the target
    words: list[int] = []
    placed: dict[int, int] = {}
    word = 0
    while word < len(function.code):
        placed[word] = len(code)
        header = loops.get(word)
        if header is None:
            code.append((function.code[word], function.code[word].target))
            words.append(origins[word])
            word += 1
            continue
        end = form.graph.blocks[header].end
        back = function.code[end - 1]
        assert back.guard is not None
        leave = Guard(back.guard.predicate, not back.guard.negated)
        for iteration in range(trips[header]):
            code += [(function.code[w], None) for w in range(word, end - 1)]
            words += origins[word : end - 1]
            if iteration < trips[header] - 1:
                code.append((replace(back, guard=leave), end))
                words.append(origins[end - 1])
        word = end
    moved = tuple(
        instruction if target is None else replace(instruction, target=placed[target])
        for instruction, target in code
    )
    written = replace(function, code=moved, lines=(0,) * len(moved))
    return ssa.convert_reducible(written, tuple(words))


def _most_iterations(form: SsaFunction, header: int, block: Block) -> int | None:
    """Return a bound on the trips of a single-block divergent loop, if it is worth unrolling."""
    body, blocks = form.graph.loops[header], form.graph.blocks
    words = blocks[header].end - blocks[header].start
    last, ssa_block = form.function.code[blocks[header].end - 1], form.blocks[header]
    if (
        body != {header}
        or last.op is not Op.BRA
        or last.guard is None
        or ssa_block.condition is None
    ):
        return None
    if last.target != blocks[header].start or len(ssa_block.successors) != 2:
        return None
    value = ssa_block.condition.value
    test = form.definition.get(value) if isinstance(value, Value) else None
    if not isinstance(test, Operation) or test.instruction.op is not Op.SETP:
        return None
    instruction, compare = test.instruction, test.instruction.compare
    if instruction.combine is not BoolOp.NONE or not instruction.type.is_integer:
        return None
    if ssa_block.condition.negated != (value is not test.results[0]):
        compare = NEGATED.get(compare) if compare is not None else None
    limit = test.sources[1]
    if compare not in (Compare.LT, Compare.LE) or not isinstance(limit, Literal):
        return None
    bound = to_signed(limit.bits, 32) + (compare is Compare.LE)
    if instruction.type.bits != 32 or not 0 <= bound < _LARGE:
        return None
    for phi in ssa_block.phis:
        trips = _count_trips(form, phi, test.sources[0], bound, block)
        if trips is not None and trips * words <= _MOST_WORDS:
            return trips
    return None


def _count_trips(
    form: SsaFunction, phi: Phi, counter: Source, bound: int, block: Block
) -> int | None:
    offset = step_of(form, counter, phi.result) if phi.result.bits == 32 else None
    step = step_of(form, phi.arguments[phi.block], phi.result)
    starts = [source for origin, source in phi.arguments.items() if origin != phi.block]
    if offset is None or not step or step < 0 or offset < 0 or len(starts) != 1:
        return None
    reach = _reach(form, starts[0], block)
    if reach is None or reach[0] == reach[1] or max(step, offset) >= _LARGE:
        return None
    trips, number = 1, reach[0] + offset
    while number < bound:
        trips, number = trips + 1, number + step
        if trips > _MOST_ITERATIONS:
            return None
    return trips


def _reach(form: SsaFunction, source: Source, block: Block) -> tuple[int, int] | None:
    """Return the range of a 32-bit value computed from thread indices, or None."""
    if isinstance(source, Literal):
        number = source.bits & 0xFFFF_FFFF
        return (number, number) if number < _LARGE else None
    node = form.definition.get(source) if isinstance(source, Value) else None
    if not isinstance(node, Operation):
        return None
    instruction = node.instruction
    if instruction.type.bits != 32 or not instruction.type.is_integer or instruction.saturate:
        return None
    if instruction.op is Op.S2R:
        if instruction.sreg in _INDICES:
            return 0, block[_INDICES.index(instruction.sreg)] - 1
        size = block[_SIZES.index(instruction.sreg)] if instruction.sreg in _SIZES else None
        return None if size is None else (size, size)
    ranges = [_reach(form, operand, block) for operand in node.sources]
    known = [operand_range for operand_range in ranges if operand_range is not None]
    if len(known) < len(ranges):
        return None
    ends: list[int] = []
    for place in range(2):
        parts = [operand_range[place] for operand_range in known]
        match instruction.op:
            case Op.ADD:
                ends.append(sum(parts))
            case Op.MUL | Op.MAD if instruction.mode is MulMode.LO:
                ends.append(parts[0] * parts[1] + sum(parts[2:]))
            case Op.SHL if parts[1] < 32:
                ends.append(parts[0] << parts[1])
            case _:
                return None
    return (ends[0], ends[1]) if ends[1] < _LARGE else None
