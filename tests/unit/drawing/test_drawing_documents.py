"""Elements and documents: everything is escaped, files need nothing else, and no script can run."""

import base64
import hashlib
import itertools
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from drawing.causes import Stack, draw_causes
from drawing.documents import Figure, make_table, write_html, write_svg
from drawing.elements import element, shorten
from drawing.gpus import draw_gpu
from drawing.listing import Row, draw_listing
from drawing.network import Device, Network, draw_network
from drawing.roofline import Point, Roof, draw_roofline
from drawing.slices import BoxState, draw_places
from drawing.verdict import Path, Stage, draw_path
from mig import geometry

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]></style></svg><script>alert(1)</script>",
    "\x00\x1b[31m\ud800\ufffe",
    "\u202egnp.exe\u2066",
    "x" * 300,
    "&amp;<b>",
)


def figures_with(name: str) -> list[Figure]:
    """Return one drawing of each kind in which every text is ``name``."""
    plot = draw_roofline([Roof(name, 100, 1000)], [Point(name, 1, 10)])
    assert plot is not None
    board = geometry.board("h100-80gb")
    places = {board.instance("1g.10gb", 0): BoxState.HELD}
    device = Device(name, "gpu", 0, 0, name, f"/gpus/{name}")
    return [
        Figure(name, draw_causes([Stack(name, 3, {name: 2, "b": 1.5, "c": -0.5}, (2, 4))])),
        Figure(name, plot),
        Figure(name, draw_network(Network(name, (device, device), 18, True, name))),
        Figure(name, draw_listing([Row(name, 1, name, name, 2.0)], name)),
        Figure(name, draw_path(Path(name, name, name, (Stage(name, False, (name,)),)))),
        Figure(
            name, draw_gpu(draw_places(board, places), name), (make_table(name, [name], [[name]]),)
        ),
    ]


class Tags(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_adds_no_element_and_no_attribute(name: str) -> None:
    harmless, hostile = (
        Tags(write_html(one, figures_with(one), [one])).tags for one in ("n", name)
    )
    assert shapes_of(hostile) == shapes_of(harmless)


def shapes_of(tags: list[tuple[str, dict[str, str | None]]]) -> list[tuple[str, list[str]]]:
    """Return the tags with their attributes; equal ones in a row count once: lines of a text."""
    found = [(tag, sorted(attributes)) for tag, attributes in tags]
    return [one for one, _ in itertools.groupby(found)]


@pytest.mark.parametrize("name", HOSTILE)
def test_svg_is_well_formed_and_has_neither_script_nor_other_files(name: str) -> None:
    root = ElementTree.fromstring(write_svg(figures_with(name)))
    tags = {one.tag.rpartition("}")[2] for one in root.iter()}
    assert not tags & {"script", "image", "foreignObject", "use", "iframe"}
    for one in root.iter():
        assert not [key for key in one.attrib if key.startswith("on")]


def test_the_policy_of_a_page_permits_its_own_style_only() -> None:
    text = write_html("t", figures_with("n"))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    (style,) = re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.replace("&#x27;", "'").split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert "style=" not in text
    assert "<script" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_figures_stand_below_each_other_in_one_file() -> None:
    figures = figures_with("n")
    root = ElementTree.fromstring(write_svg(figures))
    inner = [one for one in root if one.tag.endswith("}svg")]
    tops = [(float(one.get("y", "")), float(one.get("height", ""))) for one in inner]
    assert len(tops) == len(figures)
    for (top, high), (following, _) in itertools.pairwise(tops):
        assert top + high < following
    assert float(root.get("height", "")) >= sum(tops[-1])


def test_attributes_have_html_names_and_rounded_numbers() -> None:
    found = element("rect", class_="a", aria_label="x", x=1.26, y=2.0, hidden=None)
    assert str(found) == '<rect class="a" aria-label="x" x="1.3" y="2"></rect>'


@pytest.mark.parametrize("most", [1, 2, 5, 48])
def test_a_shortened_text_has_at_most_so_many_characters(most: int) -> None:
    assert len(shorten("y" * 300, most)) <= most
    assert shorten("y" * most, most) == "y" * most
