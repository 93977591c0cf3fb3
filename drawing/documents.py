"""Files with drawings: SVG with its style, and HTML pages that need no other file.

The policy of an HTML page permits its own style, which it names by its hash, and nothing else: no
script, no image, no connection.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drawing.elements import Element, element, escape_text
from drawing.gpus import make_patterns

STYLE_FILE: Final = Path(__file__).parent / "drawing.css"
STYLE: Final = STYLE_FILE.read_text(encoding="utf-8")
_FRAME: Final = """
body { margin: 0 auto; max-width: 960px; padding: 1rem 1.25rem 3rem; overflow-wrap: anywhere;
  background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.4rem; line-height: 1.25; } h2 { font-size: 1.1rem; margin: 1.5rem 0 .5rem; }
"""
_HEIGHT_OF_TITLE: Final = 26
_LETTER: Final = 7.9  # pixels of a title's text
_XMLNS: Final = "http://www.w3.org/2000/svg"


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing (an ``svg`` element) with its title, and texts or tables that belong to it."""

    title: str
    drawing: Element
    more: tuple[Element, ...] = ()


def write_svg(figures: Sequence[Figure]) -> str:
    """Return one SVG file with the figures below each other, each with its title above it."""
    parts: list[Element] = []
    top, width = 0.0, 0.0
    for figure in figures:
        attributes = dict(figure.drawing.attributes)
        wide, high = map(float, attributes["viewBox"].split()[2:])
        parts.append(element("text", figure.title, class_="title", x=8, y=top + 18))
        moved = {**attributes, "y": f"{top + _HEIGHT_OF_TITLE:g}", "x": "8"}
        moved |= {"width": f"{wide:g}", "height": f"{high:g}"}
        parts.append(Element("svg", tuple(moved.items()), figure.drawing.children))
        top += _HEIGHT_OF_TITLE + high + 14
        width = max(width, wide + 16, len(figure.title) * _LETTER + 16)
    ground = element("rect", class_="ground", width="100%", height="100%")
    title = element("title", "; ".join(figure.title for figure in figures))
    body = "".join(map(str, (title, make_patterns(), ground, *parts)))
    size = f'viewBox="0 0 {width:g} {top:g}" width="{width:g}" height="{top:g}"'
    style = f"<style>{escape_text(STYLE)}</style>"
    return f'<svg xmlns="{_XMLNS}" {size} class="sheet">{style}{body}</svg>\n'


def write_html(title: str, figures: Sequence[Figure], notes: Sequence[str] = ()) -> str:
    """Return an HTML page with the figures, then paragraphs of text."""
    style = STYLE + _FRAME
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    sections = (
        element("section", element("h2", figure.title), figure.drawing, *figure.more)
        for figure in figures
    )
    patterns = element("svg", make_patterns(), class_="patterns", aria_hidden="true")
    heading = element("h1", title)
    paragraphs = (element("p", note) for note in notes)
    main = element("main", patterns, heading, *sections, *paragraphs)
    head = (
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
    )
    # A style element has raw text, which HTML does not unescape: the style has no "<".
    lines = "".join(map(str, head)) + f"<style>{style}</style>"
    return f'<!doctype html>\n<html lang="en"><head>{lines}</head>\n<body>{main}</body></html>\n'


def make_table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers_from: int = 1
) -> Element:
    """Return a table whose columns from ``numbers_from`` on hold numbers."""

    def cell(tag: str, place: int, text: str) -> Element:
        scope = "col" if tag == "th" else None
        kind = "num" if place >= numbers_from else None
        label = head[place] if tag == "td" and place else None  # the console's narrow pages show it
        return element(tag, text, class_=kind, scope=scope, data_label=label)

    body = (
        element("tr", *(cell("td", place, text) for place, text in enumerate(row))) for row in rows
    )
    return element(
        "div",
        element(
            "table",
            element("caption", caption, class_="hidden"),
            element(
                "thead",
                element("tr", *(cell("th", *numbered_title) for numbered_title in enumerate(head))),
            ),
            element("tbody", *body),
            class_="figures",
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )
