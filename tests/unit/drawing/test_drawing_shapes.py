"""Shapes have the sizes of their values."""

import itertools
from typing import TypeGuard

import pytest

from drawing.causes import Stack, draw_causes
from drawing.documents import STYLE
from drawing.elements import Element, escape_text
from drawing.listing import MOST_ROWS, Row, draw_listing
from drawing.network import Device, Network, draw_network
from drawing.roofline import Point, Roof, draw_roofline
from drawing.verdict import NARROW, WIDTH, Path, Stage, draw_narrow_path, draw_path


def found_in(drawing: Element, tag: str, kind: str = "") -> list[dict[str, str]]:
    """Return the attributes of the elements of a tag whose class contains ``kind``."""
    found = []
    for child in drawing.children:
        if isinstance(child, Element):
            attributes = dict(child.attributes)
            if child.tag == tag and kind in attributes.get("class", ""):
                found.append(attributes)
            found += found_in(child, tag, kind)
    return found


def bars_of(*stacks: Stack) -> list[dict[str, str]]:
    every = found_in(draw_causes(stacks), "rect", "part")
    return [one for one in every if one["height"] == "20"]


def test_causes_are_as_wide_as_their_shares_and_adjacent() -> None:
    first, second = bars_of(Stack("a", 4, {"x": 1, "y": 3}))
    assert float(second["width"]) == pytest.approx(3 * float(first["width"]), abs=0.3)
    assert float(second["x"]) == pytest.approx(float(first["x"]) + float(first["width"]), abs=0.2)


def test_boards_share_one_scale() -> None:
    long, short = bars_of(Stack("a", 8, {"x": 8}), Stack("b", 2, {"x": 2}))
    assert float(long["width"]) == pytest.approx(4 * float(short["width"]), abs=0.3)
    assert long["class"] == short["class"]


def test_a_negative_cause_leads_back_to_the_total() -> None:
    positive, negative = bars_of(Stack("a", 3, {"n": -1, "x": 4}))
    assert "less" in negative["class"]
    end = float(positive["x"]) + float(positive["width"])
    assert float(negative["x"]) + float(negative["width"]) == pytest.approx(end, abs=0.2)
    assert float(negative["width"]) == pytest.approx(float(positive["width"]) / 4, abs=0.2)


def test_nothing_is_drawn_outside_for_extreme_values() -> None:
    for total in (0.0, 1e-12, 1e18):
        drawing = draw_causes([Stack("a", total, {"x": total}, (0, total * 3))])
        for one in found_in(drawing, "rect"):
            assert 0 <= float(one["x"]) <= 720
            assert float(one["x"]) + float(one["width"]) <= 721


def test_no_two_causes_look_alike() -> None:
    stack = Stack("a", 820, {f"cause {n}": 1.0 + n for n in range(40)})
    bars = [one["class"] for one in bars_of(stack)]
    assert len(set(bars)) == len(bars) == 40
    keys = found_in(draw_causes([stack]), "rect", "part")[40:]
    assert [one["class"] for one in keys] == bars
    for name in ("again", "third", "fourth"):
        assert f".part.{name} {{ fill-opacity: " in STYLE


def test_a_long_reason_is_whole_in_wide_and_narrow_drawings() -> None:
    reason = "P_Key 0x7fff: from: default partition, full member; " * 4
    path = Path("Write", "a", "b", (Stage("partition", True, (reason.strip(),)),))
    for draw, width in ((draw_path, WIDTH), (draw_narrow_path, NARROW)):
        drawing = draw(path)
        assert dict(drawing.attributes)["viewBox"].startswith(f"0 0 {width} ")
        texts = [one.children[0] for one in drawing.children if _is_text(one)]
        whole = " ".join(str(one).replace("\N{NO-BREAK SPACE}", "") for one in texts)
        assert whole == f"partition: {reason.strip()}"
        for one in found_in(drawing, "rect", "box"):
            assert float(one["x"]) + float(one["width"]) <= width


