"""Parses operands and expressions (PTX ISA, "Instruction Operands", "Constant Expressions")."""

from vgpu_sim.compiler.errors import PtxSyntaxError
from vgpu_sim.compiler.ptx import limits, tree
from vgpu_sim.compiler.ptx.constants import apply_binary, apply_unary, integer, parse_number
from vgpu_sim.compiler.ptx.cursor import Cursor
from vgpu_sim.compiler.ptx.lexer import Kind, Token

_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "|": 3,
    "^": 4,
    "&": 5,
    "==": 6,
    "!=": 6,
    "<": 7,
    "<=": 7,
    ">": 7,
    ">=": 7,
    "<<": 8,
    ">>": 8,
    "+": 9,
    "-": 9,
    "*": 10,
    "/": 10,
    "%": 10,
}
_NUMBERS = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.FLOAT_BITS})
_ENDS = frozenset({",", ";", "]", "}", ")"})
_ADDRESSES = (tree.Name, tree.Offset, tree.GenericAddress, tree.MaskedAddress)
_WARP_SIZE = tree.Integer(32)


def parse_operand(cursor: Cursor) -> tree.Operand:
    """Parse one operand of an instruction.

    Raises:
        PtxSyntaxError: there is no operand, or the operand is nested too deeply.
    """
    first = _parse_single(cursor)
    if cursor.at("|"):
        cursor.advance()
        return tree.Pair(first, _parse_single(cursor))
    return first


def _parse_single(cursor: Cursor) -> tree.Operand:
    token = cursor.current
    if token.kind is Kind.NAME:
        following = cursor.peek().text
        if following in _ENDS or following == "|":
            cursor.advance()
            return _name(token)
    elif token.text == "[":
        return _parse_memory(cursor)
    elif token.text == "{":
        return _parse_vector(cursor)
    return parse_expression(cursor, stop_at_bar=True)


def _parse_memory(cursor: Cursor) -> tree.Memory:
    parts = _parse_list(cursor, "[", "]")
    if not parts:
        raise cursor.error("expected an address")
    return tree.Memory(parts)


def _parse_vector(cursor: Cursor) -> tree.Vector:
    return tree.Vector(_parse_list(cursor, "{", "}"))


def parse_arguments(cursor: Cursor) -> tree.Arguments:
    """Parse the parenthesised list of arguments or results of a call."""
    return tree.Arguments(_parse_list(cursor, "(", ")"))


def _parse_list(cursor: Cursor, opening: str, closing: str) -> tuple[tree.Operand, ...]:
    cursor.expect(opening)
    _enter(cursor)
    elements: list[tree.Operand] = []
    while not cursor.at(closing):
        elements.append(parse_operand(cursor))
        if not cursor.accept(","):
            break
    cursor.expect(closing)
    cursor.depth -= 1
    return tuple(elements)


def _enter(cursor: Cursor) -> None:
    cursor.depth += 1
    if cursor.depth > limits.MAX_EXPRESSION_DEPTH:
        raise cursor.error(f"operands nest deeper than {limits.MAX_EXPRESSION_DEPTH}")


def parse_integer(cursor: Cursor, description: str = "an integer constant") -> int:
    """Parse a constant expression that must be an integer.

    Raises:
        PtxSyntaxError: the expression is not an integer. ``description`` names the expected thing
            in the message.
    """
    token = cursor.current
    value = parse_expression(cursor)
    if not isinstance(value, tree.Integer):
        raise cursor.error(f"expected {description}", token)
    return value.value


def parse_expression(cursor: Cursor, *, stop_at_bar: bool = False) -> tree.Operand:
    """Parse a constant expression, an address expression or a plain name.

    With ``stop_at_bar``, a ``|`` after anything but a constant is not consumed.
    """
    _enter(cursor)
    condition = _parse_binary(cursor, 1, stop_at_bar)
    if cursor.at("?"):
        question = cursor.advance()
        if not isinstance(condition, tree.Integer):
            raise cursor.error("expected a constant before '?'", question)
        chosen = parse_expression(cursor)
        cursor.expect(":")
        alternative = parse_expression(cursor)
        condition = chosen if condition.value else alternative
    cursor.depth -= 1
    return condition


def _parse_binary(cursor: Cursor, minimum: int, stop_at_bar: bool) -> tree.Operand:
    left = _parse_unary(cursor)
    while True:
        operator = cursor.current
        if operator.kind is not Kind.PUNCTUATION:
            return left
        precedence = _PRECEDENCE.get(operator.text, 0)
        if precedence < minimum:
            return left
        if stop_at_bar and operator.text == "|" and not isinstance(left, tree.Constant):
            return left
        cursor.advance()
        _enter(cursor)
        right = _parse_binary(cursor, precedence + 1, stop_at_bar=False)
        cursor.depth -= 1
        left = _combine(cursor, operator, left, right)


def _combine(
    cursor: Cursor, operator: Token, left: tree.Operand, right: tree.Operand
) -> tree.Operand:
    if isinstance(left, tree.Constant) and isinstance(right, tree.Constant):
        try:
            return apply_binary(operator.text, left, right)
        except ValueError as error:
            raise PtxSyntaxError(operator.line, operator.column, str(error)) from None
    if isinstance(left, tree.Integer) and operator.text == "+":
        left, right = right, left
    if isinstance(right, tree.Integer) and operator.text in ("+", "-"):
        addend = right.value if operator.text == "+" else -right.value
        moved = _displace(left, addend)
        if moved is not None:
            return moved
    raise PtxSyntaxError(
        operator.line, operator.column, f"the operands of {operator.text!r} must be constants"
    )


