"""One mutation: where it is, what stands there, and what takes its place."""

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
        """Return whether it changes nothing that the file does."""
        return self.kind == _NEUTRAL

    def apply(self, text: str) -> str:
        """Return the file's text with the mutation in it."""
        return text[: self.start] + self.new + text[self.end :]

    def line(self, text: str) -> int:
        """Return the number of the line that it begins in."""
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
    """Return an edit of a file that changes nothing it does, and that no test may notice."""
    comment = "/* neutral */" if path.suffix == ".c" else "# neutral"
    return Edit(path, len(text), len(text), f"{comment}\n", _NEUTRAL)
