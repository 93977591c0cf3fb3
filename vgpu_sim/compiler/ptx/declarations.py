"""Variables, registers and parameters (PTX ISA, "State Spaces, Types, and Variables")."""

from dataclasses import replace

from vgpu_sim.compiler.errors import PtxSyntaxError
from vgpu_sim.compiler.ptx import limits, tree
from vgpu_sim.compiler.ptx.constants import parse_number
from vgpu_sim.compiler.ptx.cursor import Cursor
from vgpu_sim.compiler.ptx.lexer import Kind, Token
from vgpu_sim.compiler.ptx.operands import parse_expression, parse_integer
from vgpu_sim.records import dataclass

SPACES = {space.value: space for space in tree.Space}
LINKAGES = {linkage.value: linkage for linkage in tree.Linkage if linkage.value}
TYPES = frozenset(
    "." + name
    for name in (
        "b8",
        "b16",
        "b32",
        "b64",
        "b128",
        "u8",
        "u16",
        "u32",
        "u64",
        "s8",
        "s16",
        "s32",
        "s64",
        "pred",
        "f16",
        "f16x2",
        "f32",
        "f32x2",
        "f64",
        "bf16",
        "bf16x2",
        "tf32",
        "e4m3",
        "e5m2",
        "u8x4",
        "s8x4",
        "u16x2",
        "s16x2",
        "texref",
        "samplerref",
        "surfref",
    )
)
_BYTES = tuple(tree.Integer(value) for value in range(256))
_VECTORS = frozenset({".v2", ".v4", ".v8"})
_POINTER_SPACES = frozenset({".const", ".global", ".local", ".shared"})


@dataclass(slots=True)
class _Specifiers:
    """The words before the names of a declaration, in any order."""

    type: str = ""
    vector: str = ""
    align: int | None = None
    attributes: tuple[tree.Attribute, ...] = ()
    pointer: tree.Pointer | None = None
    bank: int = 0


def parse_registers(cursor: Cursor) -> tree.Registers:
    """Parse a declaration of registers, ``.reg ... ;``."""
    start = cursor.expect(".reg")
    specifiers = _parse_specifiers(cursor)
    names = [_parse_register_name(cursor)]
    while cursor.accept(","):
        names.append(_parse_register_name(cursor))
    cursor.expect(";")
    return tree.Registers(
        start.line, start.column, specifiers.type, specifiers.vector, tuple(names)
    )


def _parse_register_name(cursor: Cursor) -> tree.RegisterName:
    token = cursor.expect_kind(Kind.NAME, "a register name")
    return tree.RegisterName(token.text, _parse_count(cursor), token.line, token.column)


def _parse_count(cursor: Cursor) -> int | None:
    """Parse the ``<n>`` after a name, if there is one; return n.

    The count is a plain number: ``>`` would end an expression anyway.
    """
    if not cursor.accept("<"):
        return None
    token = cursor.expect_kind(Kind.INTEGER, "a number of registers")
    cursor.expect(">")
    return parse_plain_integer(cursor, token)


def parse_plain_integer(cursor: Cursor, token: Token) -> int:
    """Return the value of an INTEGER token, for directives that do not allow expressions."""
    try:
        value = parse_number(token)
    except ValueError:
        raise cursor.error("malformed number", token) from None
    if not isinstance(value, tree.Integer):
        raise cursor.error("expected an integer", token)
    return value.value


def parse_variables(
    cursor: Cursor, linkage: tree.Linkage = tree.Linkage.NONE
) -> tuple[tree.Variable, ...]:
    """Parse a variable declaration with all its names and its ``;``."""
    space = parse_space(cursor)
    bank = parse_bank(cursor) if space is tree.Space.CONST else 0
    specifiers = replace(_parse_specifiers(cursor), bank=bank)
    variables = [_parse_declarator(cursor, space, specifiers, linkage)]
    while cursor.accept(","):
        variables.append(_parse_declarator(cursor, space, specifiers, linkage))
    cursor.expect(";")
    return tuple(variables)


def parse_space(cursor: Cursor) -> tree.Space:
    """Parse the state space at the beginning of a declaration."""
    space = SPACES.get(cursor.current.text)
    if space is None or cursor.current.kind is not Kind.DOTTED:
        raise cursor.error("expected a state space")
    cursor.advance()
    return space


def parse_bank(cursor: Cursor) -> int:
    """Parse the bank number ``[n]`` that may follow ``.const``; without one, return bank 0."""
    if not cursor.accept("["):
        return 0
    token = cursor.current
    bank = parse_integer(cursor, "a bank of constant memory")
    if not 0 <= bank < limits.CONSTANT_BANKS:
        raise cursor.error(
            f"the bank of constant memory must be 0 to {limits.CONSTANT_BANKS - 1}", token
        )
    cursor.expect("]")
    return bank


def parse_parameters(cursor: Cursor) -> tuple[tree.Variable, ...]:
    """Parse a parenthesised list of formal parameters."""
    cursor.expect("(")
    parameters: list[tree.Variable] = []
    while not cursor.at(")"):
        space = parse_space(cursor)
        specifiers = _parse_specifiers(cursor)
        parameters.append(_parse_declarator(cursor, space, specifiers, tree.Linkage.NONE))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(parameters)


