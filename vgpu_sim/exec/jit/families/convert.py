"""CVT between all numeric types (PTX ISA, "cvt")."""

from typing import Final

from vgpu_sim.exec.errors import CodeGenerationError
from vgpu_sim.exec.jit import fold
from vgpu_sim.exec.jit.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.floats import NATIVE, flush, operand_type, saturate
from vgpu_sim.exec.jit.masks import Mask
from vgpu_sim.exec.jit.soft_float import SoftFloat
from vgpu_sim.exec.jit.ssa import Operation
from vgpu_sim.exec.jit.support import DIRECTED
from vgpu_sim.exec.jit.text import Text, constant, integer
from vgpu_sim.exec.jit.values import Form
from vgpu_sim.isa import DataType, Instruction, Op, Rounding

_INTEGRAL = {
    Rounding.RNI: "roundeven",
    Rounding.RZI: "trunc",
    Rounding.RMI: "floor",
    Rounding.RPI: "ceil",
}


def _lower(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    instruction, source = node.instruction, node.sources[0]
    from_type = instruction.source_type
    assert from_type is not None
    plain = from_type.is_integer and instruction.type.is_integer and not instruction.saturate
    widens = plain and instruction.type.bits > from_type.bits
    scalar, result = _operand_llvm_type(instruction), _result_llvm_type(instruction)

    def compute(form: Form, strip: int) -> tuple[str, str]:
        if widens:
            return emitter.widened(node, source, from_type, form, strip), result
        value = emitter.values.read(source, scalar, form, strip, clean=from_type.is_integer)
        return _converted(emitter.text, instruction, value, form is Form.VECTOR), result

    emitter.define(node, compute)


def _operand_llvm_type(instruction: Instruction) -> str:
    """Return the LLVM type in which CVT's operand is read."""
    assert instruction.source_type is not None
    if instruction.source_type.is_float:
        return operand_type(instruction.source_type)
    return integer(instruction.source_type.bits)


def _result_llvm_type(instruction: Instruction) -> str:
    """Return the LLVM type of CVT's result."""
    if instruction.type.is_float:
        return operand_type(instruction.type)
    return integer(instruction.type.bits)


def _converted(text: Text, instruction: Instruction, value: str, vector: bool) -> str:
    """Return the converted value, as ``_result_llvm_type``."""
    source, target = instruction.source_type, instruction.type
    assert source is not None
    if instruction.ftz and source is DataType.F32:
        value = flush(text, value, source, vector)
    if source.is_float and target.is_float:
        value = _float_to_float(text, instruction, source, value, vector)
    elif source.is_float:
        return _float_to_integer(text, instruction, source, value, vector)
    elif target.is_float:
        value = _integer_to_float(text, instruction, source, value, vector)
    else:
        return _integer_to_integer(text, instruction, source, value, vector)
    if instruction.ftz and target is DataType.F32:
        value = flush(text, value, target, vector)
    return saturate(text, value, target, vector) if instruction.saturate else value


def _float_to_float(
    text: Text, instruction: Instruction, source: DataType, value: str, vector: bool
) -> str:
    target, rounding = instruction.type, instruction.rounding
    soft = SoftFloat(text, vector)
    scalar = NATIVE.get(source, "double")
    if source not in NATIVE:
        value = soft.widen(value, source)
    if rounding in _INTEGRAL:
        value = text.intrinsic(_INTEGRAL[rounding], scalar, vector, value)
        rounding = Rounding.RN
    held = text.type_of(scalar, vector)
    if target in NATIVE and rounding not in DIRECTED:
        wanted = NATIVE[target]
        if wanted == scalar:
            return value
        operation = "fpext" if scalar == "float" else "fptrunc"
        return text.let(f"{operation} {held} {value} to {text.type_of(wanted, vector)}")
    if scalar == "float":
        value = soft.widen(value, DataType.F32)
    if target is DataType.F64:  # widening is exact in every rounding
        return value
    return _rounded(text, soft, value, target, rounding, vector)


def _rounded(
    text: Text, soft: SoftFloat, value: str, target: DataType, rounding: Rounding, vector: bool
) -> str:
    """Return a double (exact, or rounded to odd) in the target format, as its ``operand_type``."""
    pattern = soft.narrow(value, target, rounding if rounding in DIRECTED else Rounding.RN)
    if target not in NATIVE:
        return pattern
    whole = text.type_of(integer(target.bits), vector)
    return text.let(f"bitcast {whole} {pattern} to {text.type_of(NATIVE[target], vector)}")


def _float_to_integer(
    text: Text, instruction: Instruction, source: DataType, value: str, vector: bool
) -> str:
    scalar = NATIVE.get(source, "double")
    if source not in NATIVE:
        value = SoftFloat(text, vector).widen(value, source)
    value = text.intrinsic(_INTEGRAL[instruction.rounding], scalar, vector, value)
    # Saturating is what both LLVM and the instruction set say, and 0 for NaN if all is narrow.
    lanes = text.width if vector else 0
    bits = instruction.type.bits
    target, held = integer(bits), text.type_of(scalar, vector)
    kind = "s" if instruction.type.is_signed else "u"
    name = f"llvm.fpto{kind}i.sat.{text.mangle(target, lanes)}.{text.mangle(scalar, lanes)}"
    result = text.call(text.type_of(target, vector), name, (held, value))
    if source is not DataType.F64 and bits < 64:
        return result
    is_nan = text.let(f"fcmp uno {held} {value}, {value}")
    return text.select(is_nan, text.const(1 << (bits - 1), target, vector), result, target, vector)


def _integer_to_float(
    text: Text, instruction: Instruction, source: DataType, value: str, vector: bool
) -> str:
    target, rounding = instruction.type, instruction.rounding
    held = text.type_of(integer(source.bits), vector)
    kind = "s" if source.is_signed else "u"
    if target in NATIVE and rounding not in DIRECTED:
        wanted = text.type_of(NATIVE[target], vector)
        return text.let(f"{kind}itofp {held} {value} to {wanted}")
    double = text.type_of("double", vector)
    soft = SoftFloat(text, vector)
    if source.bits < 64:
        exact = text.let(f"{kind}itofp {held} {value} to {double}")
        if target is DataType.F64:
            return exact
        return _rounded(text, soft, exact, target, rounding, vector)
    if target is DataType.F64:
        raise CodeGenerationError(f"CVT F64 {source.name} {rounding.name}")
    negative = ""
    if source.is_signed:
        zero = text.const(0, "i64", vector)
        negative = text.let(f"icmp slt {held} {value}, {zero}")
        negated = text.let(f"sub {held} {zero}, {value}")
        value = text.select(negative, negated, value, "i64", vector)
    exact = soft.magnitude_to_odd(value)
    if source.is_signed:
        minus = text.let(f"fneg {double} {exact}")
        exact = text.select(negative, minus, exact, "double", vector)
    return _rounded(text, soft, exact, target, rounding, vector)


def _integer_to_integer(
    text: Text, instruction: Instruction, source: DataType, value: str, vector: bool
) -> str:
    target = instruction.type
    if instruction.saturate:
        value = _clamp(text, source, target, value, vector)
    if source.bits == target.bits:
        return value
    held, wanted = (text.type_of(integer(t.bits), vector) for t in (source, target))
    operation = "trunc" if target.bits < source.bits else "sext" if source.is_signed else "zext"
    return text.let(f"{operation} {held} {value} to {wanted}")


def _clamp(text: Text, source: DataType, target: DataType, value: str, vector: bool) -> str:
    low, high = (
        chosen(pair)
        for chosen, pair in zip(
            (max, min),
            zip(fold.integer_range(source), fold.integer_range(target), strict=True),
            strict=True,
        )
    )
    scalar = integer(source.bits)
    kind = "s" if source.is_signed else "u"
    bounds = [constant(bound, scalar) for bound in (high, low)]
    if vector:
        bounds = [text.splat(scalar, bound) for bound in bounds]
    value = text.intrinsic(f"{kind}min", scalar, vector, value, bounds[0])
    return text.intrinsic(f"{kind}max", scalar, vector, value, bounds[1])


LOWERING: Final[dict[Op, Lowering]] = {Op.CVT: _lower}
