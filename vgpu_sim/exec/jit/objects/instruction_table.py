"""The mapping from code offsets to instruction indices.

The debug line of an instruction is its index + 1. LLVM folds a load into the arithmetic that
uses it and gives the pair the arithmetic's line, so each arithmetic instruction is listed with
the loads it reads; a load shared by several instructions has no line at all.
"""

import bisect
from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from vgpu_sim.exec.jit.ir.ssa import Merge, Operation, Phi, Source, SsaFunction, Value
from vgpu_sim.isa import reads_memory

LoadsRead = dict[int, tuple[int, ...]]

_DEPTH: Final = 3


def loads_read(ssa: SsaFunction) -> LoadsRead:
    """Return, for each instruction that uses the results of loads, the indices of those loads."""
    table: dict[int, set[int]] = {}
    search = _Loads(ssa)
    for block in ssa.blocks.values():
        for node in block.nodes:
            if isinstance(node, Operation):
                words = frozenset().union(*(search.find(s, _DEPTH) for s in node.sources))
                if words:
                    table.setdefault(node.word, set()).update(words)
    return {word: tuple(sorted(words)) for word, words in sorted(table.items())}


class _Loads:
    """The loads from which values come. Each merge and phi is followed once for each depth, because
    those of an unrolled loop have hundreds of arguments and as many uses.
    """

    def __init__(self, ssa: SsaFunction) -> None:
        self._ssa = ssa
        self._found: dict[tuple[Value, int], frozenset[int]] = {}

    def find(self, source: Source, depth: int) -> frozenset[int]:
        """Return the indices of the loads that yield ``source``, at most ``depth`` steps away."""
        if not isinstance(source, Value) or not depth:
            return frozenset()
        loads = self._found.get((source, depth))
        if loads is None:
            loads = self._found[source, depth] = self._follow(source, depth)
        return loads

    def _follow(self, value: Value, depth: int) -> frozenset[int]:
        node = self._ssa.definition.get(value)
        if isinstance(node, Operation):
            return frozenset((node.word,) if reads_memory(node.instruction) else ())
        if isinstance(node, Merge):
            return self.find(node.new, depth - 1) | self.find(node.old, depth - 1)
        if isinstance(node, Phi):
            arguments = set(node.arguments.values())
            return frozenset().union(*(self.find(argument, depth - 1) for argument in arguments))
        return frozenset()


class InstructionTable:
    """A table of the instructions to which each range of object code belongs, in serialized form.

    Nothing is decoded before a fault occurs, and then only the part needed. The table is an
    array of 32-bit integers. It begins with the number of ranges, their code offsets
    (ascending), and the line of each range (0: none). Then follows an entry for each instruction
    that uses the results of loads: the instruction's index, the number of these loads, and the
    indices of the loads.
    """

    def __init__(self, packed: bytes) -> None:
        self._numbers = array("I", packed)

    @staticmethod
    def pack(rows: Iterable[tuple[int, int]], loads: LoadsRead) -> bytes:
        """Serialize a table. ``rows`` are pairs (code offset, line), sorted by offset. ``loads``
        has the loads whose results each instruction uses.
        """
        offsets, lines = array("I"), array("I")
        for offset, line in rows:
            if not lines or lines[-1] != line:
                offsets.append(offset)
                lines.append(line)
        packed = array("I", [len(offsets)]) + offsets + lines
        for word, read in loads.items():
            packed.extend((word, len(read), *read))
        return packed.tobytes()

    def instructions_at(self, offset: int) -> tuple[int, ...]:
        """Return the indices of the instructions to which the code at ``offset`` may belong, the
        likeliest first.
        """
        numbers = self._numbers
        count = numbers[0]
        place = bisect.bisect_right(numbers, offset, 1, 1 + count) - 1
        if place == 0 or numbers[place + count] == 0:
            return ()
        word = numbers[place + count] - 1
        return (word, *_loads_of(numbers, 1 + 2 * count, word))


def _loads_of(numbers: Sequence[int], place: int, word: int) -> Sequence[int]:
    while place < len(numbers):
        first, end = place + 2, place + 2 + numbers[place + 1]
        if numbers[place] == word:
            return numbers[first:end]
        place = end
    return ()
