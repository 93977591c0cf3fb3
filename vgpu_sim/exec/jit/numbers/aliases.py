"""Whether a plain read may find what a store has left: told from how both addresses are made."""

from typing import Final

from vgpu_sim.exec.jit.ir.ssa import Operation, Source, SsaFunction, Value
from vgpu_sim.exec.jit.numbers.known_values import known_values
from vgpu_sim.exec.jit.numbers.local_reach import LocalReach, Reach
from vgpu_sim.exec.jit.shapes.lane_shapes import signed
from vgpu_sim.isa import Literal, Op, Space

_MAX_STEPS: Final = 64
_OWN: Final = (Reach.NAMED, Reach.WINDOW)


class Aliases:
    """Answers for the accesses of one function.

    Two pointers that a kernel is given are taken for apart, which they need not be: ask only where
    the answer makes code slower or faster, never for what it computes.
    """

    def __init__(self, ssa: SsaFunction) -> None:
        self._ssa = ssa
        self._known = known_values(ssa)
        self._reach = LocalReach(ssa, self._known)

    def may_find(self, load: Operation, store: Operation, body: frozenset[int]) -> bool:
        """Return whether what ``store`` writes may be what ``load`` reads in some turn of the loop
        whose blocks are ``body``."""
        return not self._in_other_spaces(load, store) and not self._disjoint(load, store, body)

    def _in_other_spaces(self, load: Operation, store: Operation) -> bool:
        reaches = {self._reach.of(load), self._reach.of(store)}
        if Reach.NEVER in reaches and reaches.intersection(_OWN):
            return True
        spaces = {load.instruction.space, store.instruction.space}
        if Space.PARAM in spaces or (len(spaces) > 1 and Space.GENERIC not in spaces):
            return True
        if reaches != {Reach.NEVER} or Space.SHARED in spaces:
            return False
        origins = [self._known.trace(node.sources[0]) for node in (load, store)]
        known = {pointer.origin for pointer in origins if pointer is not None}
        return len(known) > 1

    def _disjoint(self, load: Operation, store: Operation, body: frozenset[int]) -> bool:
        root, begin = self._place(load)
        other, start = self._place(store)
        if root != other or (isinstance(root, Value) and self._ssa.block_of[root] in body):
            return False  # what is made in the loop is elsewhere in another turn
        return begin + _size(load) <= start or start + _size(store) <= begin

    def _place(self, node: Operation) -> tuple[Source, int]:
        """Return what an address is counted from, and how far from it the access begins."""
        source, far = node.sources[0], node.instruction.displacement
        for _ in range(_MAX_STEPS):
            made = self._ssa.definition.get(source) if isinstance(source, Value) else None
            if not isinstance(made, Operation) or made.instruction.op not in (Op.ADD, Op.MOV):
                break
            if made.instruction.op is Op.MOV:
                source = made.sources[0]
                continue
            numbers = [s for s in made.sources if isinstance(s, Literal)]
            others = [s for s in made.sources if not isinstance(s, Literal)]
            if len(numbers) != 1 or len(others) != 1:
                break
            source, far = others[0], far + signed(numbers[0].bits, made.instruction.type.bits)
        if isinstance(source, Literal):
            return Literal(0), source.bits + far
        return source, far


def _size(node: Operation) -> int:
    return node.instruction.type.bits // 8 * max(1, node.instruction.vector)
