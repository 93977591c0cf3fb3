"""Finds the kernels of a PTX file without parsing their bodies.

The index of a file has the place of each kernel, and the places of everything between the kernels:
directives, variables and functions. Comments, strings and braces are read as the lexer reads
them. A file of any unusual form has no index. Such a file is parsed as a whole instead, so the
index decides neither what is PTX nor what it means.
"""

import re
from typing import Final

from vgpu_sim.compiler.ptx import limits
from vgpu_sim.records import dataclass

_BLANKS: Final = re.compile(rb"(?:[ \t\r\f\v\n]++|//[^\n]*+)*+")
_LINE: Final = re.compile(rb"\.(?:(?:version|target|address_size)\b[^\n{}\"/;]*+|file\b[^\n]*+)")
_KERNEL: Final = re.compile(
    rb"(?:\.(?:visible|weak)[ \t\r\n]++)?\.entry[ \t\r\n]++([A-Za-z_$%][A-Za-z0-9_$]*+)"
    rb"(?:[^(){};\"/]++|//[^\n]*+)*+(?:\((?:[^(){};\"/]++|//[^\n]*+)*+\))?"
    rb"(?:[^(){};\"/]++|//[^\n]*+)*+\{"
)
_STRING: Final = rb"\"[^\"\\\n]*+(?:\\[^\n][^\"\\\n]*+)*+\""
_FUNCTION: Final = re.compile(
    rb"(?:\.(?:visible|weak)[ \t\r\n]++)?\.func\b(?:[^{};\"/]++|//[^\n]*+)*+\{"
)
# The last alternative never matches. Before the engine tries it, it returns to where the group
# began, which Python before 3.11.5 does not do after an alternative that failed (see ``lexer``).
_REST: Final = rb"|/(?![/*])|(?!))*+"
# A statement up to its semicolon or first brace, or to what is handled separately: `/*`, or wrong
# text.
_ITEM: Final = re.compile(rb"(?:[^{};\"/]++|//[^\n]*+|" + _STRING + _REST)
# The inside of a block up to a brace that is not of a vector operand or another flat block.
_BODY: Final = re.compile(rb"(?:[^{}\"/]++|\{[^{}\"/]*+\}|//[^\n]*+|" + _STRING + _REST)
# Text that the lexer skips as a whole, which only files of old compilers have, and second names.
_UNUSUAL: Final = (b"@@DWARF", b".source_begin", b".alias")
# The words before a variable of the file. Such a variable in a function exists once per file.
_FILE_SPACES: Final = tuple(
    space + after for space in (b".global", b".const") for after in (b" ", b"\t", b"\n", b"/", b"[")
)


class _NoIndexError(Exception):
    """The file has an unusual form."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a file, in bytes."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Part(Span):
    """A part outside of kernels. If it is a function that can be parsed on its own, ``body`` is
    where its body begins, else 0.
    """

    body: int = 0


@dataclass(frozen=True, slots=True)
class KernelIndex:
    """The kernels of a file by name, and the other parts of the file, both in order."""

    kernels: dict[str, Span]
    parts: tuple[Part, ...]


def index_kernels(text: bytes) -> KernelIndex | None:
    """Return the index of a file; None if its form is unusual. The time is linear in its size."""
    if not text.isascii() or any(word in text for word in _UNUSUAL):
        return None
    try:
        return _index(text)
    except _NoIndexError:
        return None


def _index(text: bytes) -> KernelIndex:
    kernels: dict[str, Span] = {}
    parts: list[Part] = []
    begin = at = _skip_blanks(text, 0)  # the statements from ``begin`` on are one part
    while at < len(text):
        match = _KERNEL.match(text, at) or _FUNCTION.match(text, at)
        if match is None:
            at = _skip_blanks(text, _skip_item(text, at))
            continue
        end = _skip_block(text, match.end())
        if match.re is _FUNCTION and any(text.find(s, at, end) >= 0 for s in _FILE_SPACES):
            at = _skip_blanks(text, end)
            continue
        if len(kernels) + len(parts) > limits.MAX_INDEXED:
            raise _NoIndexError
        if begin < at:
            parts.append(Part(begin, at))
        if match.re is _FUNCTION:
            parts.append(Part(at, end, match.end() - 1))
        elif match[1].decode() in kernels:
            raise _NoIndexError
        else:
            kernels[match[1].decode()] = Span(at, end)
        begin = at = _skip_blanks(text, end)
    if begin < at:
        parts.append(Part(begin, at))
    return KernelIndex(kernels, tuple(parts))


def _skip_blanks(text: bytes, at: int) -> int:
    while True:
        match = _BLANKS.match(text, at)
        assert match is not None  # it matches the empty text
        at = match.end()
        if not text.startswith(b"/*", at):
            return at
        at = _skip_comment(text, at)


def _skip_comment(text: bytes, at: int) -> int:
    end = text.find(b"*/", at + 2)
    if end < 0:
        raise _NoIndexError
    return end + 2


def _skip_item(text: bytes, at: int) -> int:
    """Return the end of a statement outside of kernels."""
    line = _LINE.match(text, at)
    if line is not None:
        return line.end()
    while True:
        match = _ITEM.match(text, at)
        assert match is not None
        if b".entry" in match[0]:
            raise _NoIndexError
        at = match.end()
        if text.startswith(b"/*", at):
            at = _skip_comment(text, at)
        elif text.startswith(b";", at):
            return at + 1
        elif text.startswith(b"{", at):
            return _skip_block(text, at + 1)
        else:
            raise _NoIndexError


def _skip_block(text: bytes, at: int) -> int:
    """Return the end of a block whose inside begins at ``at``."""
    depth = 1
    while depth:
        match = _BODY.match(text, at)
        assert match is not None
        at = match.end()
        if text.startswith(b"/*", at):
            at = _skip_comment(text, at)
            continue
        if at == len(text) or text[at] not in b"{}":
            raise _NoIndexError
        depth += 1 if text[at] == ord("{") else -1
        if depth > limits.MAX_BLOCK_DEPTH:
            raise _NoIndexError
        at += 1
    return at
