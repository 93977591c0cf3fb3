"""A figure over the last minutes as a small line, with gaps where nothing was measured."""

from collections.abc import Iterator, Sequence
from typing import Final

from drawing.elements import Element, element, shorten

_WIDE: Final = 240
_HIGH: Final = 36
_EDGE: Final = 2  # so that a line at the top or the bottom has its whole width
_DOT: Final = 1.5


def draw_sparkline(
    points: Sequence[tuple[float, float]], span_s: float, top: float, gap_s: float, label: str
) -> Element:
    """Return the drawing of ``points``: pairs of how many seconds ago, and a value.

    The drawing ends now and begins ``span_s`` ago; its upper edge is the value ``top``. Points that
    are more than ``gap_s`` apart are not connected.
    """
    scale = top if top > 0 else 1.0

    def place(age_s: float, value: float) -> tuple[float, float]:
        share = min(max(value / scale, 0.0), 1.0)
        return _WIDE * (1 - age_s / span_s), _HIGH - _EDGE - share * (_HIGH - 2 * _EDGE)

    lines = []
    for part in _split(points, gap_s):
        places = [place(*point) for point in part]
        if len(places) == 1:
            x, y = places[0]
            lines.append(element("circle", class_="dot", cx=x, cy=y, r=_DOT))
        else:
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            lines.append(element("path", class_="curve", d=f"M{path}"))
    ground = element("rect", class_="ground", width=_WIDE, height=_HIGH)
    return element(
        "svg",
        element("title", shorten(label, 300)),
        ground,
        *lines,
        class_="sparkline",
        viewBox=f"0 0 {_WIDE} {_HIGH}",
        role="img",
        aria_label=shorten(label, 300),
    )


def _split(
    points: Sequence[tuple[float, float]], gap_s: float
) -> Iterator[list[tuple[float, float]]]:
    """Yield the runs of points that are connected."""
    part: list[tuple[float, float]] = []
    for point in points:
        if part and part[-1][0] - point[0] > gap_s:
            yield part
            part = []
        part.append(point)
    if part:
        yield part
