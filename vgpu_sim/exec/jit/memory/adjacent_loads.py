"""Loads that lie side by side, made as one: the parts of each lane's row of memory.

A thread that reads eight words in a row, word by word, has each lane of a strip a stride away from
the next: a gather for each word, 20 times the cost of a load. Taken together the words of all lanes
are one piece of memory without a gap, which a few loads and shuffles bring in order. Nothing is
read that no lane asks for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir.ssa import Merge, Operation, Source
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.isa import DataType, Op, Space, is_visible

MOST_ELEMENTS = 16
_SPACES = (Space.SHARED, Space.GLOBAL)
_Key = tuple[Source, DataType, Space, int]


def groups(
    analysis: Analysis, block: int, nodes: Iterable[Operation | Merge]
) -> Mapping[Operation, tuple[Operation, ...]]:
    """Return, for the first of each set of loads that are one, all of them by address."""
    found: dict[Operation, tuple[Operation, ...]] = {}
    waiting: dict[_Key, list[Operation]] = {}

    def close() -> None:
        for loads in waiting.values():
            for row in _rows(analysis, block, loads):
                found[min(row, key=loads.index)] = row
        waiting.clear()

    for node in nodes:
        if not isinstance(node, Operation):
            continue
        instruction = node.instruction
        if is_visible(instruction):
            close()
        elif instruction.op is Op.LD and instruction.space in _SPACES and node.guard is None:
            key = node.sources[0], instruction.type, instruction.space, instruction.vector
            waiting.setdefault(key, []).append(node)
    close()
    return found


def together(loads: Sequence[Operation]) -> Operation:
    """Return the load of all elements of ``loads``, which are in the order of their addresses."""
    first = loads[0]
    vector = sum(load.instruction.vector for load in loads)
    results = tuple(result for load in loads for result in load.results)
    instruction = replace(first.instruction, vector=vector)
    return Operation(first.word, instruction, first.sources, results)


def _rows(analysis: Analysis, block: int, loads: list[Operation]) -> list[tuple[Operation, ...]]:
    """Return the parts of ``loads``, which share an address, that are whole rows."""
    first = loads[0].instruction
    size = first.vector * first.type.bytes
    shape = analysis.shape(loads[0].sources[0], block, 64 if first.space is Space.GLOBAL else 32)
    if len(loads) < 2 or shape is None or isinstance(shape, Vector):
        return []
    count, rest = divmod(shape.stride, size)
    most = MOST_ELEMENTS // first.vector
    if rest or not 1 < count <= most or count & (count - 1) or analysis.geometry.width == 1:
        return []
    found, row = [], list[Operation]()
    for load in sorted(loads, key=lambda load: load.instruction.displacement):
        displacement = load.instruction.displacement
        if row and displacement == row[-1].instruction.displacement:
            continue  # read twice: that one goes by itself
        if row and displacement != row[-1].instruction.displacement + size:
            row = []
        row.append(load)
        if len(row) == count:
            found.append(tuple(row))
            row = []
    return found
