"""Barriers: a wait is a call through the thread state, opaque to LLVM."""

from typing import Final

from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.progress import wait_points
from vgpu_sim.exec.jit.text.lane_loop import LaneOf, emit_lane_loop
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.exec.jit.values.launch import (
    THREAD_CANCEL,
    THREAD_CLUSTER,
    THREAD_MEET,
    THREAD_STOP,
)
from vgpu_sim.isa import DataType, Op, Reduction


def _stop(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    """Wait for the other groups of the block; if it has no others, emit only a compiler fence."""
    text, instruction = emitter.text, node.instruction
    counted = wait_points.needs_counting(emitter.analysis.ssa, emitter.analysis.geometry)
    if emitter.analysis.geometry.groups == 1 and not counted:
        text.do('fence syncscope("singlethread") seq_cst')
        return
    arguments = ["ptr %thread"]
    if counted:
        for source in node.sources[:2]:
            arguments.append(f"i32 {emitter.values.read(source, 'i32', Form.BASE, 0, clean=True)}")
        how = 8 * node.word + (instruction.op is not Op.BAR_ARRIVE)
        if instruction.reduction is not None:
            how += 2 * _REDUCTIONS[instruction.reduction]
        arguments += [f"i32 {how}", f"i32 {_ballot(emitter, node, mask)}"]
    callee = emitter.launch.thread(THREAD_MEET if counted else THREAD_STOP, "ptr")
    stop_label, onward, origin = text.label("stops"), text.label("onward"), text.block_label
    if mask.scalar is not None:
        text.branch(mask.scalar, stop_label, onward)
        text.begin(stop_label, follows=True)
    if not counted:
        text.do(f"call void {callee}({', '.join(arguments)})")
        outcome = ""
    else:
        outcome = text.let(f"call i32 {callee}({', '.join(arguments)})")
    if mask.scalar is not None:
        text.jump(onward)
        text.begin(onward, follows=True)
        if outcome:
            outcome = text.phi("i32", (outcome, stop_label), ("0", origin))
    if instruction.op is Op.BAR_RED:
        emitter.define(node, lambda form, part: _outcome(emitter, node, form, outcome))


def _meet_cluster(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    """Arrive at the barrier of the cluster, or wait for it."""
    text = emitter.text
    callee = emitter.launch.thread(THREAD_CLUSTER, "ptr")
    meet_label, onward = text.label("meets"), text.label("onward")
    if mask.scalar is not None:
        text.branch(mask.scalar, meet_label, onward)
        text.begin(meet_label, follows=True)
    how = 2 * node.word + (node.instruction.op is Op.CLUSTER_WAIT)
    text.do(f"call void {callee}(ptr %thread, i32 {how})")
    if mask.scalar is not None:
        text.jump(onward)
        text.begin(onward, follows=True)


def _cancel(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    """Cancel one cluster that has not started for each lane."""
    text, values = emitter.text, emitter.values
    callee = emitter.launch.thread(THREAD_CANCEL, "ptr")
    lanes = None if mask.full else emitter.masks.flat(mask)

    def cancel(lane_of: LaneOf) -> list[str]:
        return [text.let(f"call i64 {callee}(ptr %thread)")]

    vectors = [
        emit_lane_loop(text, lanes[part] if lanes else None, ["i64"], cancel)[0]
        for part in range(values.vectors)
    ]
    emitter.define(node, lambda form, part: (values.in_form(vectors[part], "i64", form), "i64"))


def _ballot(emitter: Emitter, node: Operation, mask: Mask) -> str:
    """Return the number of arriving lanes, plus 2^16 times the number of those with a true
    operand.
    """
    if node.instruction.op is not Op.BAR_RED:
        return "0"
    text, masks, values = emitter.text, emitter.masks, emitter.values
    present = masks.flat(mask)
    true = [
        masks.lanes_in_both(lanes, values.read(node.sources[2], "i1", Form.VECTOR, part))
        for part, lanes in enumerate(present)
    ]
    counts = []
    for vectors in (present, true):
        total = "0"
        for lanes in vectors:
            bits = text.let(f"bitcast {text.type_of('i1', True)} {lanes} to i{text.width}")
            wide = bits if text.width == 32 else text.let(f"zext i{text.width} {bits} to i32")
            count = text.intrinsic("ctpop", "i32", False, wide)
            total = text.let(f"add i32 {total}, {count}")
        counts.append(total)
        text.shared.declarations.add(
            f"declare i{text.width} @llvm.ctpop.i{text.width}(i{text.width})"
        )
    return text.let(f"or i32 {counts[0]}, {text.let(f'shl i32 {counts[1]}, 16')}")


def _outcome(emitter: Emitter, node: Operation, form: Form, outcome: str) -> tuple[str, str]:
    text, scalar = emitter.text, "i32"
    if node.instruction.type is DataType.PRED:
        outcome, scalar = text.let(f"icmp ne i32 {outcome}, 0"), "i1"
    return (text.splat(scalar, outcome) if form is Form.VECTOR else outcome), scalar


_REDUCTIONS: Final = {Reduction.POPC: 1, Reduction.AND: 2, Reduction.OR: 3}

LOWERING: Final[dict[Op, Lowering]] = {
    Op.BAR_SYNC: _stop,
    Op.BAR_ARRIVE: _stop,
    Op.BAR_RED: _stop,
    Op.CLUSTER_ARRIVE: _meet_cluster,
    Op.CLUSTER_WAIT: _meet_cluster,
    Op.CANCEL: _cancel,
}
