"""Moves, which do not change bit patterns, and special registers, which depend on the group's
position in the grid.
"""

from collections.abc import Sequence
from typing import Final

from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import Text, integer
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.exec.jit.values.launch import (
    CONTEXT_CLUSTER,
    CONTEXT_CLUSTER_EXPLICIT,
    CONTEXT_CLUSTER_STEP,
    CONTEXT_DYNAMIC_SHARED,
    CONTEXT_GRID,
    CONTEXT_GRID_ID,
    CONTEXT_MULTIPROCESSORS,
    CONTEXT_TIMER_NS,
    CONTEXT_TIMER_SCALE,
)
from vgpu_sim.isa import Op, SpecialRegister
from vgpu_sim.isa.families.move import CLUSTER_RANK_BITS, FIRST_RANK_FIELD, MAX_MAPPED_RANK


def _mov(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    scalar = integer(node.instruction.type.bits)
    emitter.define(node, lambda form, part: (emitter.patterns(node, form, part)[0], scalar))


def _s2r(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    register = node.instruction.sreg
    assert register is not None
    if register.is_clock:
        clock = _counter(emitter) if register is SpecialRegister.CLOCK64 else _timer(emitter)
        emitter.define(node, lambda form, part: (clock, "i64"))
        return
    scalar = integer(register.bits)
    emitter.define(node, lambda form, part: (_special(emitter, register, form, part), scalar))


def _selp(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    values, bits = emitter.values, node.instruction.type.bits
    result = node.results[0]
    is_same_width = result is not None and result.bits == bits
    scalar = values.types[result] if result is not None and is_same_width else integer(bits)
    clean = not is_same_width or node in emitter.nans.cleaning
    sure = emitter.assumed_operand(node)

    def compute(form: Form, part: int) -> tuple[str, str]:
        if sure is not None:
            return values.read(sure, scalar, form, part, clean=clean), scalar
        a, b = (values.read(s, scalar, form, part, clean=clean) for s in node.sources[:2])
        flag = values.read(node.sources[2], "i1", form, part)
        return emitter.text.select(flag, a, b, scalar, form is Form.VECTOR), scalar

    emitter.define(node, compute)


_IN_CONTEXT: Final = {
    SpecialRegister.NCTAID_X: CONTEXT_GRID,
    SpecialRegister.NCTAID_Y: CONTEXT_GRID + 4,
    SpecialRegister.NCTAID_Z: CONTEXT_GRID + 8,
    SpecialRegister.DYNAMIC_SHARED: CONTEXT_DYNAMIC_SHARED,
    SpecialRegister.NSMID: CONTEXT_MULTIPROCESSORS,
    SpecialRegister.GRIDID: CONTEXT_GRID_ID,
    SpecialRegister.CLUSTER_NCTAID_X: CONTEXT_CLUSTER,
    SpecialRegister.CLUSTER_NCTAID_Y: CONTEXT_CLUSTER + 4,
    SpecialRegister.CLUSTER_NCTAID_Z: CONTEXT_CLUSTER + 8,
    SpecialRegister.CLUSTER_EXPLICIT: CONTEXT_CLUSTER_EXPLICIT,
}


def _special(emitter: Emitter, register: SpecialRegister, form: Form, part: int) -> str:
    specials = emitter.specials
    if register is SpecialRegister.LANEID or register <= SpecialRegister.TID_Z:
        return _thread_index(emitter, register, form, part)
    if SpecialRegister.CTAID_X <= register <= SpecialRegister.CTAID_Z:
        return specials.block[register - SpecialRegister.CTAID_X]
    if register is SpecialRegister.SHARED_WINDOW:
        upper = emitter.text.let(f"lshr i64 {emitter.launch.window()}, 32")
        return emitter.text.let(f"trunc i64 {upper} to i32")
    return emitter.launch.context(_IN_CONTEXT[register], integer(register.bits))


def _mapa(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    """Emit MAPA. The distance of the blocks' memory is loaded, because LLVM would otherwise
    conclude that addresses with and without a rank are never those of the same byte.
    """
    values, text, bits = emitter.values, emitter.text, node.instruction.type.bits
    scalar = integer(bits)

    def compute(form: Form, part: int) -> tuple[str, str]:
        vector = form is Form.VECTOR
        words, ranks = text.type_of(scalar, vector), text.type_of("i32", vector)
        where = values.read(node.sources[0], scalar, form, part)
        rank = values.read(node.sources[1], "i32", form, part)
        greatest_rank = text.const(MAX_MAPPED_RANK, "i32", vector)
        rank = text.intrinsic("umin", "i32", vector, rank, greatest_rank)
        rank = text.let(f"add {ranks} {rank}, {text.const(FIRST_RANK_FIELD, 'i32', vector)}")
        step = emitter.launch.context(CONTEXT_CLUSTER_STEP, "i64")
        if bits == 32:
            step = text.let(f"trunc i64 {step} to i32")
        else:
            rank = text.let(f"zext {ranks} {rank} to {words}")
        if vector:
            step = text.splat(scalar, step)
        address_mask = text.const((1 << bits) - 1 - CLUSTER_RANK_BITS, scalar, vector)
        where = text.let(f"and {words} {where}, {address_mask}")
        distance = text.let(f"mul {words} {rank}, {step}")
        return text.let(f"add {words} {where}, {distance}"), scalar

    emitter.define(node, compute)


def _counter(emitter: Emitter) -> str:
    """Read the time stamp counter, once for all lanes of the group."""
    text = emitter.text
    text.shared.declarations.add("declare i64 @llvm.readcyclecounter()")
    name = text.name()
    text.do(f"{name} = call i64 @llvm.readcyclecounter()")
    return name


def _timer(emitter: Emitter) -> str:
    text, launch = emitter.text, emitter.launch
    scale, begin = launch.context(CONTEXT_TIMER_SCALE), launch.context(CONTEXT_TIMER_NS)
    wide = [text.let(f"zext i64 {value} to i128") for value in (_counter(emitter), scale)]
    product = text.let(f"mul i128 {wide[0]}, {wide[1]}")
    past = text.let(f"trunc i128 {text.let(f'lshr i128 {product}, 32')} to i64")
    return text.let(f"add i64 {begin}, {past}")


def _thread_index(emitter: Emitter, register: SpecialRegister, form: Form, part: int) -> str:
    text, geometry = emitter.text, emitter.analysis.geometry
    lane_id = register is SpecialRegister.LANEID
    axis = None if lane_id else geometry.axes()[register]
    if lane_id and form is Form.BASE:
        return text.let(f"and i32 {emitter.specials.first}, 31")
    if lane_id and form is Form.SCALAR:
        base = text.let(f"and i32 {emitter.specials.first}, 31")
        return text.let(f"add i32 {base}, {part * geometry.width}")
    if lane_id:
        lanes = _linear(emitter, part)
        return text.let(f"and {text.type_of('i32', True)} {lanes}, splat (i32 31)")
    if axis is None:
        return _index_on_line(emitter, register, part)
    base, row = emitter.specials.thread[register], axis.rows[part]
    if form is Form.BASE:
        return base
    if form is Form.SCALAR:
        return text.let(f"add i32 {base}, {row[0]}")
    return _spread(text, base, row)


def _spread(text: Text, base: str, row: Sequence[int]) -> str:
    type_ = text.type_of("i32", vector=True)
    return text.let(f"add {type_} {text.splat('i32', base)}, {text.lanes('i32', row)}")


def _linear(emitter: Emitter, part: int) -> str:
    """Return the linear thread indices of a vector's lanes."""
    text, geometry, specials = emitter.text, emitter.analysis.geometry, emitter.specials
    if geometry.linear:
        start = part * geometry.width
        return _spread(text, specials.first, range(start, start + geometry.width))
    type_ = text.type_of("i32", vector=True)
    indices = [
        _spread(text, base, axis.rows[part])
        for base, axis in zip(specials.thread, geometry.axes(), strict=True)
        if axis is not None
    ]
    linear_index = indices[2]
    for size, index in zip(geometry.block[1::-1], indices[1::-1], strict=True):
        product = text.let(f"mul {type_} {linear_index}, splat (i32 {size})")
        linear_index = text.let(f"add {type_} {product}, {index}")
    return linear_index


def _index_on_line(emitter: Emitter, register: SpecialRegister, part: int) -> str:
    """Compute a thread index of lanes that are numbered linearly through all rows."""
    text, (x, y, _) = emitter.text, emitter.analysis.geometry.block
    type_ = text.type_of("i32", vector=True)
    lanes = _linear(emitter, part)
    divisor = {SpecialRegister.TID_X: 1, SpecialRegister.TID_Y: x, SpecialRegister.TID_Z: x * y}
    if divisor[register] > 1:
        lanes = text.let(f"udiv {type_} {lanes}, splat (i32 {divisor[register]})")
    if register is SpecialRegister.TID_Z:
        return lanes
    size = x if register is SpecialRegister.TID_X else y
    return text.let(f"urem {type_} {lanes}, splat (i32 {size})")


LOWERING: Final[dict[Op, Lowering]] = {Op.MOV: _mov, Op.S2R: _s2r, Op.SELP: _selp, Op.MAPA: _mapa}
