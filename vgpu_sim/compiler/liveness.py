"""From where to where each register holds a value that may still be read.

The measure is that of a real register allocator over the words in order: one interval per register,
without holes. Lanes have registers of their own, so divergence plays no part. Sets of registers are
Python integers, one bit each: a whole set is one operation.
"""

from dataclasses import dataclass
from itertools import pairwise

from vgpu_sim.isa import EFFECTS, Function, Instruction, Register

MAX_SET_BITS = 1 << 28
"""Blocks times registers; above it intervals are not worth their memory (see ``intervals``)."""

MAX_SOLVER_BITS = 1 << 33
"""Blocks visited times registers; no kernel that a compiler wrote comes near it."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Register ``index`` is live from ``start`` to ``end``, both included.

    Places are counted in half words, 2w where word w reads and 2w + 1 where it writes: a result may
    take the slot of an operand that is not needed any more.
    """

    index: int
    start: int
    end: int


@dataclass(slots=True)
class _Block:
    """A basic block: its words, what it reads before writing, what it always writes."""

    start: int
    end: int
    successors: tuple[int, ...] = ()
    reads: int = 0
    kills: int = 0
    live_in: int = 0


def intervals(function: Function) -> list[Interval]:
    """Return the intervals of all registers that are ever read or written, in order of start.

    A function whose sets would be too large, or take too long, gets whole-function intervals,
    which is safe.
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
    """Find what is live at each block's start; False when that takes too long."""
    for block in blocks:
        for word in range(block.start, block.end):
            instruction = function.code[word]
            block.reads |= _bits(_read(instruction)) & ~block.kills
            if instruction.guard is None:  # a guarded write leaves other lanes as they were
                block.kills |= _bits(_written(instruction))
    predecessors: list[list[int]] = [[] for _ in blocks]
    for index, block in enumerate(blocks):
        for successor in block.successors:
            predecessors[successor].append(index)
    waiting = list(range(len(blocks)))
    queued = set(waiting)
    visits = MAX_SOLVER_BITS // max(1, len(function.register_bits))
    while waiting:  # the last block first: most information flows backwards
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
    """Return from where to where each register is live in the order of words.

    What is live when a block ends was live when it began or is written in it; so first places come
    from block starts and words alone, last places from block ends and words alone.
    """
    first: dict[int, int] = {}
    seen = 0
    for block in blocks:
        _place(first, block.live_in & ~seen, 2 * block.start)
        seen |= block.live_in
        for word in range(block.start, block.end):
            for index in _read(function.code[word]):
                first.setdefault(index, 2 * word)
            for index in _written(function.code[word]):
                first.setdefault(index, 2 * word + 1)
    last: dict[int, int] = {}
    seen = 0
    for block in reversed(blocks):
        live_out = _live_out(blocks, block)
        _place(last, live_out & ~seen, 2 * block.end - 1)
        seen |= live_out
        for word in reversed(range(block.start, block.end)):
            for index in _written(function.code[word]):
                last.setdefault(index, 2 * word + 1)
            for index in _read(function.code[word]):
                last.setdefault(index, 2 * word)
    found = [Interval(index, start, last[index]) for index, start in first.items()]
    return sorted(found, key=lambda interval: (interval.start, interval.index))


def _place(places: dict[int, int], registers: int, place: int) -> None:
    for index in _indices(registers):
        places.setdefault(index, place)


def _read(instruction: Instruction) -> list[int]:
    return [source.index for source in instruction.srcs if isinstance(source, Register)]


def _written(instruction: Instruction) -> list[int]:
    return [to.index for to in instruction.dsts if isinstance(to, Register)]


def _bits(indices: list[int]) -> int:
    total = 0
    for index in indices:
        total |= 1 << index
    return total


def _indices(bits: int) -> list[int]:
    """Return the positions of set bits, lowest first."""
    digits = bin(bits)[:1:-1]
    found = []
    index = digits.find("1")
    while index >= 0:
        found.append(index)
        index = digits.find("1", index + 1)
    return found
