"""Errors in a PTX text: one class per kind, all derived from ``PtxError``.

::

    PtxError                 the base class of all errors
    ├── InvalidPtxError      it is not PTX: no driver would load it
    │   └── PtxSyntaxError   ... because of a syntax error
    ├── UnsupportedPtxError  valid as far as Tessera can tell, not supported yet
    ├── TargetError          valid, made for another device
    └── LinkError            files that cannot be linked into one module

All carry every finding, not only the first, because a JIT error log is read once.
"""

from collections.abc import Iterable
from typing import Any

from vgpu_sim.isa import Diagnostic

_ELLIPSIS = "...\n"
_MAX_TEXT_CHARACTERS = 160
_MAX_MESSAGE_BYTES = 4096  # for str(error); ``log`` returns all


__all__ = [
    "Diagnostic",
    "InvalidPtxError",
    "LinkError",
    "PtxError",
    "PtxSyntaxError",
    "TargetError",
    "UnsupportedPtxError",
    "render",
]


def render(
    diagnostics: Iterable[Diagnostic], name: str = "<ptx>", max_bytes: int | None = None
) -> str:
    """Return a log of diagnostics in the format that compilers and JIT error logs use. Each
    diagnostic begins with ``name:line:col: message``.

    Column 0 (unknown) is omitted. ``max_bytes`` bounds the UTF-8 length. If the log is cut, it
    ends in ``...`` (where that fits).
    """
    lines = [_render(finding, name) for finding in diagnostics]
    if max_bytes is None:
        return "".join(lines)
    return _cut(lines, max_bytes)


def _render(finding: Diagnostic, name: str) -> str:
    place = f"{finding.line}:{finding.column}" if finding.column else f"{finding.line}"
    rendered = f"{name}:{place}: {finding.message}\n"
    if not finding.text:
        return rendered
    text = finding.text
    if len(text) > _MAX_TEXT_CHARACTERS:
        text = text[: _MAX_TEXT_CHARACTERS - 3] + "..."
    return f"{rendered}    {text}\n"


class PtxError(Exception):
    """A PTX text cannot be loaded. The error holds all findings about the text."""

    def __init__(self, diagnostics: Iterable[Diagnostic], name: str = "<ptx>") -> None:
        self.diagnostics = tuple(diagnostics)
        self.name = name
        super().__init__(self.log(_MAX_MESSAGE_BYTES))

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from ``args`` when they are passed between processes.
        return type(self), (self.diagnostics, self.name)

    def log(self, max_bytes: int | None = None) -> str:
        """Return the findings as a log text, as ``render`` writes them."""
        return render(self.diagnostics, self.name, max_bytes)


class InvalidPtxError(PtxError):
    """The text breaks a rule of PTX. For example, a register is undefined, or operands do not
    fit.
    """


class PtxSyntaxError(InvalidPtxError):
    """One or more syntax errors.

    The position and the message are those of the first error; ``others`` are the later errors.
    """

    def __init__(
        self,
        line: int,
        column: int,
        message: str,
        name: str = "<ptx>",
        text: str = "",
        others: tuple[Diagnostic, ...] = (),
    ) -> None:
        self.line = line
        self.column = column
        self.message = message
        self.text = text
        self.others = others
        super().__init__([Diagnostic(line, column, message, text), *others], name)

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = self.line, self.column, self.message, self.name, self.text, self.others
        return type(self), arguments


class UnsupportedPtxError(PtxError):
    """The text is PTX, but uses something that this compiler does not support yet.

    Each finding states its position in the text.
    """


class TargetError(PtxError):
    """A file's ``.target`` requires a newer device, or another kind of device, than the one on
    which the file is loaded.
    """


class LinkError(PtxError):
    """Files that cannot be linked into one module: a name is undefined, or defined twice."""


def _cut(lines: list[str], max_bytes: int) -> str:
    kept_lines: list[str] = []
    left = max_bytes
    for index, line in enumerate(lines):
        size = len(line.encode())
        reserve = 0 if index == len(lines) - 1 else len(_ELLIPSIS)
        if size + reserve > left:
            if left >= len(_ELLIPSIS):
                kept_lines.append(_ELLIPSIS)
            break
        kept_lines.append(line)
        left -= size
    return "".join(kept_lines)
