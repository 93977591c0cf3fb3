"""Parses function bodies: labels, instructions, scopes and directives."""

from collections.abc import Callable

from vgpu_sim.compiler.errors import PtxSyntaxError
from vgpu_sim.compiler.ptx import grammar, limits, tree
from vgpu_sim.compiler.ptx.cursor import Cursor
from vgpu_sim.compiler.ptx.debugging import parse_intermediate_location, parse_location
from vgpu_sim.compiler.ptx.declarations import (
    LINKAGES,
    SPACES,
    parse_bank,
    parse_parameters,
    parse_registers,
    parse_variables,
)
from vgpu_sim.compiler.ptx.functions import parse_directives
from vgpu_sim.compiler.ptx.lexer import Kind, Token
from vgpu_sim.compiler.ptx.operands import parse_arguments, parse_operand
from vgpu_sim.compiler.ptx.recovery import skip_statement


def parse_body(cursor: Cursor, depth: int = 0) -> tree.Block:
    """Parse ``{ statements }``; errors in statements are added to ``cursor.errors``.

    Raises:
        PtxSyntaxError: scopes nest too deep, or the file ends.
    """
    start = cursor.expect("{")
    if depth >= limits.MAX_BLOCK_DEPTH:
        raise cursor.error(f"scopes nest deeper than {limits.MAX_BLOCK_DEPTH}", start)
    statements: list[tree.Statement] = []
    while not cursor.at("}"):
        if cursor.at("{"):
            statements.append(parse_body(cursor, depth + 1))
        elif not cursor.accept(";"):  # inline assembly produces empty statements
            token = cursor.current
            try:
                _parse_statement(cursor, statements)
            except PtxSyntaxError as error:
                skip_statement(cursor, token, error)
    cursor.expect("}")
    return tree.Block(start.line, start.column, tuple(statements))


def _parse_statement(cursor: Cursor, statements: list[tree.Statement]) -> None:
    token = cursor.current
    if token.kind is Kind.NAME:
        following = cursor.peek()
        if following.text == ":" and following.kind is Kind.PUNCTUATION:
            cursor.advance()
            cursor.advance()
            statements.append(tree.Label(token.line, token.column, token.text))
        else:
            statements.append(_parse_instruction(cursor))
    elif token.text == "@" and token.kind is Kind.PUNCTUATION:
        statements.append(_parse_instruction(cursor))
    elif token.kind is Kind.DOTTED:
        statements.extend(_parse_directive(cursor))
    else:
        raise cursor.error("expected a statement")


def _parse_instruction(cursor: Cursor) -> tree.Instruction:
    start = cursor.current
    guard = _parse_guard(cursor) if start.text == "@" else None
    opcode = cursor.expect_kind(Kind.NAME, "an instruction")
    dotted: list[Token] = []
    while cursor.current.kind is Kind.DOTTED:
        dotted.append(cursor.advance())
        if dotted[-1].text == ".const":
            parse_bank(cursor)  # the variable's declaration determines the space
    modifiers = tuple(token.text for token in dotted)
    if cursor.version <= grammar.LATEST_VERSION:
        _check_spelling(opcode, modifiers, dotted)
    modifiers = grammar.arrange_modifiers(opcode.text, modifiers) or modifiers
    operands: list[tree.Operand] = []
    is_call = opcode.text == "call"
    if not cursor.at(";"):
        operands.append(_parse_operand(cursor, is_call))
        while cursor.accept(","):
            operands.append(_parse_operand(cursor, is_call))
    end = cursor.expect(";")
    return tree.Instruction(
        line=start.line,
        column=start.column,
        opcode=opcode.text,
        modifiers=modifiers,
        operands=tuple(operands),
        guard=guard,
        start=start.offset,
        end=end.offset,
    )


def _check_spelling(opcode: Token, modifiers: tuple[str, ...], dotted: list[Token]) -> None:
    mismatch = grammar.first_error(opcode.text, modifiers)
    if mismatch is not None:
        index, message = mismatch
        at = opcode if index < 0 or not dotted else dotted[min(index, len(dotted) - 1)]
        raise PtxSyntaxError(at.line, at.column, message)


def _parse_operand(cursor: Cursor, is_call: bool) -> tree.Operand:
    if is_call and cursor.at("("):
        return parse_arguments(cursor)
    return parse_operand(cursor)


def _parse_guard(cursor: Cursor) -> tree.Guard:
    cursor.expect("@")
    negated = cursor.accept("!")
    token = cursor.expect_kind(Kind.NAME, "a predicate")
    return tree.Guard(tree.Name(token.text, token.line, token.column), negated)


def _parse_directive(cursor: Cursor) -> tuple[tree.Statement, ...]:
    word = cursor.current.text
    parse = _DIRECTIVES.get(word)
    if parse is not None:
        return (parse(cursor),)
    linkage = tree.Linkage.NONE
    if word in LINKAGES:
        linkage = LINKAGES[cursor.advance().text]
    if cursor.current.text in SPACES:
        return parse_variables(cursor, linkage)
    raise cursor.error("unknown directive in a function")


def parse_pragma(cursor: Cursor) -> tree.Pragma:
    """Parse a pragma, ``.pragma "..." , ... ;``."""
    start = cursor.expect(".pragma")
    strings = [cursor.expect_kind(Kind.STRING, "a string").text[1:-1]]
    while cursor.accept(","):
        strings.append(cursor.expect_kind(Kind.STRING, "a string").text[1:-1])
    cursor.expect(";")
    return tree.Pragma(start.line, start.column, tuple(strings))


def _parse_targets(cursor: Cursor) -> tree.BranchTargets:
    start = cursor.advance()
    names = [cursor.expect_kind(Kind.NAME, "a label or function").text]
    while cursor.accept(","):
        names.append(cursor.expect_kind(Kind.NAME, "a label or function").text)
    cursor.expect(";")
    return tree.BranchTargets(start.line, start.column, start.text, tuple(names))


def _parse_prototype(cursor: Cursor) -> tree.CallPrototype:
    start = cursor.expect(".callprototype")
    returns = parse_parameters(cursor) if cursor.at("(") else ()
    cursor.expect_kind(Kind.NAME, "'_'")
    parameters = parse_parameters(cursor) if cursor.at("(") else ()
    directives = parse_directives(cursor)
    cursor.expect(";")
    return tree.CallPrototype(start.line, start.column, returns, parameters, directives)


_DIRECTIVES: dict[str, Callable[[Cursor], tree.Statement]] = {
    ".reg": parse_registers,
    ".pragma": parse_pragma,
    ".loc": parse_location,
    ".loc_intermediate": parse_intermediate_location,
    ".branchtargets": _parse_targets,
    ".calltargets": _parse_targets,
    ".callprototype": _parse_prototype,
}
