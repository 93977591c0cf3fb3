"""Splits PTX text into tokens (PTX ISA, "Syntax": source format, comments, identifiers,
constants).
"""

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from vgpu_sim.compiler.errors import PtxSyntaxError
from vgpu_sim.compiler.ptx import limits


class Kind(IntEnum):
    """The kind of a token."""

    NAME = 0  # identifiers and opcodes; register names keep their %
    DOTTED = 1  # .u32, .L1::no_allocate, .entry, .x
    INTEGER = 2
    FLOAT = 3  # 1.5, 2e-3, .5
    FLOAT_BITS = 4  # 0f3F800000, 0d3FF0000000000000
    STRING = 5
    PUNCTUATION = 6
    END = 7
    NUMBERS = 8  # a long list {1, 2, 3, ...} of plain numbers, as one token


class Token(NamedTuple):
    """A token and the position where it starts.

    Line and column count from 1; the offset counts characters from 0.
    """

    kind: Kind
    text: str
    line: int
    column: int
    offset: int


class Place(NamedTuple):
    """The beginning of a line: the line's number from 1, and the number of characters before it."""

    line: int
    offset: int


START = Place(1, 0)

# A match is one token, newline or comment with the blanks before it, and ``wrong`` matches anything
# else, so that matches leave no gap. ``0f...`` comes before decimal integers, dotted words before
# punctuation. ``@@DWARF`` lines are PTX 1.x directives for debuggers and do not affect code;
# neither does the source of another language between ``.source_begin`` and ``.source_end``. An
# unclosed ``.source_begin`` is not a token: otherwise many of them would each search the whole
# text. The lookahead after a number catches a trailing letter or digit, so ``12abc`` is an error
# and never two tokens. Repetitions are possessive: the engine stores hundreds of bytes for each
# repetition of a group to which it might backtrack, and a string may be as long as a file. Tables
# of numbers, of which files may have megabytes, are single tokens.
#
# Python before 3.11.5 continues in the wrong place after a possessive group that failed behind a
# repetition inside it (CPython's gh-106052). So in such a group, all that may fail comes before the
# first repetition, or the place is tested afterwards.
_TOKEN = re.compile(
    r"""[ \t\r\f\v]*(?:
    (?P<name>[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+|_)
  | (?P<newline>\n)
  | (?P<comment>//[^\n]*|/\*.*?\*/|@@DWARF\b[^\n]*|\.source_begin\b.*?\.source_end\b)
  | (?P<fraction>\.[0-9]++(?:[eE][+-]?[0-9]++)?(?![A-Za-z0-9_$.:]))
  | (?P<dotted>\.(?!source_begin\b)[A-Za-z0-9_$]++
      (?:::[A-Za-z0-9_][A-Za-z0-9_]*+(?::[0-9][0-9]*+)?+)*+)
  | (?P<bits>0[fF][0-9A-Fa-f]{8}(?![A-Za-z0-9_$])|0[dD][0-9A-Fa-f]{16}(?![A-Za-z0-9_$]))
  | (?P<float>[0-9]++(?:\.[0-9]*+(?:[eE][+-]?[0-9]++)?|[eE][+-]?[0-9]++)(?![A-Za-z0-9_$.]))
  | (?P<integer>(?:0[xX][0-9A-Fa-f]++|0[bB][01]++|[0-9]++)U?+(?![A-Za-z0-9_$.]))
  | (?P<string>"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+")
  | (?P<numbers>\{[ \t\r\n]*+(?:0|[1-9][0-9]{0,8}+)
      (?:,[ \t\r\n]*+(?:0|[1-9][0-9]{0,8}+)){15,}+(?<=[0-9])[ \t\r\n]*+\})
  | (?P<punctuation><<|>>|<=|>=|==|!=|&&|\|\||/(?!\*)|[{}()\[\]<>,;:+\-*%!~@|&^=?])
  | (?P<wrong>.|\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_KIND_OF = {
    "name": Kind.NAME,
    "dotted": Kind.DOTTED,
    "bits": Kind.FLOAT_BITS,
    "float": Kind.FLOAT,
    "fraction": Kind.FLOAT,
    "integer": Kind.INTEGER,
    "string": Kind.STRING,
    "punctuation": Kind.PUNCTUATION,
}
_GROUPS = _TOKEN.groupindex
_KINDS = {number: _KIND_OF[name] for name, number in _GROUPS.items() if name in _KIND_OF}
_NEWLINE, _COMMENT, _NUMBERS = _GROUPS["newline"], _GROUPS["comment"], _GROUPS["numbers"]
_LENGTH_LIMITS = {
    Kind.NAME: limits.MAX_IDENTIFIER_CHARACTERS,
    Kind.DOTTED: limits.MAX_IDENTIFIER_CHARACTERS,
    Kind.INTEGER: limits.MAX_NUMBER_CHARACTERS,
    Kind.FLOAT: limits.MAX_NUMBER_CHARACTERS,
}
_SHORT = min(_LENGTH_LIMITS.values())
_NO_LIMIT = 1 << 62


def tokenize(source: str, place: Place = START) -> Iterator[Token]:
    """Yield the tokens of ``source`` on demand; the last one is always ``Kind.END``.

    ``place`` is where ``source`` begins in a longer text. The positions of tokens are counted from
    the beginning of that text.

    Raises:
        PtxSyntaxError: at the first character that starts no token, at an unclosed comment or
            string, and where a size limit is exceeded.
    """
    if len(source) > limits.MAX_SOURCE_CHARACTERS:
        raise PtxSyntaxError(
            0, 0, f"the file is longer than {limits.MAX_SOURCE_CHARACTERS} characters"
        )
    new, kind_of = tuple.__new__, _KINDS.get
    line, before_line = place.line, -1  # the newline before the line counts as part of it
    base_offset = place.offset
    end = 0
    for match in _TOKEN.finditer(source):
        group = match.lastindex or 0
        start, end = match.span(group)
        kind = kind_of(group)
        if kind is not None:
            if end - start > _SHORT and end - start > _LENGTH_LIMITS.get(kind, _NO_LIMIT):
                raise PtxSyntaxError(line, start - before_line, "token is too long")
            # Equivalent to Token(), in half the time: most of a file passes here.
            yield new(Token, (kind, match[group], line, start - before_line, start + base_offset))
        elif group == _NEWLINE:
            line += 1
            before_line = start
        elif group in (_COMMENT, _NUMBERS):
            if group == _NUMBERS:
                yield Token(
                    Kind.NUMBERS, match[group], line, start - before_line, start + base_offset
                )
            newlines = source.count("\n", start, end)
            if newlines:
                line += newlines
                before_line = source.rindex("\n", start, end)
        elif start < end:
            raise PtxSyntaxError(line, start - before_line, _explain(source, start))
    yield Token(Kind.END, "", line, end - before_line, end + base_offset)


def _explain(source: str, position: int) -> str:
    """Return the reason why no token starts at ``position``."""
    if source.startswith("/*", position):
        return "comment is not closed"
    if source.startswith(".source_begin", position):
        return "'.source_begin' is not closed"
    character = source[position]
    if character == '"':
        return "string is not closed on its line"
    if character == "#":
        return "preprocessor lines are not part of PTX"
    if character.isascii() and character.isdigit():
        word = re.match(r"[A-Za-z0-9_$.]{1,40}", source[position : position + 40])
        return f"malformed number {word.group() if word else character!r}"
    return f"unexpected character {character!r}"
