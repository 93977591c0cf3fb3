"""Label selectors of nodes, in the equality-based syntax of ``kubectl get -l``."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

LONGEST: Final = 1024  # characters of a selector


class SelectorError(ValueError):
    """A text is no label selector."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a label must be; ``value`` None: the label exists."""

    key: str
    value: str | None
    negated: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement, as the API server decides it."""
        has_match = self.key in labels if self.value is None else labels.get(self.key) == self.value
        return has_match is not self.negated


@lru_cache(maxsize=64)
def read_selector(text: str) -> tuple[Requirement, ...]:
    """Parse ``key=value,key!=value,key,!key``; an empty text has no requirement.

    Raises:
        SelectorError: the text is not of this form.
    """
    if len(text) > LONGEST:
        raise SelectorError(f"a label selector has at most {LONGEST} characters")
    return tuple(_read_part(part.strip()) for part in text.split(",") if part.strip())


def _read_part(part: str) -> Requirement:
    key, separator, value = part.partition("=")
    negated = separator != "" and key.endswith("!")
    key = key.removesuffix("!") if negated else key
    if not separator and part.startswith("!"):
        key, negated = part[1:], True
    key, value = key.strip(), value.removeprefix("=").strip()
    if not key or any(mark in key + value for mark in " !=()"):
        form = "key=value, key!=value, key or !key, separated by commas"
        raise SelectorError(f"{part[:80]!r} is no part of a label selector: {form}")
    return Requirement(key, value if separator else None, negated)
