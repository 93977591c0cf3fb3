"""Parses directives of functions.

Source: PTX ISA, "Performance-Tuning", "Cluster Dimension Directives", ...
"""

from vgpu_sim.compiler.ptx import tree
from vgpu_sim.compiler.ptx.cursor import Cursor
from vgpu_sim.compiler.ptx.declarations import parse_plain_integer
from vgpu_sim.compiler.ptx.lexer import Kind

# Name -> the smallest and the largest number of arguments.
_ARGUMENTS = {
    ".maxnreg": (1, 1),
    ".maxntid": (1, 3),
    ".reqntid": (1, 3),
    ".minnctapersm": (1, 1),
    ".maxnctapersm": (1, 1),
    ".minperctamemory": (1, 1),
    ".maxclusterrank": (1, 1),
    ".reqnctapercluster": (1, 3),
    ".explicitcluster": (0, 0),
    ".blocksareclusters": (0, 0),
    ".noreturn": (0, 0),
    ".unique": (0, 0),
    ".abi_preserve": (1, 1),
    ".abi_preserve_control": (1, 1),
}


def parse_directives(cursor: Cursor) -> tuple[tree.Directive, ...]:
    """Parse the directives between a function's parameters and its body.

    Raises:
        PtxSyntaxError: a directive is unknown, or has a wrong number of arguments.
    """
    directives: list[tree.Directive] = []
    while cursor.current.kind is Kind.DOTTED:
        if cursor.at(".pragma"):
            directives.append(_parse_pragma(cursor))
            continue
        if cursor.at(".language"):
            directives.append(_parse_language(cursor))
            continue
        start = cursor.current
        if start.text not in _ARGUMENTS:
            raise cursor.error("unknown directive of a function")
        cursor.advance()
        minimum, maximum = _ARGUMENTS[start.text]
        arguments = _parse_numbers(cursor) if maximum else []
        if not minimum <= len(arguments) <= maximum:
            raise cursor.error(f"{start.text} has a wrong number of arguments", start)
        directives.append(tree.Directive(start.line, start.column, start.text, tuple(arguments)))
    return tuple(directives)


def _parse_numbers(cursor: Cursor) -> list[int]:
    numbers = [parse_plain_integer(cursor, cursor.expect_kind(Kind.INTEGER, "a number"))]
    while cursor.accept(","):
        token = cursor.expect_kind(Kind.INTEGER, "a number")
        numbers.append(parse_plain_integer(cursor, token))
    return numbers


def _parse_language(cursor: Cursor) -> tree.Directive:
    start = cursor.expect(".language")
    names: list[str] = []
    while True:
        if cursor.current.kind not in (Kind.STRING, Kind.INTEGER):
            raise cursor.error("expected the name or number of a language")
        names.append(cursor.advance().text.strip('"'))
        if not cursor.accept(","):
            return tree.Directive(start.line, start.column, start.text, strings=tuple(names))


def _parse_pragma(cursor: Cursor) -> tree.Directive:
    start = cursor.expect(".pragma")
    strings = [cursor.expect_kind(Kind.STRING, "a string").text[1:-1]]
    while cursor.accept(","):
        strings.append(cursor.expect_kind(Kind.STRING, "a string").text[1:-1])
    cursor.expect(";")
    return tree.Directive(start.line, start.column, start.text, strings=tuple(strings))
