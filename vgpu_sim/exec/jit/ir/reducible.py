"""Gives cycles with several entries a single one, since masks need loops with a header.

Every edge to one of a cycle's entries goes through a new header instead, which branches to the
entry whose number the lane holds. A block is an entry of at most one such cycle, so that the
code grows by at most seven instructions per block. Other transformations duplicate blocks, whose
number may grow exponentially.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from vgpu_sim.exec import cfg
from vgpu_sim.isa import (
    EFFECTS,
    Compare,
    DataType,
    Function,
    Guard,
    Instruction,
    Literal,
    Op,
    Predicate,
    Register,
)
from vgpu_sim.records import dataclass

Origins = tuple[int, ...]
MAX_LOOKS = 1 << 19


def make_reducible(function: Function, origins: Origins) -> tuple[Function, Origins]:
    """Return an equivalent function in which each cycle has only one entry, and that function's
    origins.

    ``origins`` maps each instruction of ``function`` to its index in the caller's code; the
    returned origins do the same for the returned function.

    Raises:
        LoopNestError: when cycles nest more deeply than any compiler emits.
    """
    graph = cfg.build(function)
    looked_at = _Looks()
    while graph.irreducible_edges:
        function, origins = _with_headers(function, origins, graph, _cycles(graph, looked_at))
        graph = cfg.build(function)
    return function, origins


class _Looks:
    """The number of visited blocks; those of an inner cycle count once per enclosing cycle."""

    def __init__(self) -> None:
        self._blocks = 0

    def add(self, blocks: int) -> None:
        self._blocks += blocks
        if self._blocks > MAX_LOOKS:
            message = (
                f"cycles with several entries nest too deep (they span over {MAX_LOOKS} blocks)"
            )
            raise cfg.LoopNestError(message)


@dataclass(frozen=True, slots=True)
class _Cycle:
    """A strongly connected set of blocks, and those that have predecessors outside it."""

    blocks: frozenset[int]
    entries: tuple[int, ...]


def _cycles(graph: cfg.Cfg, looked_at: _Looks) -> list[_Cycle]:
    """Return the outermost cycles that have several entries."""
    cycles = []
    pending = [set(graph.reverse_post_order)]
    while pending:
        region = pending.pop()
        looked_at.add(len(region))
        for cycle in _components(graph, region):
            entries = [
                block
                for block in sorted(cycle)
                if block == graph.reverse_post_order[0]
                or any(p not in cycle for p in graph.blocks[block].predecessors)
            ]
            if len(entries) > 1:
                cycles.append(_Cycle(frozenset(cycle), tuple(entries)))
            elif len(cycle) > 1:
                pending.append(cycle - set(entries))
    return cycles


def _components(graph: cfg.Cfg, region: set[int]) -> Iterable[set[int]]:
    """Yield the strongly connected components of a region (R. Tarjan's algorithm, iterative)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    for start in sorted(region):
        calls = [] if start in number else [(start, iter(graph.blocks[start].successors))]
        while calls:
            block, targets = calls[-1]
            if block not in number:
                number[block] = low[block] = len(number)
                path.append(block)
                on_path.add(block)
            for target in targets:
                if target not in region:
                    continue
                if target not in number:
                    calls.append((target, iter(graph.blocks[target].successors)))
                    break
                if target in on_path:
                    low[block] = min(low[block], number[target])
            else:
                calls.pop()
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[block])
                if low[block] == number[block]:
                    part: set[int] = set()
                    while block not in part:
                        part.add(path.pop())
                    on_path -= part
                    yield part


def _with_headers(
    function: Function, origins: Origins, graph: cfg.Cfg, cycles: Sequence[_Cycle]
) -> tuple[Function, Origins]:
    entry_number = Register(len(function.register_bits))
    flag = Predicate(function.predicate_count)
    cycle_at = {graph.blocks[entry].start: cycle for cycle in cycles for entry in cycle.entries}

    def way(word: int, target: int) -> object:
        """Return the label for the edge from ``word``; a header is entered from inside or
        outside.
        """
        cycle = cycle_at.get(target)
        if cycle is None:
            return target
        return word >= 0 and graph.block_of_word[word] in cycle.blocks, target

    code: list[tuple[Instruction, object]] = []  # instructions, with a label where they branch
    words: list[int] = []
    labels: dict[object, int] = {}

    def add(instruction: Instruction, origin: int, label: object = None) -> None:
        code.append((instruction, label))
        words.append(origin)

    falls = True  # falls through into the next instruction; true at the function's start
    for word, instruction in enumerate(function.code):
        if word in cycle_at and falls:
            add(Instruction(Op.BRA), origins[word], way(word - 1, word))
        labels[word] = len(code)
        target = instruction.target
        label = None if target is None else way(word, target)
        add(instruction, origins[word], label)
        falls = not EFFECTS[instruction.op].leaves or instruction.guard is not None
    if falls:
        add(Instruction(Op.RET), origins[-1])
    for cycle in cycles:
        starts = [graph.blocks[entry].start for entry in cycle.entries]
        for place, start in enumerate(starts):
            for inside in (False, True):
                labels[inside, start] = len(code)
                number = Literal(place)
                add(Instruction(Op.MOV, DataType.B32, (entry_number,), (number,)), origins[start])
                add(Instruction(Op.BRA), origins[start], cycle)
        labels[cycle] = len(code)
        for place, start in enumerate(starts):
            guard = None
            if place < len(starts) - 1:
                guard = Guard(flag)
                sources = (entry_number, Literal(place))
                compare = Instruction(
                    Op.SETP, DataType.U32, (flag, None), sources, compare=Compare.EQ
                )
                add(compare, origins[start])
            add(Instruction(Op.BRA, guard=guard), origins[start], start)
    placed = tuple(
        instruction if label is None else replace(instruction, target=labels[label])
        for instruction, label in code
    )
    return (
        replace(
            function,
            code=placed,
            lines=(0,) * len(placed),
            register_bits=(*function.register_bits, 32),
            predicate_count=function.predicate_count + 1,
        ),
        tuple(words),
    )
