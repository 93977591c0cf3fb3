"""Control flow: branches split the reconvergence stack, RET removes lanes from it."""

from vgpu_sim.exec.errors import Trap
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Mask
from vgpu_sim.exec.interp.state import StackEntry, Warp
from vgpu_sim.isa import Instruction, Op


def _nop(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    pass


def _bra(warp: Warp, instruction: Instruction, mask: Mask) -> None:
    top = warp.stack[-1]
    target = instruction.target
    if target is None:
        raise TypeError("a branch has no target")
    stay = top.mask & ~mask
    if not mask.any():
        return
    if not stay.any():
        top.pc = target
        return
    meet = warp.launch.reconvergence[warp.word]
    if meet == top.reconvergence:
        # The entry below already waits there with all lanes: otherwise a loop whose lanes leave one
        # by one would grow the stack by an entry for each.
        warp.stack.pop()
    else:
        # Never -1: a branch whose paths meet only at the end is on a path of an entry without
        # another reconvergence point, which is the case above.
        top.pc = meet
    warp.stack.append(StackEntry(warp.word + 1, stay, meet))
    warp.stack.append(StackEntry(target, mask, meet))


def _ret(warp: Warp, instruction: Instruction, mask: Mask) -> None:
    for entry in warp.stack:
        entry.mask = entry.mask & ~mask


def _trap(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    if mask.any():
        lane = int(mask.argmax())
        raise Trap(warp.word, warp.block_of(lane), warp.thread_of(lane))


SEMANTICS = {Op.NOP: _nop, Op.TRAP: _trap, Op.NANOSLEEP: _nop}
"""Opcodes that do not change the control flow; those that sleep end a round (``cta``)."""

ON_STACK = {Op.BRA: _bra, Op.RET: _ret}
"""Opcodes that change a warp's stack."""
