"""Control flow: what is left of it in the nodes of a block."""

from typing import Final

from vgpu_sim.exec.jit.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.launch import THREAD_TRAP_WORD
from vgpu_sim.exec.jit.masks import Mask
from vgpu_sim.exec.jit.ssa import Operation
from vgpu_sim.isa import Op

GRAPH: Final = frozenset({Op.NOP, Op.BRA, Op.RET})
"""These become the graph before nodes are written (see ``ssa`` and ``regions``)."""


def _trap(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    text = emitter.text
    here, onward = text.label("trapped"), text.label("untrapped")
    text.branch(emitter.masks.any(mask), here, onward)
    with text.known.within():
        text.begin(here, follows=True)
        place = text.let(f"getelementptr i8, ptr %thread, i64 {THREAD_TRAP_WORD}")
        text.do(f"store i32 {node.word + 1}, ptr {place}, align 4")
        text.jump(emitter.labels["trap"])
    text.begin(onward, follows=True)


LOWERING: Final[dict[Op, Lowering]] = {Op.TRAP: _trap}
