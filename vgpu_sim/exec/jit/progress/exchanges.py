"""Finds kernels whose lanes exchange values through shared memory without waiting for each other.

CUDA defines no result for such code since compute capability 7.0. On a GPU, the lanes of a warp
that are on one path execute each instruction together, and programs rely on it: old reductions of a
warp's last values, transposes within a warp. The lanes of a group execute each instruction
together, too, so these programs compute what they do on a GPU if each group has whole warps.
"""

from vgpu_sim.exec.jit.ir.ssa import Operation, Source, SsaFunction
from vgpu_sim.isa import EFFECTS, Op, Space

_Place = tuple[Source, int]
_Stored = frozenset[_Place]


def exchanges_without_waits(ssa: SsaFunction) -> bool:
    """Return whether a lane may load from shared memory what another lane of its warp has stored
    since it last waited.

    A load from the address of the only store, by the same value and displacement, is a lane's own.
    """
    arriving: dict[int, _Stored] = dict.fromkeys(ssa.blocks, frozenset())
    pending = list(ssa.blocks)
    while pending:
        index = pending.pop()
        leaving = _follow(ssa, index, arriving[index])
        if leaving is None:
            return True
        for successor in ssa.blocks[index].successors:
            if successor in arriving and not leaving <= arriving[successor]:
                arriving[successor] |= leaving
                pending.append(successor)
    return False


def _follow(ssa: SsaFunction, index: int, stored: _Stored) -> _Stored | None:
    """Return what a block's lanes have stored since they last waited, given what they had stored
    before the block; None if one of them loads from another place.
    """
    for node in ssa.blocks[index].nodes:
        if not isinstance(node, Operation):
            continue
        instruction = node.instruction
        effects = EFFECTS[instruction.op]
        if effects.stops or (effects.collective and instruction.op is not Op.ACTIVEMASK):
            stored = frozenset()
        elif instruction.space is Space.SHARED and instruction.op in (Op.LD, Op.ST):
            place = (node.sources[0], instruction.displacement)
            if instruction.op is Op.ST:
                stored |= {place}
            elif stored - {place}:
                return None
    return stored
