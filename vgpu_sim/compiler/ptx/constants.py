"""Constants and their arithmetic (PTX ISA, "Constants" and "Constant Expressions").

Integer constants are 64 bits wide; they are signed unless they have the suffix ``U``, do not
fit, or come from an unsigned operand. Operators follow C.
"""

import math
import struct
from collections.abc import Callable

from vgpu_sim.compiler.ptx.lexer import Kind, Token
from vgpu_sim.compiler.ptx.tree import Constant, Float, Integer

_MASK = (1 << 64) - 1
_SIGN = 1 << 63


def parse_number(token: Token) -> Constant:
    """Return the value of a token that is a number.

    Raises:
        ValueError: the number does not fit in 64 bits, or a digit is invalid in the number's base.
    """
    text = token.text
    if token.kind is Kind.FLOAT_BITS:
        return Float(int("0x" + text[2:], 0), 32 if text[1] in "fF" else 64)
    if token.kind is Kind.FLOAT:
        value = float(text)
        if math.isinf(value):
            raise ValueError(f"{text} is too large for a floating-point constant")
        return Float(struct.unpack("<Q", struct.pack("<d", value))[0], 0)
    digits = text.removesuffix("U")
    bits = _integer(digits)
    if bits > _MASK:
        raise ValueError(f"{text} does not fit 64 bits")
    return integer(bits, unsigned=digits != text or bits >= _SIGN)


def _integer(digits: str) -> int:
    head = digits[:2].lower()
    if head == "0x":
        return int(digits, 16)
    if head == "0b":
        return int(digits, 2)
    if digits[0] == "0":
        if set(digits) & {"8", "9"}:
            raise ValueError(f"malformed octal number {digits}")
        return int(digits, 8)
    return int(digits)


def integer(bits: int, *, unsigned: bool) -> Integer:
    """Return an integer constant with the low 64 bits of ``bits``, signed or unsigned."""
    bits &= _MASK
    return Integer(bits if unsigned or bits < _SIGN else bits - (1 << 64), unsigned)


def apply_unary(operator: str, operand: Constant) -> Constant:
    """Return the value of the constant expression ``operator operand``.

    Raises:
        ValueError: the operator does not accept a float.
    """
    if isinstance(operand, Float):
        if operator == "+":
            return operand
        if operator == "-":
            return Float(operand.bits ^ (1 << (31 if operand.width == 32 else 63)), operand.width)
        raise ValueError(f"{operator} does not apply to a floating-point constant")
    if operator == "-":
        return integer(-operand.value, unsigned=operand.unsigned)
    if operator == "~":
        return integer(~operand.value, unsigned=operand.unsigned)
    if operator == "!":
        return Integer(int(operand.value == 0))
    return operand


def _divide(a: int, b: int) -> int:
    """Divide as C does: toward zero, with integer arithmetic, since a float could not hold the
    values.
    """
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&&": lambda a, b: bool(a) and bool(b),
    "||": lambda a, b: bool(a) or bool(b),
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": lambda a, b: a - b * _divide(a, b),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}


def apply_binary(operator: str, left: Constant, right: Constant) -> Constant:
    """Return the value of the constant expression ``left operator right``.

    Raises:
        ValueError: on a floating-point operand and on division by zero.
    """
    if isinstance(left, Float) or isinstance(right, Float):
        raise ValueError("operators cannot be applied to floating-point constants")
    if operator in ("<<", ">>"):
        return _shift(operator, left, right)
    unsigned = left.unsigned or right.unsigned
    a = integer(left.value, unsigned=unsigned).value
    b = integer(right.value, unsigned=unsigned).value
    if operator in _COMPARISONS:
        return Integer(int(_COMPARISONS[operator](a, b)))
    if operator in ("/", "%") and b == 0:
        raise ValueError("division by zero in a constant expression")
    return integer(_ARITHMETIC[operator](a, b), unsigned=unsigned)


def _shift(operator: str, left: Integer, right: Integer) -> Integer:
    count = right.value
    if not 0 <= count < 64:
        raise ValueError(f"shift count {count} in a constant expression is not between 0 and 63")
    value = left.value << count if operator == "<<" else left.value >> count
    return integer(value, unsigned=left.unsigned)
