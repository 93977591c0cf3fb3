"""Comparisons: both results of SETP are computed from one comparison."""

from typing import Final

from vgpu_sim.exec.jit.analysis import comparison_outcomes
from vgpu_sim.exec.jit.analysis.nans import reads_number
from vgpu_sim.exec.jit.arithmetic.floats import flush, operand_type
from vgpu_sim.exec.jit.arithmetic.small_floats import SmallFloats
from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import Text, integer
from vgpu_sim.exec.jit.values.environment import Form
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
    may = comparison_outcomes.possible_outcomes(emitter.analysis, node, values.block)
    type_ = instruction.type
    small = type_ in (DataType.F16, DataType.BF16)
    scalar = operand_type(type_) if type_.is_float else integer(type_.bits)

    def outcome(form: Form, part: int) -> list[str]:
        if (form, part) not in written:
            vector = form is Form.VECTOR
            sure = _sure(may, part, text.width) if vector else None
            if sure is not None:
                flags = [text.const(flag, "i1", True) for flag in (sure, not sure)]
                written[form, part] = flags
                return flags
            args = [
                values.read(source, scalar, form, part, clean=not reads_number(source, type_))
                for source in node.sources[:2]
            ]
            if type_.is_float and instruction.ftz:
                args = [flush(text, arg, type_, vector) for arg in args]
            if small:
                floats = SmallFloats(text, vector)
                args = [floats.to_single(arg, type_) for arg in args]
            args += [values.read(s, "i1", form, part) for s in node.sources[2:]]
            written[form, part] = _outcomes(text, instruction, args, vector)
        return written[form, part]

    first, second = (*node.results, None)[:2]
    if first is not None:
        values.define(first, lambda form, c: outcome(form, c)[0])
    if second is not None:
        values.define(second, lambda form, c: outcome(form, c)[1])


def _sure(may: tuple[int, int] | None, part: int, width: int) -> bool | None:
    """Return the outcome of a comparison if it is known to be the same in a whole vector, else
    None.
    """
    if may is None:
        return None
    true, false = (lanes >> part * width & (1 << width) - 1 for lanes in may)
    return None if true and false else bool(true)


def _outcomes(text: Text, instruction: Instruction, args: list[str], vector: bool) -> list[str]:
    """Return both results of SETP as i1: ``compare combine c`` and ``!compare combine c``."""
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
        return "double" if type_ is DataType.F64 else "float"
    return integer(type_.bits)


LOWERING: Final[dict[Op, Lowering]] = {Op.SETP: _lower}
