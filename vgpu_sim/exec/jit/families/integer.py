"""Integer arithmetic and logic: LLVM operations on operands of one form."""

import re
from typing import Final

from vgpu_sim.exec.errors import CodeGenerationError
from vgpu_sim.exec.jit.arithmetic import quotients
from vgpu_sim.exec.jit.arithmetic.words import Words
from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import Text, integer
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.isa import Instruction, Literal, MulMode, Op

_DIRECT = {
    Op.ADD: "add",
    Op.SUB: "sub",
    Op.AND: "and",
    Op.OR: "or",
    Op.XOR: "xor",
}


def _lower(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    scalar = integer(fold.result_type(node.instruction).bits)

    def compute(form: Form, part: int) -> tuple[str, str]:
        args = emitter.patterns(node, form, part)
        return _result(emitter.text, node.instruction, args, form is Form.VECTOR), scalar

    emitter.define(node, compute)


def _lower_product(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    instruction = node.instruction
    if instruction.mode is not MulMode.WIDE:
        _lower(emitter, node, mask, occupied)
        return
    scalar = integer(fold.result_type(instruction).bits)

    def compute(form: Form, part: int) -> tuple[str, str]:
        args = [emitter.widen(node, s, instruction.type, form, part) for s in node.sources[:2]]
        args += [emitter.values.read(s, scalar, form, part, clean=True) for s in node.sources[2:]]
        return _multiply(emitter.text, instruction, args, form is Form.VECTOR), scalar

    emitter.define(node, compute)


def _result(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    """Return the result; operands are integers of the widths that ``operand_widths`` returns."""
    scalar = integer(instruction.type.bits)
    type_ = text.type_of(scalar, vector)
    is_signed = instruction.type.is_signed
    op = instruction.op
    if op in _DIRECT:
        return text.let(f"{_DIRECT[op]} {type_} {args[0]}, {args[1]}")
    match op:
        case Op.MUL | Op.MAD:
            return _multiply(text, instruction, args, vector)
        case Op.NEG:
            return text.let(f"sub {type_} {text.const(0, scalar, vector)}, {args[0]}")
        case Op.NOT:
            return text.let(f"xor {type_} {args[0]}, {text.const(-1, scalar, vector)}")
        case Op.ABS:
            return _absolute(text, scalar, args[0], vector) if is_signed else args[0]
        case Op.MIN | Op.MAX:
            stem = ("s" if is_signed else "u") + op.name.lower()
            return text.intrinsic(stem, scalar, vector, *args)
        case Op.DIV | Op.REM:
            return _divide(text, instruction, args, vector)
        case Op.SHL | Op.SHR:
            return _shift(text, instruction, args, vector)
        case _:
            raise CodeGenerationError(op.name)


def _absolute(text: Text, scalar: str, value: str, vector: bool) -> str:
    type_ = text.type_of(scalar, vector)
    zero = text.const(0, scalar, vector)
    negated = text.let(f"sub {type_} {zero}, {value}")
    negative = text.let(f"icmp slt {type_} {value}, {zero}")
    return text.select(negative, negated, value, scalar, vector)


def _multiply(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    bits = instruction.type.bits
    if instruction.mode is MulMode.HI:
        product = _high_product(text, instruction, args, vector)
        scalar = integer(bits)
    else:
        scalar = integer(2 * bits if instruction.mode is MulMode.WIDE else bits)
        product = text.let(f"mul {text.type_of(scalar, vector)} {args[0]}, {args[1]}")
    if instruction.op is Op.MUL:
        return product
    return text.let(f"add {text.type_of(scalar, vector)} {product}, {args[2]}")


def _high_product(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    bits = instruction.type.bits
    narrow, wide = (text.type_of(integer(b), vector) for b in (bits, 2 * bits))
    extension = "sext" if instruction.type.is_signed else "zext"
    factors = [text.let(f"{extension} {narrow} {arg} to {wide}") for arg in args[:2]]
    product = text.let(f"mul {wide} {factors[0]}, {factors[1]}")
    shift = f"splat (i{2 * bits} {bits})" if vector else str(bits)
    high = text.let(f"lshr {wide} {product}, {shift}")
    return text.let(f"trunc {wide} {high} to {narrow}")


def _divide(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    # Division by zero, and of the smallest integer by -1, is undefined in LLVM: divide by 1 instead
    # and select the result afterwards.
    scalar = integer(instruction.type.bits)
    type_ = text.type_of(scalar, vector)
    is_signed, remainder = instruction.type.is_signed, instruction.op is Op.REM
    dividend, divisor = args
    zero, unit = text.const(0, scalar, vector), text.const(1, scalar, vector)
    by_zero = text.let(f"icmp eq {type_} {divisor}, {zero}")
    safe = text.select(by_zero, unit, divisor, scalar, vector)
    by_minus_one = ""
    if is_signed:
        minus_one = text.const(-1, scalar, vector)
        by_minus_one = text.let(f"icmp eq {type_} {divisor}, {minus_one}")
        safe = text.select(by_minus_one, unit, safe, scalar, vector)
    if vector and _is_divided_by_floats(divisor):
        words = Words(text, instruction.type.bits, vector)
        result = quotients.divide(words, dividend, safe, signed=is_signed)[remainder]
    else:
        operation = ("s" if is_signed else "u") + ("rem" if remainder else "div")
        result = text.let(f"{operation} {type_} {dividend}, {safe}")
    if is_signed and not remainder:
        negated = text.let(f"sub {type_} {zero}, {dividend}")
        result = text.select(by_minus_one, negated, result, scalar, vector)
    return text.select(by_zero, text.const(-1, scalar, vector), result, scalar, vector)


_CONSTANT = re.compile(r"splat \(i(\d+) (-?\d+)\)")


def _is_divided_by_floats(divisor: str) -> bool:
    """Return whether vectors divide faster by floats than by LLVM's multiplication by an inverse.

    LLVM has the multiplication for constants only; for 64 bits, only powers of two avoid
    scalarising.
    """
    constant = _CONSTANT.fullmatch(divisor)
    if constant is None:
        return True
    number = int(constant[2])
    return constant[1] == "64" and number & (number - 1) != 0


def _shift(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    bits = instruction.type.bits
    scalar = integer(bits)
    type_, counts = text.type_of(scalar, vector), text.type_of("i32", vector)
    value, count = args
    arithmetic = instruction.op is Op.SHR and instruction.type.is_signed
    last = text.const(bits - 1, "i32", vector)
    within = text.intrinsic("umin", "i32", vector, count, last)
    amount = within
    if bits != 32:
        resize = "trunc" if bits < 32 else "zext"
        amount = text.let(f"{resize} {counts} {within} to {type_}")
    operation = "shl" if instruction.op is Op.SHL else "ashr" if arithmetic else "lshr"
    shifted = text.let(f"{operation} {type_} {value}, {amount}")
    if arithmetic:
        return shifted
    over = text.let(f"icmp ugt {counts} {count}, {last}")
    return text.select(over, text.const(0, scalar, vector), shifted, scalar, vector)


def _lower_carried(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    """Emit both results of an operation with a carry.

    A carry comes from the sum itself, or passes through a sum whose bits are all one.
    """
    carry, bits = node.results[1], node.instruction.type.bits
    add = node.instruction.op is Op.ADDC

    def compute(form: Form, part: int) -> tuple[str, str]:
        words = Words(emitter.text, bits, form is Form.VECTOR)
        a, b, carry_in = emitter.patterns(node, form, part)
        plain = words.op("add" if add else "sub", a, b)
        if node.sources[2] == Literal(0):
            return plain, words.test("ult", plain, a) if add else words.test("ult", a, b)
        value = words.op("add" if add else "sub", plain, words.resize(carry_in, 1))
        if carry is None:
            return value, ""
        carry_out = words.test("ult", plain, a) if add else words.test("ult", a, b)
        passes = words.test("eq", plain, words.const(-1 if add else 0))
        flags = Words(emitter.text, 1, form is Form.VECTOR)
        return value, flags.op("or", carry_out, flags.op("and", passes, carry_in))

    emitter.define(node, lambda form, part: (compute(form, part)[0], integer(bits)))
    if carry is not None:
        emitter.values.define(carry, lambda form, part: compute(form, part)[1])


def _lower_saturated(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    stem = ("s" if node.instruction.type.is_signed else "u") + (
        "add.sat" if node.instruction.op is Op.ADD_SAT else "sub.sat"
    )

    def compute(form: Form, part: int) -> tuple[str, str]:
        words = Words(emitter.text, 32, form is Form.VECTOR)
        return words.call(stem, *emitter.patterns(node, form, part)), words.scalar

    emitter.define(node, compute)


def _lower_dot(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    instruction = node.instruction
    type_, byte_type = instruction.type, instruction.source_type
    assert byte_type is not None
    places = range(4) if instruction.op is Op.DP4A else range(2)
    bits = 8 if instruction.op is Op.DP4A else 16
    first = 2 if instruction.mode is MulMode.HI else 0

    def compute(form: Form, part: int) -> tuple[str, str]:
        words = Words(emitter.text, 32, form is Form.VECTOR)
        a, b, total = emitter.patterns(node, form, part)
        for place in places:
            x = words.extract_element(a, bits, place, signed=type_.is_signed)
            y = words.extract_element(b, 8, first + place, signed=byte_type.is_signed)
            total = words.op("add", total, words.op("mul", x, y))
        return total, words.scalar

    emitter.define(node, compute)


LOWERING: Final[dict[Op, Lowering]] = {
    Op.ADD: _lower,
    Op.SUB: _lower,
    Op.MUL: _lower_product,
    Op.MAD: _lower_product,
    Op.NEG: _lower,
    Op.ABS: _lower,
    Op.MIN: _lower,
    Op.MAX: _lower,
    Op.DIV: _lower,
    Op.REM: _lower,
    Op.SHL: _lower,
    Op.SHR: _lower,
    Op.AND: _lower,
    Op.OR: _lower,
    Op.XOR: _lower,
    Op.NOT: _lower,
    Op.ADDC: _lower_carried,
    Op.SUBC: _lower_carried,
    Op.ADD_SAT: _lower_saturated,
    Op.SUB_SAT: _lower_saturated,
    Op.DP4A: _lower_dot,
    Op.DP2A: _lower_dot,
}
