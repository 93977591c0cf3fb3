"""Debugging directives (PTX ISA, "Debugging Directives"): .file, .loc, .section and the like.

They describe the code's origin and do not affect its behaviour, so sections are checked and
dropped.
"""

from vgpu_sim.compiler.ptx import tree
from vgpu_sim.compiler.ptx.cursor import Cursor
from vgpu_sim.compiler.ptx.declarations import parse_plain_integer
from vgpu_sim.compiler.ptx.lexer import Kind

_DATA = frozenset({Kind.NAME, Kind.DOTTED, Kind.INTEGER, Kind.FLOAT, Kind.FLOAT_BITS})
_DATA_PUNCTUATION = frozenset({",", ":", "+", "-"})


def _parse_number(cursor: Cursor, description: str) -> int:
    return parse_plain_integer(cursor, cursor.expect_kind(Kind.INTEGER, description))


def parse_file(cursor: Cursor) -> tree.File:
    """Parse ``.file index "name"`` with an optional time stamp and size."""
    start = cursor.expect(".file")
    index = _parse_number(cursor, "a file index")
    name = cursor.expect_kind(Kind.STRING, "a file name").text[1:-1]
    if cursor.accept(","):
        _parse_number(cursor, "a time stamp")
        cursor.expect(",")
        _parse_number(cursor, "a file size")
    return tree.File(start.line, start.column, index, name)


def parse_location(cursor: Cursor) -> tree.Location:
    """Parse ``.loc file line column`` with its optional inlining attributes."""
    start = cursor.expect(".loc")
    file = _parse_number(cursor, "a file index")
    line = _parse_number(cursor, "a line")
    column = _parse_number(cursor, "a column")
    while cursor.at(","):
        cursor.advance()
        _parse_inlining(cursor)
    return tree.Location(start.line, start.column, file, line, column)


def parse_intermediate_location(cursor: Cursor) -> tree.Location:
    """Parse ``.loc_intermediate file line column``: a position in the source of an intermediate
    language.
    """
    start = cursor.expect(".loc_intermediate")
    numbers = [
        _parse_number(cursor, description) for description in ("a file index", "a line", "a column")
    ]
    return tree.Location(start.line, start.column, *numbers)


def parse_intermediate_source(cursor: Cursor) -> tree.Section:
    """Parse ``.nv_intermediate_source_section { .code_block { ... } ... }``.

    The lexer has dropped the source inside it.
    """
    start = cursor.expect(".nv_intermediate_source_section")
    cursor.expect("{")
    while cursor.accept(".code_block"):
        cursor.expect("{")
        cursor.expect(".ir_name")
        cursor.expect(":")
        cursor.expect_kind(Kind.STRING, "a language")
        cursor.expect(".sourceFileName")
        cursor.expect(":")
        _parse_number(cursor, "a file index")
        cursor.expect("}")
    cursor.expect("}")
    return tree.Section(start.line, start.column, start.text)


def _parse_inlining(cursor: Cursor) -> None:
    word = cursor.expect_kind(Kind.NAME, "'function_name' or 'inlined_at'")
    if word.text == "function_name":
        cursor.expect_kind(Kind.NAME, "a label")
        if cursor.accept("+"):
            _parse_number(cursor, "an offset")
    elif word.text == "inlined_at":
        for description in ("a file index", "a line", "a column"):
            _parse_number(cursor, description)
    else:
        raise cursor.error("expected 'function_name' or 'inlined_at'", word)


def parse_section(cursor: Cursor) -> tree.Section:
    """Parse ``.section name { labels and .b8/.b16/.b32/.b64 data }``."""
    start = cursor.expect(".section")
    if cursor.current.kind not in (Kind.DOTTED, Kind.NAME):
        raise cursor.error("expected a section name")
    name = cursor.advance().text
    cursor.expect("{")
    while not cursor.at("}"):
        token = cursor.current
        if token.kind not in _DATA and token.text not in _DATA_PUNCTUATION:
            raise cursor.error("expected debug data or '}'")
        cursor.advance()
    cursor.expect("}")
    cursor.accept(";")
    return tree.Section(start.line, start.column, name)
