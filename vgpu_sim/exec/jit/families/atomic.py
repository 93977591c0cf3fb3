"""Atomic updates, lane by lane where lanes may have the same address; fences.

Lanes whose generic addresses are in local memory update memory of their own, all at once.
"""

from typing import Final

from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation, Value
from vgpu_sim.exec.jit.memory import atomic_updates, shared_memory
from vgpu_sim.exec.jit.memory.access import Access, Where
from vgpu_sim.exec.jit.memory.combined_sums import Table, is_sum
from vgpu_sim.exec.jit.memory.pointers import Pointers
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Vector, to_signed
from vgpu_sim.exec.jit.text.lane_loop import (
    LaneOf,
    emit_for_lanes,
    emit_lane_loop,
    first_lane_extractor,
    one_by_one,
)
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import Text, integer
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.isa import DataType, Op, Order, Scope, Update
from vgpu_sim.isa.families.atomic import is_pair

_HERE = 'fence syncscope("singlethread") seq_cst'


def _update(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    access = emitter.memory.access(node)
    emitter.text.do(_HERE)
    columns = _update_all(emitter, node, access, mask)
    for place, result in enumerate(node.results):
        if result is not None and result in emitter.used:
            _define(emitter, node, result, [column[place] for column in columns])
    emitter.text.do(_HERE)


def _update_all(emitter: Emitter, node: Operation, access: Access, mask: Mask) -> list[list[str]]:
    """Emit the updates of all lanes. Return the former values for each vector of lanes, if the
    kernel uses them.
    """
    # An mbarrier object is in shared memory: in local memory, its address is invalid.
    local = node.instruction.update not in atomic_updates.MBARRIER
    split = emitter.memory.split_local(access, mask) if local else None
    if split is None:
        return _update_common(emitter, node, access, mask)
    text, (own, common_mask) = emitter.text, split
    former_values = emitter.memory.update_local(
        access, own, lambda part, elements: _replacements(emitter, node, part, elements)
    )
    if common_mask is None:
        return former_values
    elsewhere = _update_common(emitter, node, access, common_mask)
    if emitter.used.isdisjoint(node.results):
        return []
    return [
        [
            text.select(flags, a, b, access.scalar, True)
            for a, b in zip(mine, common_values, strict=True)
        ]
        for flags, mine, common_values in zip(
            emitter.masks.flat(own), former_values, elsewhere, strict=True
        )
    ]


def _replacements(emitter: Emitter, node: Operation, part: int, elements: list[str]) -> list[str]:
    """Return the values with which the lanes of a vector replace elements of their own."""
    text, instruction, count = emitter.text, node.instruction, len(elements)
    operands, scalar = _operands(emitter, node, part), integer(instruction.type.bits)
    if instruction.update is not Update.CAS:
        return [
            atomic_updates.updated_value(text, instruction, m, b, vector=True)
            for m, b in zip(elements, operands, strict=True)
        ]
    type_, flags = (text.type_of(t, vector=True) for t in (scalar, "i1"))
    is_equal, *further = (
        text.let(f"icmp eq {type_} {m}, {b}") for m, b in zip(elements, operands, strict=False)
    )
    for equality in further:
        is_equal = text.let(f"and {flags} {is_equal}, {equality}")
    return [
        text.select(is_equal, new, m, scalar, True)
        for m, new in zip(elements, operands[count:], strict=True)
    ]


def _update_common(
    emitter: Emitter, node: Operation, access: Access, mask: Mask
) -> list[list[str]]:
    """Emit updates of memory that lanes have in common; return as ``_update_all`` does."""
    if _may_join(emitter, node, access):
        _join(emitter, node, access, mask)
        return []
    lanes = None if mask.full else emitter.masks.flat(mask)
    return [
        _part(emitter, node, access, part, lanes[part] if lanes else None)
        for part in range(emitter.values.vectors)
    ]


def _define(emitter: Emitter, node: Operation, result: Value, vectors: list[str]) -> None:
    type_ = node.instruction.type

    def fill(form: Form, part: int) -> str:
        element_type = integer(type_.bits)
        formed = emitter.values.in_form(vectors[part], element_type, form)
        return emitter.values.extend_to_storage(
            formed, element_type, result, form, signed=type_.is_signed
        )

    emitter.values.define(result, fill)


def _may_join(emitter: Emitter, node: Operation, access: Access) -> bool:
    """Return whether one update can serve all lanes.

    This requires that they update the same integer and that its former value is unused.
    """
    instruction = node.instruction
    is_uniform = isinstance(access.shape, Affine) and access.shape.uniform
    silent = emitter.used.isdisjoint(node.results)
    integral = not instruction.type.is_float and instruction.update in atomic_updates.JOINABLE
    return is_uniform and silent and integral


def _join(emitter: Emitter, node: Operation, access: Access, mask: Mask) -> None:
    text, masks = emitter.text, emitter.masks
    lanes = None if mask.full else list(masks.flat(mask))
    rows = [_operands(emitter, node, part)[0] for part in range(emitter.values.vectors)]
    total = atomic_updates.reduce_lanes(text, node.instruction, rows, lanes)
    pointer = emitter.memory.pointers.of_vector(access, 0)
    apply = atomic_updates.plainly if _alone(access) else atomic_updates.atomically
    if mask.full:
        apply(text, node.instruction, pointer, [total], "")
        return
    update_label, onward = text.label("update"), text.label("updated")
    text.branch(masks.any(mask), update_label, onward)
    text.begin(update_label, follows=True)
    with text.known.open_scope():
        apply(text, node.instruction, pointer, [total], "")
        text.jump(onward)
    text.begin(onward, follows=True)


def _part(
    emitter: Emitter, node: Operation, access: Access, part: int, lanes: str | None
) -> list[str]:
    """Emit the updates of one vector of lanes; return vectors of the former values."""
    text, pointers, instruction = emitter.text, emitter.memory.pointers, node.instruction
    scalar, operands = integer(instruction.type.bits), _operands(emitter, node, part)
    apply = atomic_updates.plainly if _alone(access) else atomic_updates.atomically
    table = emitter.memory.table if is_sum(emitter.analysis.ssa, node) else None
    if not isinstance(access.shape, Vector):
        table = None
    result_count = 0 if emitter.used.isdisjoint(node.results) else len(node.results)
    form = _form(access)
    address = emitter.values.read(access.address, access.address_type, form, part)
    common_pointer = "" if form is Form.VECTOR else pointers.of_vector(access, part)
    if (
        common_pointer
        and result_count
        and instruction.update is Update.ADD
        and not instruction.type.is_float
    ):
        return [_add_together(emitter, node, access, common_pointer, operands[0], lanes)]

    def wait(table: Table, lane_of: LaneOf, value: str) -> None:
        where = text.let(f"add i64 {lane_of(address, 'i64')}, {to_signed(access.displacement, 64)}")
        table.add(where, lambda: _place(pointers, access, address, lane_of), value)

    def serve(lane_of: LaneOf) -> list[str]:
        if table is not None:
            wait(table, lane_of, lane_of(operands[0], scalar))
            return []
        place_of_lane, pointer = address, common_pointer
        if not common_pointer:
            place_of_lane = lane_of(address, access.address_type)
            pointer = _place(pointers, access, address, lane_of)
        flushed = _flush_flag(emitter, node, access, place_of_lane)
        if is_pair(instruction):
            lane = [lane_of(value, scalar) for value in operands]
            halves = atomic_updates.exchange_pair(
                text, instruction, pointer, lane, alone=_alone(access)
            )
            return halves if result_count else []
        former_values = []
        for place in range(access.count):
            where = pointers.offset_pointer(pointer, place * access.element_bytes)
            values = operands[place : place + 1] if access.count > 1 else operands
            lane = [lane_of(value, scalar) for value in values]
            former_values.append(apply(text, instruction, where, lane, flushed))
        return former_values if result_count else []

    # Float updates take many instructions: emit them once, in a loop.
    if result_count or instruction.type.is_float:
        return emit_lane_loop(text, lanes, [scalar] * result_count, serve)

    def whole() -> None:
        """Emit a run-time test of whether all lanes have the same address.

        If they have, one update serves all of them, else each lane has its own.
        """
        together, separately, onward = (text.label(hint) for hint in ("one", "several", "updated"))
        text.branch(_all_alike(text, address, access.address_type), together, separately)
        text.begin(together, follows=True)
        with text.known.open_scope():
            total = atomic_updates.reduce_lanes(text, instruction, operands, None)
            if table is not None:
                wait(table, first_lane_extractor(text), total)
            else:
                pointer = _place(pointers, access, address, first_lane_extractor(text))
                apply(text, instruction, pointer, [total], "")
            text.jump(onward)
        text.begin(separately, follows=True)
        with text.known.open_scope():
            one_by_one(text, serve)
            text.jump(onward)
        text.begin(onward, follows=True)
        text.known.invalidate_loads()

    joins = (
        not common_pointer and access.count == 1 and instruction.update in atomic_updates.JOINABLE
    )
    emit_for_lanes(text, lanes, serve, whole if joins and text.width > 1 else None)
    return []


def _place(pointers: Pointers, access: Access, addresses: str, lane_of: LaneOf) -> str:
    """Return the pointer of a lane whose address is in a vector."""
    address = lane_of(addresses, access.address_type)
    if access.where is not Where.SHARED:
        return pointers.of_lane(access, address)
    wide = lane_of(addresses, access.address_type, wide=True)
    return pointers.of_shared_lane(access, address, wide)


def _all_alike(text: Text, vector: str, scalar: str) -> str:
    """Return whether all lanes hold the same value."""
    type_, flags = text.type_of(scalar, vector=True), text.type_of("i1", vector=True)
    first = first_lane_extractor(text)(vector, scalar)
    equal = text.let(f"icmp eq {type_} {vector}, {text.splat(scalar, first)}")
    return text.call("i1", f"llvm.vector.reduce.and.v{text.width}i1", (flags, equal))


def _add_together(
    emitter: Emitter, node: Operation, access: Access, pointer: str, row: str, lanes: str | None
) -> str:
    """Add the operands of all lanes by one update, and compute each lane's former value.

    The former values follow from prefix sums of the operands.
    """
    text, scalar = emitter.text, integer(node.instruction.type.bits)
    type_ = text.type_of(scalar, vector=True)
    apply = atomic_updates.plainly if _alone(access) else atomic_updates.atomically
    if lanes is not None:
        row = text.select(lanes, row, text.const(0, scalar, True), scalar, True)
    sums = atomic_updates.prefix_sums(text, scalar, row)
    total = text.let(f"extractelement {type_} {sums}, i64 {text.width - 1}")
    if lanes is None:
        former_value = apply(text, node.instruction, pointer, [total], "")
    else:
        origin, update_label, onward = text.block_label, text.label("update"), text.label("updated")
        text.branch(emitter.masks.any_lane(lanes), update_label, onward)
        text.begin(update_label, follows=True)
        with text.known.open_scope():
            updated = apply(text, node.instruction, pointer, [total], "")
            end = text.block_label
            text.jump(onward)
        text.begin(onward, follows=True)
        former_value = text.phi(scalar, (updated, end), ("0", origin))
    earlier = text.let(f"sub {type_} {sums}, {row}")
    return text.let(f"add {type_} {text.splat(scalar, former_value)}, {earlier}")


def _form(access: Access) -> Form:
    """Return the form in which the address is read: scalar if uniform over a vector of lanes."""
    if isinstance(access.shape, Vector) or access.shape.stride:
        return Form.VECTOR
    return Form.BASE if isinstance(access.shape, Affine) else Form.SCALAR


def _flush_flag(emitter: Emitter, node: Operation, access: Access, address: str) -> str:
    """Return whether subnormal numbers are flushed: only in F32 sums in global memory."""
    if (node.instruction.type, node.instruction.update) != (DataType.F32, Update.ADD):
        return ""
    if access.where is Where.EITHER:
        _, inside = shared_memory.window_pointer(emitter.text, emitter.launch, address)
        return emitter.text.let(f"xor i1 {inside}, true")
    return "true" if access.where is Where.GLOBAL else ""


def _operands(emitter: Emitter, node: Operation, part: int) -> list[str]:
    scalar = integer(node.instruction.type.bits)
    return [
        emitter.values.read(source, scalar, Form.VECTOR, part, clean=True)
        for source in node.sources[1:]
    ]


def _alone(access: Access) -> bool:
    """Return whether no other worker thread accesses this memory."""
    return access.where in (Where.SHARED, Where.WINDOW)


def _fence(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    """Emit a fence; it also orders accesses of lanes outside the mask, which is harmless."""
    instruction = node.instruction
    if instruction.scope is Scope.CTA:  # all threads of a block run on one worker thread
        emitter.text.do(_HERE)
    else:
        order = "seq_cst" if instruction.order is Order.SC else "acq_rel"
        emitter.text.do(f"fence {order}")


LOWERING: Final[dict[Op, Lowering]] = {Op.ATOM: _update, Op.RED: _update, Op.FENCE: _fence}
