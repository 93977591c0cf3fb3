"""Loops that wait for other threads.

A loop polls if its exit depends on what other threads may change meanwhile: on a volatile or
atomic read in it, or on nothing that its own iterations change (a plain read, a clock). At its
latch, the group yields to other groups. A loop that counts in memory does not wait, since each
iteration reads another value. The value read may be stored to memory again before the exit tests
it: in unoptimised code, or if one lane reads for its warp.
"""

import functools
from collections.abc import Iterable, Iterator
from typing import Final

from vgpu_sim.exec.jit.ir.peers import reaches_peers
from vgpu_sim.exec.jit.ir.ssa import (
    Merge,
    Node,
    Operation,
    Phi,
    Source,
    SsaFunction,
    Value,
    sources_of,
)
from vgpu_sim.exec.jit.numbers.aliases import Aliases
from vgpu_sim.isa import EFFECTS, Compare, Literal, Op, Space, Update, polls, reads_memory

_COUNTING: Final = (Update.ADD, Update.INC, Update.DEC)


def polls_or_pauses(ssa: SsaFunction) -> bool:
    """Return whether a group may yield to other groups at a place that is not a wait point: in a
    polling loop, or at an instruction that pauses its lanes.
    """
    nodes = (node for block in ssa.blocks.values() for node in block.nodes)
    rests = any(isinstance(n, Operation) and EFFECTS[n.instruction.op].rests for n in nodes)
    return rests or bool(polling_headers(ssa))


@functools.lru_cache(maxsize=4)
def polling_headers(ssa: SsaFunction) -> frozenset[int]:
    """Return the headers of the loops that poll.

    In a loop with a wait point in each iteration, other groups of the block run anyway. Such a
    loop counts as polling only if other blocks may end it. A loop that merely retries a
    compare-and-swap does not count as polling.
    """
    loops = ((header, _Loop(ssa, header)) for header in ssa.graph.loops)
    return frozenset(header for header, loop in loops if loop.polls and not loop.retries)


class _Loop:
    """A natural loop, and the nodes that decide when it is left."""

    def __init__(self, ssa: SsaFunction, header: int) -> None:
        self._ssa = ssa
        self._graph = ssa.graph
        self._header = header
        self._body = ssa.graph.loops[header]
        self._in_all_iterations = self._of_every_iteration()
        self._stores = self._plain_stores()

    @property
    def polls(self) -> bool:
        deciding = self._deciding()
        if any(map(self._in_every_iteration, filter(self._stops, self._body))):
            shared = not reaches_peers(self._ssa)
            deciding = {node for node in deciding if not _within_block(node, shared=shared)}
            if not any(map(_reads, deciding)):
                return False
        if any(_reads_others(node) for node in deciding):
            return True
        carried = any(isinstance(node, Phi) and node.block == self._header for node in deciding)
        return not carried and not any(map(self._writes, self._body))

    @property
    def retries(self) -> bool:
        """Return whether a lane repeats the loop only because another lane made progress.

        Such a lane need not wait. Each iteration swaps in a new value if memory holds the value
        read last; success ends the loop.
        """
        return any(
            self._swaps_what_it_read(node) and self._ends_with(node)
            for block in self._body
            if self._in_every_iteration(block)
            for node in self._ssa.blocks[block].nodes
            if isinstance(node, Operation) and _compares_and_swaps(node)
        )

    def _swaps_what_it_read(self, swap: Operation) -> bool:
        """Return whether the expected value was read in this iteration or returned by the last
        swap.
        """
        expected = swap.sources[1]
        if not isinstance(expected, Value) or self._ssa.block_of[expected] not in self._body:
            return False
        node = self._ssa.definition[expected]
        if isinstance(node, Phi) and node.block == self._header:
            inside = {s for block, s in node.arguments.items() if block in self._body}
            return inside <= set(swap.results)
        return isinstance(node, Operation) and reads_memory(node.instruction)

    def _ends_with(self, swap: Operation) -> bool:
        """Return whether the loop is left if the swap has found the expected value."""
        pair = {swap.results[0], swap.sources[1]}
        for block in self._exits():
            condition = self._ssa.blocks[block].condition
            if condition is None or not isinstance(condition.value, Value):
                continue
            relation = equality(self._ssa.definition[condition.value])
            if relation is None or set(relation[0]) != pair or not self._in_every_iteration(block):
                continue
            exit_index = int((relation[1] is Compare.NE) != condition.negated)
            if self._ssa.blocks[block].successors[exit_index] not in self._body:
                return True
        return False

    def _in_every_iteration(self, block: int) -> bool:
        return block in self._in_all_iterations

    def _of_every_iteration(self) -> frozenset[int]:
        """Return the blocks that dominate every latch."""
        latches = (b for b in self._graph.blocks[self._header].predecessors if b in self._body)
        above = (self._above(latch) for latch in latches)
        return frozenset.intersection(*above)

    def _above(self, block: int) -> frozenset[int]:
        """Return the blocks of the loop that dominate ``block``, itself included."""
        dominators = [block]
        while dominators[-1] != self._header:
            dominators.append(self._graph.idom[dominators[-1]])
        return frozenset(dominators)

    def _stops(self, block: int) -> bool:
        return any(
            EFFECTS[node.instruction.op].stops and node.guard is None
            for node in self._ssa.blocks[block].nodes
            if isinstance(node, Operation)
        )

    def _writes(self, block: int) -> bool:
        return any(
            EFFECTS[node.instruction.op].writes
            for node in self._ssa.blocks[block].nodes
            if isinstance(node, Operation)
        )

    def _exits(self) -> Iterator[int]:
        for block in sorted(self._body):
            if any(target not in self._body for target in self._ssa.blocks[block].successors):
                yield block

    def _deciding(self) -> set[Node | Phi]:
        """Return all nodes of the loop on which its exit depends."""
        pending: list[Source] = []
        deciding_nodes: set[Node | Phi] = set()
        visited: set[int] = set()
        stores = dict(self._stores)  # those that no node of `deciding_nodes` may observe
        followed: set[int] = set()

        def visit(blocks: Iterable[int]) -> None:
            for block in blocks:
                condition = self._ssa.blocks[block].condition
                if block not in visited and condition is not None:
                    visited.add(block)
                    pending.append(condition.value)

        for block in self._exits():
            visit([block])
            visit(self._choosing(block, followed))
        while pending:
            source = pending.pop()
            if not isinstance(source, Value) or self._ssa.block_of[source] not in self._body:
                continue
            node = self._ssa.definition[source]
            if node in deciding_nodes:
                continue
            deciding_nodes.add(node)
            pending += sources_of(node)
            for store in self._found_by(node, stores):
                pending += sources_of(store)
                visit(self._choosing(stores.pop(store), followed))
            if isinstance(node, Phi):
                inside = {s for block, s in node.arguments.items() if block in self._body}
                if len(inside) > 1:
                    of_header = node.block == self._header
                    visit(self._body if of_header else self._before(node.block, followed))
        return deciding_nodes

    def _plain_stores(self) -> dict[Operation, int]:
        """Return the loop's plain stores with their blocks, if it reads what other threads
        write.
        """
        nodes = [
            (node, block)
            for block in self._body
            for node in self._ssa.blocks[block].nodes
            if isinstance(node, Operation)
        ]
        if not any(_reads_others(node) for node, _ in nodes):
            return {}
        return {node: block for node, block in nodes if node.instruction.op is Op.ST}

    def _found_by(self, node: Node | Phi, stores: Iterable[Operation]) -> list[Operation]:
        """Return the stores of the loop that a plain read may observe."""
        if not self._stores or not isinstance(node, Operation):
            return []
        if node.instruction.op is not Op.LD or node.instruction.volatile:
            return []
        may_find = _aliases(self._ssa).may_alias
        return [store for store in stores if may_find(node, store, self._body)]

    def _choosing(self, block: int, followed: set[int]) -> set[int]:
        """Return the blocks that may choose whether an iteration reaches ``block``, as
        ``_before`` does.
        """
        return set() if self._in_every_iteration(block) else self._before(block, followed)

    def _before(self, block: int, followed: set[int]) -> set[int]:
        """Return the blocks of the loop from which ``block`` is reachable within one iteration.

        The predecessors of the blocks in ``followed`` were returned before, and need not be again.
        Those that are followed now are added, so that all calls together follow each block once.
        """
        predecessors: set[int] = set()
        pending = [block]
        while pending:
            current = pending.pop()
            if current == self._header or current in followed:
                continue
            followed.add(current)
            inside = self._body.intersection(self._graph.blocks[current].predecessors)
            predecessors |= inside
            pending += inside
        return predecessors