def _is_text(one: Element | str) -> TypeGuard[Element]:
    return isinstance(one, Element) and one.tag == "text"


def test_points_are_below_the_roof_where_their_rates_are() -> None:
    drawing = draw_roofline([Roof("r", 100, 1000)], [Point("low", 1, 10), Point("high", 100, 1000)])
    assert drawing is not None
    low, high, *_ = found_in(drawing, "circle", "point")
    assert float(low["cx"]) < float(high["cx"])
    assert float(low["cy"]) > float(high["cy"])  # downwards
    (line,) = [one["d"] for one in found_in(drawing, "path", "roof") if "L" in one["d"]]
    assert line.endswith("H704")
    top = float(line.split("L")[1].split("H")[0].split()[1])
    assert top == pytest.approx(float(high["cy"]), abs=0.2)


def test_points_at_one_place_have_one_text() -> None:
    points = [Point("a", 10, 100), Point("b", 1, 10), Point("c", 10.01, 100.1)]
    drawing = draw_roofline([Roof("r", 100, 1000)], points)
    assert drawing is not None
    keys = [one for one in drawing.children if isinstance(one, Element) and one.tag == "text"]
    texts = [one.children[0] for one in keys if ("class", "key") in one.attributes]
    assert texts[:2] == ["1, 3", "2"]


@pytest.mark.parametrize(
    ("roofs", "points"),
    [([], [Point("p", 1, 1)]), ([Roof("r", 1, 1)], []), ([Roof("r", 0, 1)], [Point("p", 0, 1)])],
)
def test_without_a_roof_or_a_point_there_is_no_plot(roofs: list[Roof], points: list[Point]) -> None:
    assert draw_roofline(roofs, points) is None


def test_switched_gpus_have_one_link_each_and_others_one_for_each_pair() -> None:
    gpus = tuple(Device(f"GPU {n}", "gpu", n // 2, n) for n in range(4))
    hca = Device("HCA 0", "hca", 0, 0)
    switched = draw_network(Network("n", (*gpus, hca), 18, True))
    direct = draw_network(Network("n", (*gpus, hca), 6))
    assert len(found_in(switched, "path", "nvlink")) == 4
    assert len(found_in(direct, "path", "nvlink")) == 6
    assert not found_in(draw_network(Network("n", gpus)), "path", "nvlink")


def test_devices_below_one_switch_are_neighbours_and_none_overlap() -> None:
    devices = [Device(f"GPU {n}", "gpu", n % 2, n % 4) for n in range(8)]
    boxes = found_in(draw_network(Network("n", tuple(devices))), "rect", "box gpu")
    lefts = sorted(float(one["x"]) for one in boxes)
    assert all(b - a >= 92 for a, b in itertools.pairwise(lefts))
    assert len(found_in(draw_network(Network("n", tuple(devices))), "rect", "switch")) == 4


def test_what_follows_a_denial_is_not_reached() -> None:
    stages = (Stage("egress", True), Stage("ingress", False), Stage("memory", True))
    wires = found_in(draw_path(Path("Write", "a", "b", stages)), "path", "wire")
    assert [one["class"].split()[-1] for one in wires] == ["pass", "pass", "deny", "deny"]


def test_a_long_listing_is_cut_and_states_it() -> None:
    drawing = draw_listing([Row("", 1, "a", "b", 1.0)] * (MOST_ROWS + 3), "cost")
    assert len(found_in(drawing, "rect", "part")) == MOST_ROWS
    assert "3 more lines are not drawn" in str(drawing)


@pytest.mark.parametrize(
    "character", ["\x1b", "\x9b", "\u200e", "\u061c", "\u202e", "\ud800", "\uffff"]
)
def test_controls_and_direction_marks_are_replaced_in_markup(character: str) -> None:
    assert escape_text(f"a{character}b") == "a\N{REPLACEMENT CHARACTER}b"
    assert escape_text("a\t\n<é…") == "a\t\n&lt;é…"
