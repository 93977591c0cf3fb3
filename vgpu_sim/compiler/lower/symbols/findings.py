"""Collects all errors of a file, instead of stopping at the first."""

from collections.abc import Iterable
from dataclasses import field
from typing import Protocol

from vgpu_sim.compiler.errors import Diagnostic, InvalidPtxError, UnsupportedPtxError
from vgpu_sim.compiler.source_lines import SourceLines
from vgpu_sim.records import dataclass

_MAX_TEXT_CHARACTERS = 400


class Positioned(Protocol):
    """An object with a position for diagnostics."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


class Refusal(Exception):
    """A statement cannot be lowered.

    If the error has another position than the statement, ``at`` has the error's position.
    """

    def __init__(self, message: str, at: Positioned | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


class Unsupported(Refusal):
    """PTX that is not supported yet. ``feature`` is the subject of the message."""

    def __init__(self, feature: str, at: Positioned | None = None) -> None:
        super().__init__(f"{feature} is not supported yet", at)


class Invalid(Refusal):
    """A violation of a rule of PTX."""


@dataclass(slots=True)
class Findings:
    """Collects the diagnostics of a file in two lists: unsupported features and invalid PTX."""

    source: str
    name: str
    unsupported: list[Diagnostic] = field(default_factory=list)
    invalid: list[Diagnostic] = field(default_factory=list)
    _lines: SourceLines | None = None

    def for_part(self) -> "Findings":
        """Return an empty collector for one part of the file.

        The new collector has its own list of unsupported features. Both collectors use the same
        list of violations of PTX's rules, because each violation concerns the whole file.
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
        """Return the statement on one line: an instruction in full, others by their first line."""
        start = getattr(statement, "start", None)
        if start is not None:
            end = getattr(statement, "end", start)
            raw = self.source[start : min(end + 1, start + _MAX_TEXT_CHARACTERS)]
        else:
            self._lines = self._lines or SourceLines(self.source)
            raw = self._lines.text(statement.line, _MAX_TEXT_CHARACTERS)
        return " ".join(raw[:_MAX_TEXT_CHARACTERS].split())

    def raise_any(self) -> None:
        """Raise an error with all findings, if there are any.

        Raises:
            InvalidPtxError: the file is not PTX (whatever else was found).
            UnsupportedPtxError: it is PTX, but uses something that is not supported yet.
        """
        if self.invalid:
            raise InvalidPtxError(in_order(self.invalid), self.name)
        if self.unsupported:
            raise UnsupportedPtxError(in_order(self.unsupported), self.name)


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return diagnostics ordered by position, without duplicates."""
    return sorted(dict.fromkeys(diagnostics), key=_place)


def _place(diagnostic: Diagnostic) -> tuple[int, int]:
    return diagnostic.line, diagnostic.column