def _aliases(ssa: SsaFunction) -> Aliases:
    cached_aliases = ssa.analyses.get(_aliases)
    if not isinstance(cached_aliases, Aliases):
        cached_aliases = ssa.analyses[_aliases] = Aliases(ssa)
    return cached_aliases


def _reads(node: Node | Phi) -> bool:
    return isinstance(node, Operation) and reads_memory(node.instruction)


def _within_block(node: Node | Phi, *, shared: bool) -> bool:
    """Return whether a read accesses memory that no other block can write; ``shared`` states that
    shared memory is such memory.
    """
    if not isinstance(node, Operation) or not _reads(node):
        return False
    space = node.instruction.space
    return space is Space.LOCAL or (shared and space is Space.SHARED)


def _reads_others(node: Node | Phi) -> bool:
    """Return whether a read must observe what other threads have written since the last one."""
    if not isinstance(node, Operation):
        return False
    if node.instruction.volatile or polls(node.instruction):
        return not _counts(node)
    return False


def _counts(node: Operation) -> bool:
    """Return whether an update adds a constant, so that the next iteration reads another value."""
    if not EFFECTS[node.instruction.op].writes or node.instruction.update not in _COUNTING:
        return False
    step = node.sources[1]
    return isinstance(step, Literal) and step.bits != 0


def equality(node: Phi | Node) -> tuple[tuple[Source, ...], Compare, int] | None:
    """Return the integers that a predicate compares, the relation (EQ or NE), and the width of the
    integers.

    Return None if ``node`` is no such comparison.
    """
    if isinstance(node, Phi | Merge) or node.instruction.op is not Op.SETP:
        return None
    instruction = node.instruction
    if instruction.compare not in (Compare.EQ, Compare.NE) or instruction.type.is_float:
        return None
    if len(node.sources) != 2 or node.results[0] is None or any(node.results[1:]):
        return None
    return node.sources, instruction.compare, instruction.type.bits


def _compares_and_swaps(node: Operation) -> bool:
    """Return whether an operation stores its third source if memory holds its second."""
    effects = EFFECTS[node.instruction.op]
    return effects.reads and effects.writes and len(node.sources) == 3 and node.guard is None
