"""One mutation: its position, the original text and the replacement."""

from dataclasses import dataclass
from pathlib import Path

_NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace ``[start, end)`` of a file's text (offsets in characters)."""

    path: Path
    start: int
    end: int
    new: str
    kind: str

    @property
    def is_neutral(self) -> bool:
        """Return whether the edit leaves the file's behaviour unchanged."""
        return self.kind == _NEUTRAL

    def apply(self, text: str) -> str:
        """Return the file's text with the mutation."""
        return text[: self.start] + self.new + text[self.end :]

    def line(self, text: str) -> int:
        """Return the number of the line in which the mutation begins."""
        return text.count("\n", 0, self.start) + 1

    def describe(self, text: str) -> str:
        """Return ``path:line:column: kind: old → new``, the parts on one line."""
        line = self.line(text)
        column = self.start - text.rfind("\n", 0, self.start)
        old, new = (" ".join(part.split()) for part in (text[self.start : self.end], self.new))
        return (
            f"{self.path}:{line}:{column}: {self.kind}: {old or '(nothing)'} → {new or '(nothing)'}"
        )


def neutral(path: Path, text: str) -> Edit:
    """Return an edit that does not change the file's behaviour; no test may fail because of it."""
    comment = "/* neutral */" if path.suffix == ".c" else "# neutral"
    return Edit(path, len(text), len(text), f"{comment}\n", _NEUTRAL)
