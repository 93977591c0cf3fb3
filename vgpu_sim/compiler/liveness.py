"""Computes the interval over which each register holds a value that may still be read.

As in a physical register allocator, each register has one interval over the instructions in
order, without holes. Each lane has its own registers, so divergence does not matter. Sets of
registers are Python integers with one bit per register: an operation on a whole set is one
integer operation.
"""

from itertools import pairwise

from vgpu_sim.isa import EFFECTS, Function, Instruction, Register
from vgpu_sim.records import dataclass

MAX_SET_BITS = 1 << 28
"""The limit of blocks times registers. Above it, intervals are not worth their memory (see
``intervals``).
"""

MAX_SOLVER_BITS = 1 << 33
"""The limit of visited blocks times registers; kernels from compilers stay far below it."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Register ``index`` is live from ``start`` to ``end``, both included.

    Each instruction has two positions: instruction w reads at position 2w, and writes at 2w + 1.
    A result can therefore take the slot of an operand that is not needed after the instruction.
    """

    index: int
    start: int
    end: int


@dataclass(slots=True)
class _Block:
    """A basic block: its instructions, registers it reads before writing, registers it always
    writes.
    """

    start: int
    end: int
    successors: tuple[int, ...] = ()
    reads: int = 0
    kills: int = 0
    live_in: int = 0


def intervals(function: Function) -> list[Interval]:
    """Return the intervals of all registers that are ever read or written, in order of start.

    If a function's sets of live registers would be too large, or computing them would take too
    long, each of its registers gets an interval over the whole function, which is safe.
    """
    blocks = _blocks(function)
    registers = len(function.register_bits)
    if len(blocks) * registers <= MAX_SET_BITS and _solve(function, blocks):
        return _extents(function, blocks)
    last = 2 * len(function.code) - 1
    return [Interval(index, 0, last) for index in range(registers)]


def _blocks(function: Function) -> list[_Block]:
    code = function.code
    leaders = {0}
    for word, instruction in enumerate(code):
        if instruction.target is not None:
            leaders.add(instruction.target)
        if EFFECTS[instruction.op].leaves:
            leaders.add(word + 1)
    starts = sorted(word for word in leaders if word < len(code))
    number = {word: index for index, word in enumerate(starts)}
    blocks = [_Block(start, end) for start, end in pairwise([*starts, len(code)])]
    for block in blocks:
        last = code[block.end - 1]
        falls = not EFFECTS[last.op].leaves or last.guard is not None
        following = {block.end} if falls and block.end < len(code) else set()
        if last.target is not None:
            following.add(last.target)
        block.successors = tuple(number[word] for word in sorted(following))
    return blocks


def _solve(function: Function, blocks: list[_Block]) -> bool:
    """Compute the registers that are live at each block's start; return False if it takes too
    long.
    """
    for block in blocks:
        for word in range(block.start, block.end):
            instruction = function.code[word]
            block.reads |= _bits(_reads(instruction)) & ~block.kills
            # a guarded write leaves the registers of other lanes unchanged
            if instruction.guard is None:
                block.kills |= _bits(_writes(instruction))
    predecessors: list[list[int]] = [[] for _ in blocks]
    for index, block in enumerate(blocks):
        for successor in block.successors:
            predecessors[successor].append(index)
    waiting = list(range(len(blocks)))
    queued = set(waiting)
    visits = MAX_SOLVER_BITS // max(1, len(function.register_bits))
    while waiting:  # the last block first, since most information flows backwards
        visits -= 1
        if visits < 0:
            return False
        index = waiting.pop()
        queued.discard(index)
        block = blocks[index]
        live_in = block.reads | (_live_out(blocks, block) & ~block.kills)
        if live_in != block.live_in:
            block.live_in = live_in
            fresh = [p for p in predecessors[index] if p not in queued]
            waiting += fresh
            queued.update(fresh)
    return True


def _live_out(blocks: list[_Block], block: _Block) -> int:
    live = 0
    for successor in block.successors:
        live |= blocks[successor].live_in
    return live


def _extents(function: Function, blocks: list[_Block]) -> list[Interval]:
    """Return the first and last position at which each register is live, in instruction order.

    A register that is live when a block ends was live when it began or is written in it. So the
    first positions follow from block starts and instructions, the last ones from block ends and
    instructions.
    """
    first: dict[int, int] = {}
    placed_registers = 0
    for block in blocks:
        _place(first, block.live_in & ~placed_registers, 2 * block.start)
        placed_registers |= block.live_in
        for word in range(block.start, block.end):
            for index in _reads(function.code[word]):
                first.setdefault(index, 2 * word)
            for index in _writes(function.code[word]):
                first.setdefault(index, 2 * word + 1)
    last: dict[int, int] = {}
    placed_registers = 0
    for block in reversed(blocks):
        live_out = _live_out(blocks, block)
        _place(last, live_out & ~placed_registers, 2 * block.end - 1)
        placed_registers |= live_out
        for word in reversed(range(block.start, block.end)):
            for index in _writes(function.code[word]):
                last.setdefault(index, 2 * word + 1)
            for index in _reads(function.code[word]):
                last.setdefault(index, 2 * word)
    extents = [Interval(index, start, last[index]) for index, start in first.items()]
    return sorted(extents, key=lambda interval: (interval.start, interval.index))


def _place(places: dict[int, int], registers: int, place: int) -> None:
    for index in _indices(registers):
        places.setdefault(index, place)


def _reads(instruction: Instruction) -> list[int]:
    return [source.index for source in instruction.srcs if isinstance(source, Register)]


def _writes(instruction: Instruction) -> list[int]:
    return [to.index for to in instruction.dsts if isinstance(to, Register)]


def _bits(indices: list[int]) -> int:
    total = 0
    for index in indices:
        total |= 1 << index
    return total


def _indices(bits: int) -> list[int]:
    """Return the positions of set bits, lowest first."""
    digits = bin(bits)[:1:-1]
    positions = []
    index = digits.find("1")
    while index >= 0:
        positions.append(index)
        index = digits.find("1", index + 1)
    return positions
