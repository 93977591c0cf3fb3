"""The transfer rules of all operations on known bits and ranges.

A rule reads the operands and returns the result in the width of the operation's type, whose sign
determines the extension to the register. The result is unknown for an operation without a rule
or with a non-integer result: the pattern of a float is never a bounded integer.
"""

from collections.abc import Callable
from dataclasses import replace

from vgpu_sim.exec.jit.numbers import known_arithmetic as arithmetic
from vgpu_sim.exec.jit.numbers.known_bits import (
    WINDOW,
    WINDOW_HALF,
    Known,
    constant,
    either,
    resize,
    unknown,
)
from vgpu_sim.isa import Instruction, MulMode, Op

Read = Callable[[int, int], Known]
"""Returns the facts about an operand, given its position and the width in which it is read."""

_HALF_BITS = 32


def result(instruction: Instruction, read: Read, bits: int) -> Known:
    """Return the facts about an operation's result in a register of ``bits`` bits."""
    rule, type_ = RULES.get(instruction.op), instruction.type
    if rule is None or not type_.is_integer or instruction.saturate:
        return unknown(bits)
    facts = rule(instruction, read)
    return facts if facts.bits == bits else resize(facts, bits, is_signed=type_.is_signed)


def _copy(instruction: Instruction, read: Read) -> Known:
    return read(0, instruction.type.bits)


def _select(instruction: Instruction, read: Read) -> Known:
    bits = instruction.type.bits
    return either(read(0, bits), read(1, bits))


def _of_two(function: Callable[[Known, Known], Known]) -> "Rule":
    def rule(instruction: Instruction, read: Read) -> Known:
        bits = instruction.type.bits
        return function(read(0, bits), read(1, bits))

    return rule


def _negative(instruction: Instruction, read: Read) -> Known:
    bits = instruction.type.bits
    return arithmetic.minus(constant(0, bits), read(0, bits))


def _product(instruction: Instruction, read: Read) -> Known:
    bits, is_signed = instruction.type.bits, instruction.type.is_signed
    if instruction.mode is MulMode.HI:
        return unknown(bits)
    a, b = read(0, bits), read(1, bits)
    if instruction.mode is MulMode.WIDE:
        a, b = (resize(factor, 2 * bits, is_signed=is_signed) for factor in (a, b))
    return arithmetic.times(a, b)


def _product_and_sum(instruction: Instruction, read: Read) -> Known:
    product = _product(instruction, read)
    return arithmetic.plus(product, read(2, product.bits))


def _shift_left(instruction: Instruction, read: Read) -> Known:
    a, count = read(0, instruction.type.bits), read(1, 32)
    if _is_half(a) and a.bits == 2 * _HALF_BITS and count.constant == _HALF_BITS:
        return replace(a, origin=WINDOW)
    return arithmetic.shifted_left(a, count)


def _shift_right(instruction: Instruction, read: Read) -> Known:
    type_ = instruction.type
    return arithmetic.shifted_right(read(0, type_.bits), read(1, 32), is_signed=type_.is_signed)


def _field(instruction: Instruction, read: Read) -> Known:
    if instruction.type.is_signed:
        return unknown(instruction.type.bits)
    return arithmetic.field(read(0, instruction.type.bits), read(1, 32), read(2, 32))


def _convert(instruction: Instruction, read: Read) -> Known:
    target, source = instruction.type, instruction.source_type
    if source is None or not source.is_integer:
        return unknown(target.bits)
    a = read(0, source.bits)
    if _is_half(a) and a.bits == _HALF_BITS < target.bits and not source.is_signed:
        return replace(constant(0, target.bits), origin=WINDOW_HALF)
    return resize(a, target.bits, is_signed=source.is_signed)


def _is_half(a: Known) -> bool:
    """Return whether a value is exactly the upper half of the window's address."""
    return a.origin == WINDOW_HALF and a.span == a.low == 0


Rule = Callable[[Instruction, Read], Known]
RULES: dict[Op, Rule] = {
    Op.MOV: _copy,
    Op.SELP: _select,
    Op.ADD: _of_two(arithmetic.plus),
    Op.SUB: _of_two(arithmetic.minus),
    Op.NEG: _negative,
    Op.MUL: _product,
    Op.MAD: _product_and_sum,
    Op.SHL: _shift_left,
    Op.SHR: _shift_right,
    Op.AND: _of_two(arithmetic.bitwise_and),
    Op.OR: _of_two(arithmetic.bitwise_or),
    Op.XOR: _of_two(arithmetic.bitwise_xor),
    Op.BFE: _field,
    Op.CVT: _convert,
}
