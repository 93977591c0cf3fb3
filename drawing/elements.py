"""Elements of SVG and HTML as values. Every text and every attribute is escaped when written."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Final

_MARK: Final = "\N{REPLACEMENT CHARACTER}"
_BLANKS: Final = "\t\n\r\N{NO-BREAK SPACE}"  # not printable to Python, and harmless in markup
_EMPTY: Final = ("meta", "br")  # HTML's elements without an end tag

Value = str | float | None


@dataclass(frozen=True, slots=True)
class Element:
    """An element with its attributes and children; a child that is a string is text."""

    tag: str
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple["Element | str", ...] = ()

    def __str__(self) -> str:
        """Return the element as markup."""
        return "".join(self._parts())

    def __html__(self) -> str:
        """Return the element as markup, which templates with autoescape insert unchanged."""
        return str(self)

    def _parts(self) -> Iterator[str]:
        yield f"<{self.tag}"
        for name, value in self.attributes:
            yield f' {name}="{escape_text(value)}"'
        if not self.children:
            yield ">" if self.tag in _EMPTY else f"></{self.tag}>"
            return
        yield ">"
        for child in self.children:
            if isinstance(child, Element):
                yield from child._parts()
            else:
                yield escape_text(child)
        yield f"</{self.tag}>"


def element(tag: str, *children: Element | str | None, **attributes: Value) -> Element:
    """Return an element. Attributes that are None are omitted.

    In an attribute's name, ``_`` stands for ``-``, and a last ``_`` for nothing: ``class_``,
    ``aria_label``.
    """
    attribute_pairs = tuple(
        (name.removesuffix("_").replace("_", "-"), format_value(value))
        for name, value in attributes.items()
        if value is not None
    )
    return Element(tag, attribute_pairs, tuple(child for child in children if child is not None))


def escape_text(text: str) -> str:
    """Return a text as it may stand in markup and in quoted attributes."""
    return escape(replace_unprintable(text, _BLANKS))


def replace_unprintable(text: str, exempt_chars: str = "") -> str:
    """Replace controls, direction marks and what else does not print, except ``exempt_chars``."""
    return "".join(c if c.isprintable() or c in exempt_chars else _MARK for c in text)


def format_value(value: str | float) -> str:
    """Return an attribute's value; coordinates have one decimal, so that files stay small."""
    if isinstance(value, str):
        return value
    return f"{round(value, 1):.10g}"


def shorten(text: str, max_length: int) -> str:
    """Return a text of at most ``max_length`` characters; its middle is left out."""
    if len(text) <= max_length:
        return text
    half = (max_length - 1) // 2
    return f"{text[:half]}…{text[len(text) - half :]}"
