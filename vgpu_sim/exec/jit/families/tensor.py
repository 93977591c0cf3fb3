"""TMMA: a call of the worker's code for each lane, through the thread state."""

from typing import Final

from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.text.lane_loop import LaneOf, emit_lane_loop
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.exec.jit.values.launch import THREAD_MULTIPLY, THREAD_SHARED_BASE
from vgpu_sim.hal.compute.tensor_memory import TENSOR_WORDS
from vgpu_sim.isa import Op

_WORD_BYTES: Final = 4


def _multiply(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    text, values = emitter.text, emitter.values
    callee = emitter.launch.thread(THREAD_MULTIPLY, "ptr")
    base = emitter.launch.thread(THREAD_SHARED_BASE, "ptr")
    place = text.name()
    text.prologue.append(f"  {place} = alloca [{TENSOR_WORDS} x i32], align 16")
    flat = None if mask.full else emitter.masks.flat(mask)
    outcomes: list[str] = []
    for part in range(values.vectors):
        words = [
            values.read(source, "i32", Form.VECTOR, part, clean=True) for source in node.sources
        ]

        def call(lane_of: LaneOf, words: list[str] = words) -> list[str]:
            for n, word in enumerate(words):
                at = text.let(f"getelementptr i8, ptr {place}, i64 {_WORD_BYTES * n}")
                text.do(f"store i32 {lane_of(word, 'i32')}, ptr {at}, align 4")
            return [text.let(f"call i32 {callee}(ptr {base}, ptr {place})")]

        outcomes += emit_lane_loop(text, flat[part] if flat else None, ["i32"], call)
    (result,) = node.results
    if result is None:
        return

    def produce(form: Form, part: int) -> str:
        value = values.in_form(outcomes[part], "i32", form)
        return values.extend_to_storage(value, "i32", result, form, signed=False)

    values.define(result, produce)


LOWERING: Final[dict[Op, Lowering]] = {Op.TMMA: _multiply}
