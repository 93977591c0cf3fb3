"""Alias analysis: whether a plain load may read what a store writes, derived from their
addresses.
"""

from typing import Final

from vgpu_sim.exec.jit.ir.ssa import Operation, Source, SsaFunction, Value
from vgpu_sim.exec.jit.numbers.known_values import known_values
from vgpu_sim.exec.jit.numbers.local_reach import LocalReach, Reach
from vgpu_sim.exec.jit.shapes.lane_shapes import to_signed
from vgpu_sim.isa import Literal, Op, Space

_MAX_STEPS: Final = 64
_OWN: Final = (Reach.NAMED, Reach.WINDOW)


class Aliases:
    """Alias queries for the accesses of one function.

    Two pointer parameters are assumed not to alias, although they may. Use the answers only
    where they affect speed, never where they affect results.
    """

    def __init__(self, ssa: SsaFunction) -> None:
        self._ssa = ssa
        self._known = known_values(ssa)
        self._reach = LocalReach(ssa, self._known)

    def may_alias(self, load: Operation, store: Operation, body: frozenset[int]) -> bool:
        """Return whether ``load`` may read what ``store`` writes in some iteration of the loop
        ``body``.
        """
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
        store_root, start = self._place(store)
        if root != store_root or (isinstance(root, Value) and self._ssa.block_of[root] in body):
            return False  # a value defined in the loop has another value in another iteration
        return begin + _size(load) <= start or start + _size(store) <= begin

    def _place(self, node: Operation) -> tuple[Source, int]:
        """Return an address's base value and the access's distance from it."""
        source, far = node.sources[0], node.instruction.displacement
        for _ in range(_MAX_STEPS):
            definition = self._ssa.definition.get(source) if isinstance(source, Value) else None
            if not isinstance(definition, Operation) or definition.instruction.op not in (
                Op.ADD,
                Op.MOV,
            ):
                break
            if definition.instruction.op is Op.MOV:
                source = definition.sources[0]
                continue
            numbers = [s for s in definition.sources if isinstance(s, Literal)]
            addends = [s for s in definition.sources if not isinstance(s, Literal)]
            if len(numbers) != 1 or len(addends) != 1:
                break
            source, far = (
                addends[0],
                far + to_signed(numbers[0].bits, definition.instruction.type.bits),
            )
        if isinstance(source, Literal):
            return Literal(0), source.bits + far
        return source, far


def _size(node: Operation) -> int:
    return node.instruction.type.bits // 8 * max(1, node.instruction.vector)