def _parse_specifiers(cursor: Cursor) -> _Specifiers:
    specifiers = _Specifiers()
    while cursor.current.kind is Kind.DOTTED:
        word = cursor.current.text
        if word in TYPES and not specifiers.type:
            specifiers.type = cursor.advance().text
        elif word in _VECTORS and not specifiers.vector:
            specifiers.vector = cursor.advance().text
        elif word == ".align" and specifiers.align is None:
            cursor.advance()
            specifiers.align = _parse_alignment(cursor)
        elif word == ".attribute":
            specifiers.attributes += parse_attributes(cursor)
        elif word == ".ptr" and specifiers.pointer is None:
            specifiers.pointer = _parse_pointer(cursor)
        else:
            raise cursor.error("unknown type or specifier")
    if not specifiers.type:
        raise cursor.error("expected a type")
    return specifiers


def _parse_alignment(cursor: Cursor) -> int:
    token = cursor.current
    align = parse_integer(cursor, "an alignment")
    if align <= 0 or align & (align - 1) or align > 1 << 30:
        raise cursor.error("an alignment must be a power of two", token)
    return align


def _parse_pointer(cursor: Cursor) -> tree.Pointer:
    cursor.expect(".ptr")
    space: tree.Space | None = None
    if cursor.current.text in _POINTER_SPACES:
        space = SPACES[cursor.advance().text]
    align = _parse_alignment(cursor) if cursor.accept(".align") else None
    return tree.Pointer(space, align)


def parse_attributes(cursor: Cursor) -> tuple[tree.Attribute, ...]:
    """Parse the attributes of a variable, such as ``.attribute(.managed, .unified(1, 2))``."""
    cursor.expect(".attribute")
    cursor.expect("(")
    attributes: list[tree.Attribute] = []
    while not cursor.at(")"):
        name = cursor.expect_kind(Kind.DOTTED, "an attribute").text
        arguments: list[int] = []
        if cursor.accept("("):
            arguments.append(parse_integer(cursor))
            while cursor.accept(","):
                arguments.append(parse_integer(cursor))
            cursor.expect(")")
        attributes.append(tree.Attribute(name, tuple(arguments)))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(attributes)


def _parse_declarator(
    cursor: Cursor, space: tree.Space, specifiers: _Specifiers, linkage: tree.Linkage
) -> tree.Variable:
    token = cursor.expect_kind(Kind.NAME, "a name")
    count = _parse_count(cursor)
    dimensions: list[int | None] = []
    while cursor.accept("["):
        dimensions.append(None if cursor.at("]") else _parse_dimension(cursor))
        cursor.expect("]")
    initial = _parse_initial(cursor, 0) if cursor.accept("=") else None
    return tree.Variable(
        line=token.line,
        column=token.column,
        space=space,
        type=specifiers.type,
        name=token.text,
        linkage=linkage,
        align=specifiers.align,
        vector=specifiers.vector,
        attributes=specifiers.attributes,
        pointer=specifiers.pointer,
        dimensions=tuple(dimensions),
        count=count,
        initial=initial,
        bank=specifiers.bank,
    )


def _parse_dimension(cursor: Cursor) -> int:
    token = cursor.current
    size = parse_integer(cursor, "an array size")
    if size < 0:
        raise cursor.error("an array size must not be negative", token)
    return size


def _parse_initial(cursor: Cursor, depth: int) -> tree.InitialValue:
    if depth >= limits.MAX_INITIALIZER_DEPTH:
        raise cursor.error(f"initial values nest deeper than {limits.MAX_INITIALIZER_DEPTH}")
    if cursor.at("{"):
        return _parse_value_list(cursor, depth)
    token = cursor.current
    if token.kind is Kind.NUMBERS:
        return _parse_numbers(cursor)
    if token.kind is Kind.INTEGER and cursor.peek().text in (
        ",",
        "}",
    ):  # the common case of a long list
        return _parse_element(cursor)
    if token.kind is Kind.NAME and cursor.peek().text == "=":
        cursor.advance()
        cursor.advance()
        return tree.Field(token.text, _parse_initial(cursor, depth + 1))
    value = parse_expression(cursor)
    if isinstance(
        value,
        tree.Integer
        | tree.Float
        | tree.Name
        | tree.Offset
        | tree.GenericAddress
        | tree.MaskedAddress,
    ):
        return value
    raise cursor.error("expected an initial value", token)


def _parse_element(cursor: Cursor) -> tree.Constant:
    token = cursor.advance()
    try:
        return parse_number(token)
    except ValueError as error:
        raise PtxSyntaxError(token.line, token.column, str(error)) from None


def _parse_numbers(cursor: Cursor) -> tree.ValueList:
    values = map(int, cursor.advance().text[1:-1].split(","))
    return tree.ValueList(
        tuple(_BYTES[value] if value < len(_BYTES) else tree.Integer(value) for value in values)
    )


def _parse_value_list(cursor: Cursor, depth: int) -> tree.ValueList:
    cursor.expect("{")
    elements: list[tree.InitialValue] = []
    while not cursor.at("}"):
        elements.append(_parse_initial(cursor, depth + 1))
        if not cursor.accept(","):
            break
    cursor.expect("}")
    return tree.ValueList(tuple(elements))
