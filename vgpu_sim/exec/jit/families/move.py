"""Moves: patterns travel unchanged; special registers come from the group's place in the grid."""

from collections.abc import Sequence
from typing import Final

from vgpu_sim.exec.jit.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.launch import CONTEXT_GRID
from vgpu_sim.exec.jit.masks import Mask
from vgpu_sim.exec.jit.ssa import Operation
from vgpu_sim.exec.jit.text import integer
from vgpu_sim.exec.jit.values import Form
from vgpu_sim.isa import Op, SpecialRegister


def _mov(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    scalar = integer(node.instruction.type.bits)
    emitter.define(node, lambda form, strip: (emitter.patterns(node, form, strip)[0], scalar))


def _s2r(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    emitter.define(node, lambda form, strip: (_special(emitter, node, form, strip), "i32"))


def _selp(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    values, bits = emitter.values, node.instruction.type.bits
    result = node.results[0]
    same = result is not None and result.bits == bits
    scalar = values.types[result] if result is not None and same else integer(bits)
    clean = not same or node in emitter.nans.cleaning

    def compute(form: Form, strip: int) -> tuple[str, str]:
        a, b = (values.read(s, scalar, form, strip, clean=clean) for s in node.sources[:2])
        flag = values.read(node.sources[2], "i1", form, strip)
        return emitter.text.select(flag, a, b, scalar, form is Form.VECTOR), scalar

    emitter.define(node, compute)


def _special(emitter: Emitter, node: Operation, form: Form, strip: int) -> str:
    specials = emitter.specials
    register = node.instruction.sreg
    assert register is not None
    if register is SpecialRegister.LANEID or register <= SpecialRegister.TID_Z:
        return _thread_index(emitter, register, form, strip)
    if SpecialRegister.CTAID_X <= register <= SpecialRegister.CTAID_Z:
        return specials.block[register - SpecialRegister.CTAID_X]
    assert SpecialRegister.NCTAID_X <= register <= SpecialRegister.NCTAID_Z
    axis = register - SpecialRegister.NCTAID_X
    return emitter.launch.context(CONTEXT_GRID + 4 * axis, "i32")


def _thread_index(emitter: Emitter, register: SpecialRegister, form: Form, strip: int) -> str:
    text, geometry = emitter.text, emitter.analysis.geometry
    if register is SpecialRegister.LANEID:
        base = text.let(f"and i32 {emitter.specials.first}, 31")
        first = strip * geometry.width
        row: Sequence[int] = range(first, first + geometry.width)
    else:
        base = emitter.specials.thread[register]
        row = geometry.axes()[register].rows[strip]
    if form is Form.BASE:
        return base
    if form is Form.SCALAR:
        return text.let(f"add i32 {base}, {row[0]}")
    type_ = text.type_of("i32", vector=True)
    spread = text.splat("i32", base)
    lanes = text.let(f"add {type_} {spread}, {text.lanes('i32', row)}")
    if register is SpecialRegister.LANEID:
        lanes = text.let(f"and {type_} {lanes}, splat (i32 31)")
    return lanes


LOWERING: Final[dict[Op, Lowering]] = {Op.MOV: _mov, Op.S2R: _s2r, Op.SELP: _selp}
