"""The accesses that may refer to local memory, derived from their addresses."""

from enum import Enum
from typing import Final

from vgpu_sim.exec.jit.ir.ssa import Operation, Source, SsaFunction, Value
from vgpu_sim.exec.jit.numbers.known_values import KnownValues, known_values
from vgpu_sim.isa import Literal, Op, Space

_MAX_STEPS: Final = 64


class Reach(Enum):
    """Whether an access refers to local memory, and by which kind of address."""

    NEVER = 0
    NAMED = 1  # always, by a 32-bit address
    WINDOW = 2  # always, by a generic address
    PERHAPS = 3  # each lane's generic address decides


def local_loads(ssa: SsaFunction) -> frozenset[Operation]:
    """Return the loads that may read local memory. Such a load may return a different value in each
    lane, even if all lanes have the same address.
    """
    operations = ssa.analyses.get(local_loads)
    if not isinstance(operations, frozenset):
        reach = LocalReach(ssa, known_values(ssa))
        loads = (
            node
            for block in ssa.blocks.values()
            for node in block.nodes
            if isinstance(node, Operation) and node.instruction.op is Op.LD
        )
        operations = frozenset(node for node in loads if reach.of(node) is not Reach.NEVER)
        ssa.analyses[local_loads] = operations
    return operations


class LocalReach:
    """Determines which accesses of one function may refer to local memory."""

    def __init__(self, ssa: SsaFunction, known: KnownValues) -> None:
        self._ssa = ssa
        self._known = known
        self._window_known = any(
            isinstance(node, Operation) and node.instruction.op is Op.LOCAL_WINDOW
            for block in ssa.blocks.values()
            for node in block.nodes
        )

    def of(self, node: Operation) -> Reach:
        """Return whether ``node`` accesses local memory, and by which kind of address.

        Generic addresses refer to local memory only in a function that requests the window of
        local memory.
        """
        space = node.instruction.space
        if space is Space.LOCAL:
            return Reach.NAMED
        if space is not Space.GENERIC or not self._window_known:
            return Reach.NEVER
        address = node.sources[0]
        if self._in_window(address):
            return Reach.WINDOW
        return Reach.PERHAPS if self._known.trace(address) is None else Reach.NEVER

    def _in_window(self, source: Source) -> bool:
        """Return whether an address is the window's address plus an offset."""
        pending, steps = [source], 0
        while pending and steps < _MAX_STEPS:
            steps += 1
            node = self._node(pending.pop())
            if node is None or node.instruction.type.bits != 64:
                continue
            if self._is_window(node):
                return True
            match node.instruction.op:
                case Op.ADD:
                    pending += node.sources
                case Op.SUB | Op.MOV:
                    pending.append(node.sources[0])
                case Op.MAD:
                    pending.append(node.sources[2])
                case _:
                    pass
        return False

    def _is_window(self, node: Operation) -> bool:
        """Return whether a node shifts the window's upper half into place."""
        if node.instruction.op is not Op.SHL or node.sources[1] != Literal(32):
            return False
        wide = self._node(node.sources[0])
        if wide is None or wide.instruction.op is not Op.CVT:
            return False
        half = self._node(wide.sources[0])
        return half is not None and half.instruction.op is Op.LOCAL_WINDOW

    def _node(self, source: Source) -> Operation | None:
        node = self._ssa.definition.get(source) if isinstance(source, Value) else None
        return node if isinstance(node, Operation) else None
