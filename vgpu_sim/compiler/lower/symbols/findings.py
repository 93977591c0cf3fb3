"""Collecting everything that is wrong with a file, instead of stopping at the first."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from vgpu_sim.compiler.errors import Diagnostic, InvalidPtxError, UnsupportedPtxError
from vgpu_sim.compiler.source_lines import SourceLines

_MAX_TEXT_CHARACTERS = 400


class Positioned(Protocol):
    """Anything that a diagnostic can point at."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


class Refusal(Exception):
    """A statement cannot be lowered. ``at`` is where, if not the statement itself."""

    def __init__(self, message: str, at: Positioned | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


class Unsupported(Refusal):
    """It is PTX that is not supported yet. ``what`` is completed to a sentence."""

    def __init__(self, what: str, at: Positioned | None = None) -> None:
        super().__init__(f"{what} is not supported yet", at)


class Invalid(Refusal):
    """It breaks a rule of PTX."""


@dataclass(slots=True)
class Findings:
    """All diagnostics of a file, by kind."""

    source: str
    name: str
    unsupported: list[Diagnostic] = field(default_factory=list)
    invalid: list[Diagnostic] = field(default_factory=list)
    _lines: SourceLines | None = None

    def part(self) -> "Findings":
        """Return findings about a part of the file, whose unsupported ones are its own.

        What breaks a rule of PTX concerns the whole file and is recorded for it.
        """
        lines = self._lines = self._lines or SourceLines(self.source)
        return Findings(self.source, self.name, invalid=self.invalid, _lines=lines)

    def add(self, refusal: Refusal, statement: Positioned) -> None:
        """Record ``refusal`` about ``statement``."""
        at = refusal.at or statement
        text = self._text(statement)
        diagnostic = Diagnostic(at.line, at.column, refusal.message, text)
        (self.invalid if isinstance(refusal, Invalid) else self.unsupported).append(diagnostic)

    def _text(self, statement: Positioned) -> str:
        """Return the statement on one line: an instruction whole, others by their first line."""
        start = getattr(statement, "start", None)
        if start is not None:
            end = getattr(statement, "end", start)
            raw = self.source[start : min(end + 1, start + _MAX_TEXT_CHARACTERS)]
        else:
            self._lines = self._lines or SourceLines(self.source)
            raw = self._lines.text(statement.line, _MAX_TEXT_CHARACTERS)
        return " ".join(raw[:_MAX_TEXT_CHARACTERS].split())

    def raise_any(self) -> None:
        """Raise what was found.

        Raises:
            InvalidPtxError: when the file is not PTX (whatever else was found).
            UnsupportedPtxError: when it is, but holds something that is not supported yet.
        """
        if self.invalid:
            raise InvalidPtxError(in_order(self.invalid), self.name)
        if self.unsupported:
            raise UnsupportedPtxError(in_order(self.unsupported), self.name)


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return findings by place, each once."""
    return sorted(dict.fromkeys(diagnostics), key=_place)


def _place(diagnostic: Diagnostic) -> tuple[int, int]:
    return diagnostic.line, diagnostic.column
