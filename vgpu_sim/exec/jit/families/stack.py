"""A thread's local memory as a whole: its size and its generic address."""

from typing import Final

from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.values.launch import CONTEXT_LOCAL_BYTES
from vgpu_sim.isa import Op


def _local_bytes(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    value = emitter.launch.context(CONTEXT_LOCAL_BYTES)
    narrow = emitter.launch.emit_once(
        "local bytes", lambda: emitter.text.let(f"trunc i64 {value} to i32")
    )
    emitter.define(node, lambda form, part: (narrow, "i32"))


def _local_window(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    window = emitter.launch.local_window()

    def write() -> str:
        upper = emitter.text.let(f"lshr i64 {window}, 32")
        return emitter.text.let(f"trunc i64 {upper} to i32")

    upper = emitter.launch.emit_once("local window's upper half", write)
    emitter.define(node, lambda form, part: (upper, "i32"))


LOWERING: Final[dict[Op, Lowering]] = {
    Op.LOCAL_BYTES: _local_bytes,
    Op.LOCAL_WINDOW: _local_window,
}
