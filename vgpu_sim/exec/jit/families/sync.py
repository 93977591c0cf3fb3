"""Barriers: a stop is one call through the thread state, opaque to the code generator."""

from typing import Final

from vgpu_sim.exec.jit import stops
from vgpu_sim.exec.jit.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.launch import THREAD_MEET, THREAD_STOP
from vgpu_sim.exec.jit.masks import Mask
from vgpu_sim.exec.jit.ssa import Operation
from vgpu_sim.exec.jit.values import Form
from vgpu_sim.isa import Op


def _stop(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    """Wait for the other groups; the only one of a block just orders its accesses."""
    text = emitter.text
    counted = stops.counted(emitter.analysis.ssa)
    if emitter.analysis.geometry.groups == 1 and not counted:
        text.do('fence syncscope("singlethread") seq_cst')
        return
    arguments = ["ptr %thread"]
    if counted:
        for source in node.sources:
            arguments.append(f"i32 {emitter.values.read(source, 'i32', Form.BASE, 0, clean=True)}")
        arguments.append(f"i32 {2 * node.word + (node.instruction.op is Op.BAR_SYNC)}")
    callee = emitter.launch.thread(THREAD_MEET if counted else THREAD_STOP, "ptr")
    here, onward = text.label("stops"), text.label("onward")
    if mask.scalar is not None:
        text.branch(mask.scalar, here, onward)
        text.begin(here, follows=True)
    text.do(f"call void {callee}({', '.join(arguments)})")
    if mask.scalar is not None:
        text.jump(onward)
        text.begin(onward, follows=True)


LOWERING: Final[dict[Op, Lowering]] = {Op.BAR_SYNC: _stop, Op.BAR_ARRIVE: _stop}
