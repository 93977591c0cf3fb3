"""Adjacent loads, combined into one: the elements of a row of memory per lane.

If a thread reads eight consecutive words one by one, the lanes of a vector are a stride apart in
each load: a gather per word, 20 times the cost of a load. Together, the words of all lanes are
one contiguous range without a gap, which a few loads and shuffles arrange. Nothing is read that
no lane requested.
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


def find_load_groups(
    analysis: Analysis, block: int, nodes: Iterable[Operation | Merge]
) -> Mapping[Operation, tuple[Operation, ...]]:
    """Return sets of loads. Each set can be replaced by one combined load. The key of a set is its
    first load in the code.

    The loads of a set are sorted by address.
    """
    groups: dict[Operation, tuple[Operation, ...]] = {}
    waiting: dict[_Key, list[Operation]] = {}

    def close() -> None:
        for loads in waiting.values():
            for row in _rows(analysis, block, loads):
                groups[min(row, key=loads.index)] = row
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
    return groups


def combined_load(loads: Sequence[Operation]) -> Operation:
    """Return one wide load that replaces all of ``loads``, which are sorted by address."""
    first = loads[0]
    vector = sum(load.instruction.vector for load in loads)
    results = tuple(result for load in loads for result in load.results)
    instruction = replace(first.instruction, vector=vector)
    return Operation(first.word, instruction, first.sources, results)


def _rows(analysis: Analysis, block: int, loads: list[Operation]) -> list[tuple[Operation, ...]]:
    """Return the subsets of ``loads`` that form whole rows; they share an address operand."""
    first = loads[0].instruction
    size = first.vector * first.type.bytes
    shape = analysis.shape(loads[0].sources[0], block, 64 if first.space is Space.GLOBAL else 32)
    if len(loads) < 2 or shape is None or isinstance(shape, Vector):
        return []
    count, remainder = divmod(shape.stride, size)
    count_limit = MOST_ELEMENTS // first.vector
    if (
        remainder
        or not 1 < count <= count_limit
        or count & (count - 1)
        or analysis.geometry.width == 1
    ):
        return []
    rows, row = [], list[Operation]()
    for load in sorted(loads, key=lambda load: load.instruction.displacement):
        displacement = load.instruction.displacement
        if row and displacement == row[-1].instruction.displacement:
            continue  # two loads of one element: the second stays a load of its own
        if row and displacement != row[-1].instruction.displacement + size:
            row = []
        row.append(load)
        if len(row) == count:
            rows.append(tuple(row))
            row = []
    return rows
