"""Conversion between all numeric types by CVT (PTX ISA, "cvt")."""

from typing import Final

from vgpu_sim.exec.jit.analysis.nans import reads_number
from vgpu_sim.exec.jit.arithmetic.directed_rounding import round_directed
from vgpu_sim.exec.jit.arithmetic.floats import (
    DIRECTED,
    NATIVE,
    flush,
    operand_type,
    relu,
    saturate,
)
from vgpu_sim.exec.jit.arithmetic.small_floats import SmallFloats
from vgpu_sim.exec.jit.arithmetic.tiny_floats import LAYOUTS, TinyFloats
from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import Text, constant, integer
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.isa import DataType, Instruction, Op, Rounding
from vgpu_sim.isa.spec import MINIFLOATS

_INTEGRAL = {
    Rounding.RNI: "roundeven",
    Rounding.RZI: "trunc",
    Rounding.RMI: "floor",
    Rounding.RPI: "ceil",
}
_TINY = (*MINIFLOATS, DataType.UE8M0)


def _lower(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    instruction, source = node.instruction, node.sources[0]
    from_type = instruction.source_type
    assert from_type is not None
    plain = from_type.is_integer and instruction.type.is_integer and not instruction.saturate
    widens = plain and instruction.type.bits > from_type.bits
    scalar, result = _operand_llvm_type(instruction), _result_llvm_type(instruction)

    def compute(form: Form, part: int) -> tuple[str, str]:
        if widens:
            return emitter.widen(node, source, from_type, form, part), result
        clean = not reads_number(source, from_type)
        value = emitter.values.read(source, scalar, form, part, clean=clean)
        return _convert(emitter.text, instruction, value, form is Form.VECTOR), result

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


def _convert(text: Text, instruction: Instruction, value: str, vector: bool) -> str:
    """Return the converted value in the type of ``_result_llvm_type``."""
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
    small = SmallFloats(text, vector)
    scalar = NATIVE.get(source, "float")
    if source in _TINY:
        value = _of_tiny(text, source, value, vector)
    elif source not in NATIVE:
        value = small.to_single(value, source)
    if target in _TINY or target is DataType.TF32:
        return _to_tiny(text, instruction, value, vector)
    if rounding in _INTEGRAL:
        value = text.intrinsic(_INTEGRAL[rounding], scalar, vector, value)
        rounding = Rounding.RN
    if target is DataType.F64:
        return value if scalar == "double" else small.to_double(value)
    result = _from_number(small, value, scalar, target, rounding)
    if instruction.finite:
        result = _finite(text, result, target, vector)
    return relu(text, result, target, vector) if instruction.relu else result


def _of_tiny(text: Text, source: DataType, pattern: str, vector: bool) -> str:
    """Convert a format of 8 bits to float."""
    tiny = TinyFloats(text, vector)
    short, word = text.type_of("i8", vector), text.type_of("i32", vector)
    wide = text.let(f"zext {short} {pattern} to {word}")
    return (
        tiny.from_power_of_two(wide) if source is DataType.UE8M0 else tiny.to_single(wide, source)
    )


def _to_tiny(text: Text, instruction: Instruction, single: str, vector: bool) -> str:
    """Round a float to TF32 or a format of 8 bits, as a pattern of its width."""
    tiny, target = TinyFloats(text, vector), instruction.type
    finite, negative_out = instruction.finite, instruction.relu
    if target is DataType.TF32:
        return tiny.tf32(single, instruction.rounding, finite=finite, relu=negative_out)
    if target is DataType.UE8M0:
        upward = instruction.rounding is Rounding.RP
        pattern = tiny.to_power_of_two(single, upward=upward, finite=finite)
    else:
        pattern = tiny.round_to_nearest(single, target)
        pattern = tiny.clamp_overflow(single, pattern, target, finite=finite, relu=negative_out)
    return text.let(
        f"trunc {text.type_of('i32', vector)} {pattern} to {text.type_of('i8', vector)}"
    )


def _finite(text: Text, pattern: str, type_: DataType, vector: bool) -> str:
    """Replace infinity of binary16 or bfloat16 by the largest number of its sign."""
    short = text.type_of("i16", vector)
    magnitude = text.let(f"and {short} {pattern}, {text.const(0x7FFF, 'i16', vector)}")
    infinity = text.const(LAYOUTS[type_].largest + 1, "i16", vector)
    infinite = text.let(f"icmp eq {short} {magnitude}, {infinity}")
    # The largest number's pattern immediately precedes that of infinity.
    less = text.let(f"sub {short} {pattern}, {text.const(1, 'i16', vector)}")
    return text.select(infinite, less, pattern, "i16", vector)


def _lower_stochastic(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    instruction, (number, chance) = node.instruction, node.sources
    target = instruction.type
    scalar = integer(target.bits)

    def compute(form: Form, part: int) -> tuple[str, str]:
        text, vector = emitter.text, form is Form.VECTOR
        single = emitter.values.read(number, "float", form, part, clean=True)
        bits = emitter.values.read(chance, "i32", form, part, clean=True)
        tiny = TinyFloats(text, vector)
        pattern = tiny.clamp_overflow(
            single,
            tiny.round_stochastically(single, target, bits),
            target,
            finite=instruction.finite,
            relu=instruction.relu,
        )
        word = text.type_of("i32", vector)
        return text.let(f"trunc {word} {pattern} to {text.type_of(scalar, vector)}"), scalar

    emitter.define(node, compute)


def _from_number(
    small: SmallFloats, value: str, scalar: str, target: DataType, rounding: Rounding
) -> str:
    """Round a float or double to a format that is not wider, as its ``operand_type``."""
    if target is DataType.F32:
        return value if scalar == "float" else small.round_to(value, "float", rounding)
    if scalar == "double":
        value = small.to_odd(value)
    return small.round_to_small(value, target, rounding)


def _float_to_integer(
    text: Text, instruction: Instruction, source: DataType, value: str, vector: bool
) -> str:
    scalar = NATIVE.get(source, "float")
    if source not in NATIVE:
        value = SmallFloats(text, vector).to_single(value, source)
    value = text.intrinsic(_INTEGRAL[instruction.rounding], scalar, vector, value)
    # LLVM and the instruction set both define saturation, with 0 for NaN if all types are narrow.
    lanes = text.width if vector else 0
    bits = instruction.type.bits
    target, source_type = integer(bits), text.type_of(scalar, vector)
    kind = "s" if instruction.type.is_signed else "u"
    name = f"llvm.fpto{kind}i.sat.{text.mangle(target, lanes)}.{text.mangle(scalar, lanes)}"
    result = text.call(text.type_of(target, vector), name, (source_type, value))
    if source is not DataType.F64 and bits < 64:
        return result
    is_nan = text.let(f"fcmp uno {source_type} {value}, {value}")
    return text.select(is_nan, text.const(1 << (bits - 1), target, vector), result, target, vector)


def _integer_to_float(
    text: Text, instruction: Instruction, source: DataType, value: str, vector: bool
) -> str:
    target, rounding = instruction.type, instruction.rounding
    source_type = text.type_of(integer(source.bits), vector)
    kind = "s" if source.is_signed else "u"
    if target in NATIVE and rounding not in DIRECTED:
        target_type = text.type_of(NATIVE[target], vector)
        return text.let(f"{kind}itofp {source_type} {value} to {target_type}")
    double = text.type_of("double", vector)
    small = SmallFloats(text, vector)
    if source.bits < 64:
        exact = text.let(f"{kind}itofp {source_type} {value} to {double}")
        return (
            exact
            if target is DataType.F64
            else _from_number(small, exact, "double", target, rounding)
        )
    if target is DataType.F64:
        return _long_to_double(text, source, value, rounding, vector)
    negative = ""
    if source.is_signed:
        zero = text.const(0, "i64", vector)
        negative = text.let(f"icmp slt {source_type} {value}, {zero}")
        negated = text.let(f"sub {source_type} {zero}, {value}")
        value = text.select(negative, negated, value, "i64", vector)
    exact = small.magnitude_to_odd(value)
    if source.is_signed:
        minus = text.let(f"fneg {double} {exact}")
        exact = text.select(negative, minus, exact, "double", vector)
    return _from_number(small, exact, "double", target, rounding)


def _long_to_double(
    text: Text, source: DataType, value: str, rounding: Rounding, vector: bool
) -> str:
    """Round a 64-bit integer in a given direction: its halves are exact, so their sum rounds
    once.
    """
    word, double = text.type_of("i64", vector), text.type_of("double", vector)
    shift, kind = ("ashr", "s") if source.is_signed else ("lshr", "u")
    upper = text.let(f"{shift} {word} {value}, {text.const(32, 'i64', vector)}")
    upper = text.let(f"{kind}itofp {word} {upper} to {double}")
    upper = text.let(f"fmul {double} {upper}, {text.const(0x41F << 52, 'double', vector)}")
    lower = text.let(f"and {word} {value}, {text.const(0xFFFF_FFFF, 'i64', vector)}")
    lower = text.let(f"uitofp {word} {lower} to {double}")
    return round_directed(text, "fadd", "double", rounding, [upper, lower], vector)


def _integer_to_integer(
    text: Text, instruction: Instruction, source: DataType, value: str, vector: bool
) -> str:
    target = instruction.type
    if instruction.saturate:
        value = _clamp(text, source, target, value, vector)
    if source.bits == target.bits:
        return value
    source_type, target_type = (text.type_of(integer(t.bits), vector) for t in (source, target))
    operation = "trunc" if target.bits < source.bits else "sext" if source.is_signed else "zext"
    return text.let(f"{operation} {source_type} {value} to {target_type}")


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


LOWERING: Final[dict[Op, Lowering]] = {Op.CVT: _lower, Op.CVT_RS: _lower_stochastic}
