"""The mutations of a C file, found by its words; comments, strings and the preprocessor are
excluded.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from edits import Edit

_IGNORED = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*"
    r"|_Static_assert\s*\([^;]*;",
    re.MULTILINE | re.DOTALL,
)
_OPERATORS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "&&": "||",
    "||": "&&",
    "+": "-",
    "-": "+",
}
_KINDS = {"&&": "and/or", "||": "and/or", "+": "operator", "-": "operator"}
_OPERATOR = re.compile(r"(?<=\s)(&&|\|\||<=|>=|==|!=|<|>|\+|-)(?=\s)")
_NUMBER = re.compile(r"(?<![\w.])(?:0[xX][0-9a-fA-F]+|\d+)[uUlL]*(?![\w.])")
_CONDITION = re.compile(r"\b(?:if|while) \((?=[^;{}]*\))")
_STATEMENT = re.compile(
    r"^[ \t]+((?!return\b|goto\b|break\b|continue\b|case\b|default\b)"
    r"(?:[A-Za-z_][\w>.\-\[\]]*\([^;{}]*\)|[A-Za-z_*][\w>.\-\[\]]*\s*(?:[|&+\-]?=)[^;={}][^;{}]*);)",
    re.MULTILINE,
)


def edits_of(path: Path, text: str) -> Iterator[Edit]:
    """Yield every mutation of one C file."""
    blank = _IGNORED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for found in _OPERATOR.finditer(blank):
        if _inside_function(blank, found.start()):
            old = found[1]
            kind = _KINDS.get(old, "comparison")
            yield Edit(path, found.start(1), found.end(1), _OPERATORS[old], kind)
    for found in _NUMBER.finditer(blank):
        if _inside_function(blank, found.start()):
            yield Edit(path, found.start(), found.end(), f"({found[0]} + 1)", "off by one")
    for found in _CONDITION.finditer(blank):
        end = _closing(blank, found.end() - 1)
        if end is not None:
            test = text[found.end() : end]
            yield Edit(path, found.end(), end, f"!({test})", "negated condition")
    for found in _STATEMENT.finditer(blank):
        if _inside_function(blank, found.start(1)):
            yield Edit(path, found.start(1), found.end(1), ";", "dropped statement")


def _inside_function(text: str, offset: int) -> bool:
    """Return whether the line is indented; lines without indentation are declarations."""
    start = text.rfind("\n", 0, offset) + 1
    return text[start : start + 1].isspace()


def _closing(text: str, opening: int) -> int | None:
    """Return the offset of the parenthesis that closes the one at ``opening``; None if there is
    none.
    """
    depth = 0
    for offset in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[offset], 0)
        if depth == 0:
            return offset
    return None
