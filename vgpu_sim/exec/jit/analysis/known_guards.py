"""Guards that depend only on thread indices, such as ``if (threadIdx.x == 0)``.

The outcome of such a guard is the same in all blocks.
"""

from typing import Final

from vgpu_sim.exec.jit.ir.ssa import Operation, Source, SsaFunction, Value, sources_of
from vgpu_sim.isa import Family, Op, SpecialRegister

_COMPUTES: Final = frozenset(
    (Family.INTEGER, Family.CONVERT, Family.MOVE, Family.BITWISE, Family.COMPARE)
)
_OF_INDICES: Final = frozenset(
    (
        SpecialRegister.TID_X,
        SpecialRegister.TID_Y,
        SpecialRegister.TID_Z,
        SpecialRegister.NTID_X,
        SpecialRegister.NTID_Y,
        SpecialRegister.NTID_Z,
        SpecialRegister.LANEID,
    )
)


def depends_only_on_indices(ssa: SsaFunction, block: int) -> bool:
    """Return whether the branch at the end of ``block`` depends on thread indices and constants
    alone.
    """
    condition = ssa.blocks[block].condition
    pending: list[Source] = [] if condition is None else [condition.value]
    visited: set[Source] = set()
    while pending:
        source = pending.pop()
        if not isinstance(source, Value) or source in visited:
            continue
        visited.add(source)
        node = ssa.definition.get(source)
        if not isinstance(node, Operation) or node.instruction.op.family not in _COMPUTES:
            return False
        if node.instruction.op is Op.S2R and node.instruction.sreg not in _OF_INDICES:
            return False
        pending += sources_of(node)
    return bool(visited)
