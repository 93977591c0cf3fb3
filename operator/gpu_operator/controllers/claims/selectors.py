"""Upper bounds for the devices that selectors match, as far as these are easy to parse.

CEL is not evaluated (ADR 89). If an expression is a conjunction, terms of a few forms are
recognized: conditions on the driver, ``type`` and ``profile``. All other terms can only exclude
devices. So the result may include too many devices, but never too few: if these have no room,
there is none for the claim.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gpu_operator.api.claim_devices import ANY, ANY_MIG, DRIVER
from mig import geometry

_LONGEST: Final = 1024  # characters of an expression; a longer one is not parsed
_MOST: Final = 8  # selectors of a request or a class
_DEEPEST: Final = 8  # nested parentheses around a term
_REMEMBERED: Final = 4096

_TEXT: Final = r"""(?:"[^"\\\n]*"|'[^'\\\n]*')"""
_TOKEN: Final = re.compile(rf"{_TEXT}|&&|\|\||[][(){{}}?]|//|[\"'\\]")
_OPEN: Final = "([{"
_OURS: Final = rf"""["']{re.escape(DRIVER)}["']"""
_NAMED: Final = rf"""device\.(?:attributes|capacity)\[{_OURS}\](?:\.(\w+)|\[["'](\w+)["']\])"""
_OF_DRIVER: Final = re.compile(rf"device\.driver\s*==\s*{_OURS}|{_OURS}\s*==\s*device\.driver")
_OF_OURS: Final = re.compile(rf"{_NAMED}.*", re.DOTALL)
_VALUE: Final = r"""["']([A-Za-z0-9.+-]{1,63})["']"""
_EQUAL: Final = re.compile(rf"{_NAMED}\s*==\s*{_VALUE}")
_EQUAL_TOO: Final = re.compile(rf"{_VALUE}\s*==\s*{_NAMED}")

_RESOURCES: Final = {
    profile.name: profile.resource_name
    for board in geometry.BOARDS.values()
    for profile in board.profiles
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about all devices that a selector matches.

    ``type`` and ``profile`` are values of the device attributes with these names. The selector
    matches only devices that have these values. If ``type`` or ``profile`` is empty, the
    selector matches any value of that attribute. Unless ``ours`` is set, the selector may also
    match devices of other drivers.
    """

    ours: bool = False
    type: str = ""
    profile: str = ""

    def combine(self, other_facts: "Facts") -> "Facts":
        """Return what is known about devices that match two selectors: this one and
        ``other_facts``.
        """
        return Facts(
            self.ours or other_facts.ours,
            self.type or other_facts.type,
            self.profile or other_facts.profile,
        )

    @property
    def resource(self) -> str:
        """Return the resource of the devices, without prefix.

        It is "gpu", "mig-1g.10gb", ``ANY_MIG`` or ``ANY``; empty if devices of other drivers may
        match.
        """
        if not self.ours:
            return ""
        if self.profile:
            return _RESOURCES.get(self.profile, f"{ANY_MIG}-{self.profile}")
        return {"gpu": geometry.WHOLE_RESOURCE, "mig": ANY_MIG}.get(self.type, ANY)


NOTHING: Final = Facts()
"""What is known about devices without a selector: nothing."""


def read_selectors(expressions: Iterable[str]) -> Facts:
    """Parse the selectors of a DeviceClass or a request, all of which must match."""
    facts = NOTHING
    for number, text in enumerate(expressions):
        if number < _MOST and len(text) <= _LONGEST:
            facts = facts.combine(_read(text))
    return facts


@lru_cache(maxsize=_REMEMBERED)
def _read(text: str) -> Facts:
    facts = NOTHING
    for part in _parts(text, _DEEPEST):
        facts = facts.combine(_of_part(part))
    return facts


def _of_part(part: str) -> Facts:
    if _OF_DRIVER.fullmatch(part):
        return Facts(ours=True)
    equal = _EQUAL.fullmatch(part)
    if equal is not None:
        return _fact(equal[1] or equal[2], equal[3])
    equal = _EQUAL_TOO.fullmatch(part)
    if equal is not None:
        return _fact(equal[2] or equal[3], equal[1])
    # If a device of another driver lacks the attribute, evaluation fails and the device does not
    # match.
    return Facts(ours=_OF_OURS.fullmatch(part) is not None)


def _fact(name: str, value: str) -> Facts:
    return Facts(True, value if name == "type" else "", value if name == "profile" else "")


def _parts(text: str, deepest: int) -> Iterator[str]:
    """Yield the terms of an expression that is a conjunction; for any other, yield nothing."""
    terms = _split(text)
    for part in terms if terms is not None else ():
        inner = _inside(part)
        if inner is None:
            yield part
        elif deepest:
            yield from _parts(inner, deepest - 1)


def _split(text: str) -> list[str] | None:
    """Split at ``&&`` outside of brackets. Return None for other operators or unsupported
    syntax.
    """
    parts, depth, start = [], 0, 0
    for token in _TOKEN.finditer(text):
        token_text = token[0]
        if token_text in ("//", '"', "'", "\\"):
            return None  # a comment, or a string with escapes
        if token_text[0] in "\"'":
            previous_char, next_char = text[: token.start()][-1:], text[token.end() :][:1]
            if previous_char.isalpha() or next_char == token_text[0]:
                return None  # r"...", """..."""
        elif token_text in _OPEN:
            depth += 1
        elif token_text in ")]}":
            depth -= 1
        elif depth == 0:
            if token_text != "&&":
                return None
            parts.append(text[start : token.start()].strip())
            start = token.end()
        if depth < 0:
            return None
    return [*parts, text[start:].strip()] if depth == 0 else None


def _inside(part: str) -> str | None:
    """Return the content of the parentheses around a term; None if there are none."""
    if not part.startswith("("):
        return None
    depth = 0
    for token in _TOKEN.finditer(part):
        depth += (token[0] in _OPEN) - (token[0] in ")]}")
        if depth == 0 and token.end() < len(part):
            return None
    return part[1:-1]
