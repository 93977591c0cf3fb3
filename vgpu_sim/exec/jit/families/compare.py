"""Comparison: both results of SETP come from one."""

from typing import Final

from vgpu_sim.exec.jit.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.floats import flush, operand_type
from vgpu_sim.exec.jit.masks import Mask
from vgpu_sim.exec.jit.soft_float import SoftFloat
from vgpu_sim.exec.jit.ssa import Operation
from vgpu_sim.exec.jit.text import Text, integer
from vgpu_sim.exec.jit.values import Form
from vgpu_sim.isa import BoolOp, Compare, DataType, Instruction, Op

_INTEGER_PREDICATES = {
    Compare.EQ: "eq",
    Compare.NE: "ne",
    Compare.LT: "lt",
    Compare.LE: "le",
    Compare.GT: "gt",
    Compare.GE: "ge",
}
_FLOAT_PREDICATES = {
    Compare.EQ: "oeq",
    Compare.NE: "one",
    Compare.LT: "olt",
    Compare.LE: "ole",
    Compare.GT: "ogt",
    Compare.GE: "oge",
    Compare.EQU: "ueq",
    Compare.NEU: "une",
    Compare.LTU: "ult",
    Compare.LEU: "ule",
    Compare.GTU: "ugt",
    Compare.GEU: "uge",
    Compare.NUM: "ord",
    Compare.NAN: "uno",
}


def _lower(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    text, values, instruction = emitter.text, emitter.values, node.instruction
    written: dict[tuple[Form, int], list[str]] = {}
    type_ = instruction.type
    small = type_ in (DataType.F16, DataType.BF16)
    scalar = operand_type(type_) if type_.is_float else integer(type_.bits)

    def outcome(form: Form, strip: int) -> list[str]:
        if (form, strip) not in written:
            vector = form is Form.VECTOR
            clean = not type_.is_float
            args = [
                values.read(source, scalar, form, strip, clean=clean) for source in node.sources[:2]
            ]
            if type_.is_float and instruction.ftz:
                args = [flush(text, arg, type_, vector) for arg in args]
            if small:
                soft = SoftFloat(text, vector)
                args = [soft.widen(arg, type_) for arg in args]
            args += [values.read(s, "i1", form, strip) for s in node.sources[2:]]
            written[form, strip] = _outcomes(text, instruction, args, vector)
        return written[form, strip]

    first, second = (*node.results, None)[:2]
    if first is not None:
        values.define(first, lambda form, c: outcome(form, c)[0])
    if second is not None:
        values.define(second, lambda form, c: outcome(form, c)[1])


def _outcomes(text: Text, instruction: Instruction, args: list[str], vector: bool) -> list[str]:
    """Both results of SETP as i1: ``compare combine c`` and ``!compare combine c``."""
    scalar = _compare_type(instruction.type)
    type_ = text.type_of(scalar, vector)
    assert instruction.compare is not None
    if instruction.type.is_float:
        predicate = f"fcmp {_FLOAT_PREDICATES[instruction.compare]}"
    else:
        predicate = _INTEGER_PREDICATES[instruction.compare]
        if predicate not in ("eq", "ne"):
            predicate = ("s" if instruction.type.is_signed else "u") + predicate
        predicate = f"icmp {predicate}"
    outcome = text.let(f"{predicate} {type_} {args[0]}, {args[1]}")
    flags = text.type_of("i1", vector)
    inverse = text.let(f"xor {flags} {outcome}, {text.const(1, 'i1', vector)}")
    if instruction.combine is BoolOp.NONE:
        return [outcome, inverse]
    operation = instruction.combine.name.lower()
    return [text.let(f"{operation} {flags} {flag}, {args[2]}") for flag in (outcome, inverse)]


def _compare_type(type_: DataType) -> str:
    if type_.is_float:
        return "float" if type_ is DataType.F32 else "double"
    return integer(type_.bits)


LOWERING: Final[dict[Op, Lowering]] = {Op.SETP: _lower}
