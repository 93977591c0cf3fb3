"""Control flow that remains in the nodes of a block: traps and sleeps."""

from typing import Final

from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation, Source
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.exec.jit.values.launch import THREAD_STATUS, THREAD_STOP, THREAD_TRAP_WORD
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.isa import Op, TrapCause
from vgpu_sim.isa.families.control import MAX_REST_NS

GRAPH: Final = frozenset({Op.NOP, Op.BRA, Op.RET})
"""Opcodes that become edges of the graph before nodes are emitted (see ``ssa`` and ``regions``)."""


STATUS: Final = {
    TrapCause.NONE: int(CudaError.LAUNCH_FAILED),
    TrapCause.STACK: int(CudaError.HARDWARE_STACK_ERROR),
    TrapCause.FUNCTION: int(CudaError.INVALID_PC),
    TrapCause.TARGET: int(CudaError.LAUNCH_FAILED),
    TrapCause.ASSERTION: int(CudaError.ASSERT),
    TrapCause.TENSOR_MEMORY: int(CudaError.LAUNCH_FAILED),
    TrapCause.TENSOR_OPERAND: int(CudaError.LAUNCH_FAILED),
    TrapCause.TENSOR_COPY: int(CudaError.ILLEGAL_INSTRUCTION),
    TrapCause.TENSOR_SATURATION: int(CudaError.LAUNCH_FAILED),
}
"""The final status of the context, for each cause of a trap."""


def _trap(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    text = emitter.text
    trap_label, onward = text.label("trapped"), text.label("untrapped")
    text.branch(emitter.masks.any(mask), trap_label, onward)
    with text.known.open_scope():
        text.begin(trap_label, follows=True)
        place = text.let(f"getelementptr i8, ptr %thread, i64 {THREAD_TRAP_WORD}")
        text.do(f"store i32 {node.word + 1}, ptr {place}, align 4")
        place = text.let(f"getelementptr i8, ptr %thread, i64 {THREAD_STATUS}")
        text.do(f"store i32 {STATUS[node.instruction.cause]}, ptr {place}, align 4")
        text.jump(emitter.labels["trap"])
    text.begin(onward, follows=True)


def _rest(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    """Yield to other groups for the shortest duration that a lane of the mask requests."""
    text, masks = emitter.text, emitter.masks
    (source,) = node.sources
    shape = emitter.values.shape(source, 32)
    if isinstance(shape, Affine) and shape.uniform:
        duration_ns = emitter.values.read(source, "i32", Form.BASE, 0)
    else:
        duration_ns = _least(emitter, source, mask)
    rest_label, onward = text.label("rests"), text.label("rested")
    text.branch(masks.any(mask), rest_label, onward)
    text.begin(rest_label, follows=True)
    with text.known.open_scope():
        shorter = text.intrinsic("umin", "i32", False, duration_ns, str(MAX_REST_NS))
        duration = text.let(f"zext i32 {shorter} to i64")
        callee = emitter.launch.thread(THREAD_STOP, "ptr")
        text.do(f"call void {callee}(ptr %thread, i64 {duration})")
        text.jump(onward)
    text.begin(onward, follows=True)
    text.known.invalidate_loads()


def _least(emitter: Emitter, source: Source, mask: Mask) -> str:
    text, type_ = emitter.text, emitter.text.type_of("i32", vector=True)
    minimum = text.const(MAX_REST_NS, "i32", vector=True)
    for part, lanes in enumerate(emitter.masks.flat(mask)):
        own = emitter.values.read(source, "i32", Form.VECTOR, part)
        longest = text.const(MAX_REST_NS, "i32", vector=True)
        own = text.select(lanes, own, longest, "i32", vector=True)
        minimum = text.intrinsic("umin", "i32", True, minimum, own)
    name = f"llvm.vector.reduce.umin.{text.mangle('i32', text.width)}"
    return text.call("i32", name, (type_, minimum))


LOWERING: Final[dict[Op, Lowering]] = {Op.TRAP: _trap, Op.NANOSLEEP: _rest}
