"""Tokens of one line of assembly text."""

import json
import re
from typing import Final

from vgpu_sim.isa.errors import AssemblyError
from vgpu_sim.records import dataclass

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t]+)
      | (?P<comment>//.*)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<number>0[xX][0-9a-fA-F]+|[0-9]+)
      | (?P<directive>\.[a-z_]+)
      | (?P<word>[A-Za-z_$][A-Za-z0-9_$]*(?:\.[A-Za-z0-9_$]+)*)
      | (?P<mark>[][{}(),:@!&+|-])""",
    re.VERBOSE | re.ASCII,
)
_PTX_LINE: Final = re.compile(r"//\s*ptx:([0-9]+)\s*", re.ASCII)
_MAXIMUM_DIGITS = 32  # longer numbers exceed every limit; Python bounds such conversions too


@dataclass(frozen=True, slots=True)
class Token:
    """A token of assembly text.

    ``kind`` is the name of a group in the regular expression for tokens, or "end" at the end of the
    line. ``column`` counts from one.
    """

    kind: str
    text: str
    column: int


class Line:
    """The tokens of a line, and the position of the next token to read. All methods raise
    ``AssemblyError`` at the current token.
    """

    def __init__(self, text: str, number: int) -> None:
        self.number = number
        self.ptx_line = 0
        self._tokens: list[Token] = []
        self._position = 0
        column = 0
        while column < len(text):
            match = _TOKEN.match(text, column)
            if match is None:
                raise AssemblyError(number, column + 1, f"unexpected {text[column]!r}")
            kind = str(match.lastgroup)
            if kind == "comment":
                mark = _PTX_LINE.fullmatch(match.group())
                self.ptx_line = int(mark.group(1)) if mark is not None else 0
            elif kind != "space":
                self._tokens.append(Token(kind, match.group(), column + 1))
            column = match.end()
        self._end = Token("end", "end of line", len(text) + 1)

    @property
    def empty(self) -> bool:
        """True if all tokens of the line were read."""
        return self._position == len(self._tokens)

    @property
    def current(self) -> Token:
        """Return the next token; an "end" token after the last one."""
        return self._end if self.empty else self._tokens[self._position]

    def fail(self, reason: str, token: Token | None = None) -> AssemblyError:
        """Return an error at the position of ``token``, by default of the current one."""
        return AssemblyError(self.number, (token or self.current).column, reason)

    def next(self, kind: str, description: str) -> Token:
        """Read a token of kind ``kind``. In the error, ``description`` stands for the expected
        token.
        """
        token = self.current
        if token.kind != kind:
            raise self.fail(f"expected {description}, found {token.text!r}")
        self._position += 1
        return token

    def accept(self, mark: str) -> bool:
        """If the next token is ``mark``, read it and return True, else return False."""
        is_next = self.current.kind in ("mark", "word") and self.current.text == mark
        self._position += is_next
        return is_next

    def expect(self, mark: str) -> None:
        """Read the next token, which must be ``mark``."""
        if not self.accept(mark):
            raise self.fail(f"expected {mark!r}, found {self.current.text!r}")

    def integer(self) -> int:
        """Read a number with an optional sign; return its value."""
        negative = self.accept("-")
        if not negative:
            self.accept("+")
        token = self.next("number", "a number")
        if len(token.text) > _MAXIMUM_DIGITS:
            raise self.fail("the number is too large", token)
        value = int(token.text, 16 if token.text[:2] in ("0x", "0X") else 10)
        return -value if negative else value

    def string(self) -> str:
        """Read a quoted string (JSON); return the text in it."""
        token = self.next("string", "a quoted string")
        try:
            return str(json.loads(token.text))
        except ValueError as error:
            raise self.fail(f"malformed string: {error}", token) from None

    def name(self) -> str:
        """Read a name, which may be plain or quoted."""
        if self.current.kind == "string":
            return self.string()
        return self.next("word", "a name").text

    def finish(self) -> None:
        """Raise an error unless all tokens of the line were read."""
        if not self.empty:
            raise self.fail(f"unexpected {self.current.text!r}")