def _displace(address: tree.Operand, addend: int) -> tree.Operand | None:
    """Return ``address + addend`` if the address allows an addend."""
    match address:
        case tree.Name():
            return tree.Offset(address, _wrap(addend))
        case tree.Offset(base, first):
            return tree.Offset(base, _wrap(first + addend))
        case tree.GenericAddress(base, first):
            return tree.GenericAddress(base, _wrap(first + addend))
        case _:
            return None


def _wrap(addend: int) -> int:
    return integer(addend, unsigned=False).value


def _parse_unary(cursor: Cursor) -> tree.Operand:
    token = cursor.current
    if token.kind is Kind.PUNCTUATION and token.text in ("-", "+", "~", "!"):
        cursor.advance()
        _enter(cursor)
        operand = _parse_unary(cursor)
        cursor.depth -= 1
        return _apply_unary(cursor, token, operand)
    return _parse_primary(cursor)


def _apply_unary(cursor: Cursor, operator: Token, operand: tree.Operand) -> tree.Operand:
    if isinstance(operand, tree.Constant):
        try:
            return apply_unary(operator.text, operand)
        except ValueError as error:
            raise PtxSyntaxError(operator.line, operator.column, str(error)) from None
    if isinstance(operand, tree.Name):
        if operator.text == "!":
            return tree.Not(operand)
        if operator.text == "-":
            return tree.Negated(operand)
        if operator.text == "+":
            return operand
    raise cursor.error(f"{operator.text!r} cannot be applied to this operand", operator)


def _parse_primary(cursor: Cursor) -> tree.Operand:
    token = cursor.current
    if token.kind in _NUMBERS:
        return _parse_number(cursor)
    if token.kind is Kind.NAME:
        cursor.advance()
        if token.text == "generic" and cursor.at("("):
            return _parse_generic(cursor)
        return _parse_after_name(cursor, token)
    if token.text == "(" and token.kind is Kind.PUNCTUATION:
        return _parse_parenthesis(cursor)
    raise cursor.error("expected an operand")


def _parse_number(cursor: Cursor) -> tree.Operand:
    token = cursor.advance()
    try:
        value = parse_number(token)
    except ValueError as error:
        raise PtxSyntaxError(token.line, token.column, str(error)) from None
    if isinstance(value, tree.Integer) and cursor.at("("):
        cursor.advance()
        address = parse_expression(cursor)
        cursor.expect(")")
        if isinstance(address, tree.Integer):
            return _apply_mask(cursor, token, value.value, address.value)
        if not isinstance(address, tree.Name | tree.Offset | tree.GenericAddress):
            raise cursor.error("expected an address after a mask", token)
        return tree.MaskedAddress(value.value, address)
    return value


def _apply_mask(cursor: Cursor, token: Token, mask: int, value: int) -> tree.Integer:
    """Return the bits of a constant that a mask of adjacent bits selects, from bit 0 on."""
    mask &= 0xFFFF_FFFF_FFFF_FFFF
    if not mask:
        raise cursor.error("a mask must select at least one bit", token)
    return integer((value & mask) >> ((mask & -mask).bit_length() - 1), unsigned=True)


def _parse_generic(cursor: Cursor) -> tree.Operand:
    cursor.expect("(")
    token = cursor.current
    address = parse_expression(cursor)
    cursor.expect(")")
    match address:
        case tree.Name():
            return tree.GenericAddress(address, 0)
        case tree.Offset(base, addend):
            return tree.GenericAddress(base, addend)
        case _:
            raise cursor.error("expected a variable in generic()", token)


def _parse_after_name(cursor: Cursor, token: Token) -> tree.Operand:
    name = _name(token, cursor)
    if isinstance(name, tree.Name) and cursor.at("["):
        cursor.advance()
        index = parse_expression(cursor)
        cursor.expect("]")
        return tree.Element(name, index)
    return name


def _name(token: Token, cursor: Cursor | None = None) -> tree.Operand:
    if token.text == "_":
        return tree.Sink()
    if token.text == "WARP_SZ":
        return _WARP_SIZE
    component = ""
    if cursor is not None and cursor.current.kind is Kind.DOTTED:
        component = cursor.advance().text[1:]
    return tree.Name(token.text, token.line, token.column, component)


def _parse_parenthesis(cursor: Cursor) -> tree.Operand:
    opening = cursor.expect("(")
    if cursor.current.kind is Kind.DOTTED and cursor.current.text in (".s64", ".u64"):
        unsigned = cursor.advance().text == ".u64"
        cursor.expect(")")
        _enter(cursor)
        operand = _parse_unary(cursor)
        cursor.depth -= 1
        if not isinstance(operand, tree.Integer):
            raise cursor.error("expected an integer constant after a cast", opening)
        return integer(operand.value, unsigned=unsigned)
    inner = parse_expression(cursor)
    cursor.expect(")")
    return inner
