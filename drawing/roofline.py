"""A roofline plot: peak rates as roofs, and operations as points below them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from drawing.causes import COLOURS
from drawing.elements import Element, element, shorten

WIDTH: Final = 720
_HEIGHT: Final = 340
_LEFT: Final = 64
_RIGHT: Final = 16
_TOP: Final = 24
_BOTTOM: Final = 40
_LINE: Final = 18
_NEAR: Final = 10  # pixels within which the numbers of two points would overlap
MOST_POINTS: Final = 24


@dataclass(frozen=True, slots=True)
class Roof:
    """A board's limits: ``bandwidth`` in GB/s, and its peak rate of arithmetic in Gflop/s."""

    name: str
    bandwidth: float
    peak: float


@dataclass(frozen=True, slots=True)
class Point:
    """An operation: ``intensity`` in operations per byte, ``rate`` in Gflop/s."""

    name: str
    intensity: float
    rate: float


@dataclass(frozen=True, slots=True)
class _Axes:
    """The logarithmic scales of a plot: the exponents at their ends."""

    left: float
    right: float
    bottom: float
    top: float

    def x(self, value: float) -> float:
        share = (math.log10(value) - self.left) / (self.right - self.left)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (math.log10(value) - self.bottom) / (self.top - self.bottom)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)


def draw_roofline(roofs: Sequence[Roof], points: Sequence[Point]) -> Element | None:
    """Return the plot of up to 24 points; None if there is no roof or no point to draw."""
    roofs = [roof for roof in roofs if roof.bandwidth > 0 and roof.peak > 0]
    drawn = [point for point in points if point.intensity > 0 and point.rate > 0][:MOST_POINTS]
    if not roofs or not drawn:
        return None
    axes = _axes(roofs, drawn)
    entries = [f"{roof.name}: {roof.peak:.4g} Gflop/s, {roof.bandwidth:.4g} GB/s" for roof in roofs]
    entries += [f"{n}  {point.name}: {point.rate:.4g} Gflop/s" for n, point in enumerate(drawn, 1)]
    parts = [*_grid(axes)]
    parts += [_roof(axes, roof, number) for number, roof in enumerate(roofs)]
    for point in drawn:
        x, y = axes.x(point.intensity), axes.y(point.rate)
        words = f"{point.name}: {point.rate:.4g} Gflop/s at {point.intensity:.4g} operations a byte"
        parts.append(element("circle", element("title", words), class_="point", cx=x, cy=y, r=4.5))
    for x, y, numbers in _labels(
        [(axes.x(point.intensity), axes.y(point.rate)) for point in drawn]
    ):
        parts.append(element("text", numbers, class_="key", x=x + 7, y=y - 5))
    for place, text in enumerate(entries):
        y = _HEIGHT + 10 + place * _LINE
        if place < len(roofs):
            line = f"M8 {y - 4}h14"
            parts.append(element("path", class_=f"roof k{place % COLOURS}", d=line))
        else:
            parts.append(element("circle", class_="point", cx=15, cy=y - 4, r=4.5))
        parts.append(element("text", shorten(text, 100), class_="key", x=28, y=y))
    return element(
        "svg",
        *parts,
        class_="drawing",
        viewBox=f"0 0 {WIDTH} {_HEIGHT + 10 + len(entries) * _LINE}",
        role="img",
        aria_label=shorten("roofline; " + "; ".join(entries), 1500),
    )


def _labels(places: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float, str]]:
    """Yield the numbers of points with their places; points that overlap have one text."""
    remaining_places = dict(enumerate(places, 1))
    while remaining_places:
        x, y = next(iter(remaining_places.values()))
        near_numbers = [
            number
            for number, (a, b) in remaining_places.items()
            if abs(a - x) < _NEAR and abs(b - y) < _NEAR
        ]
        for number in near_numbers:
            del remaining_places[number]
        yield x, y, ", ".join(map(str, near_numbers))


def _axes(roofs: Sequence[Roof], points: Sequence[Point]) -> _Axes:
    ridges = [roof.peak / roof.bandwidth for roof in roofs]
    spots = [point.intensity for point in points]
    min_exponent = math.floor(math.log10(min(*spots, *ridges) / 2))
    max_exponent = math.ceil(math.log10(max(*spots, *ridges) * 2))
    low = min(
        min(point.rate for point in points), *(10**min_exponent * roof.bandwidth for roof in roofs)
    )
    high = max(max(point.rate for point in points), *(roof.peak for roof in roofs))
    return _Axes(
        min_exponent, max_exponent, math.floor(math.log10(low)), math.ceil(math.log10(high * 1.2))
    )


def _grid(axes: _Axes) -> Iterator[Element]:
    bottom, right = _HEIGHT - _BOTTOM, WIDTH - _RIGHT
    for power in range(int(axes.left), int(axes.right) + 1):
        x = axes.x(10.0**power)
        yield element("path", class_="tick", d=f"M{x:.1f} {_TOP}V{bottom}")
        yield element("text", _decade(power), class_="axis mid", x=x, y=bottom + 14)
    for power in range(int(axes.bottom), int(axes.top) + 1):
        y = axes.y(10.0**power)
        yield element("path", class_="tick", d=f"M{_LEFT} {y:.1f}H{right}")
        yield element("text", _decade(power), class_="axis end", x=_LEFT - 6, y=y + 4)
    middle = (_LEFT + right) / 2
    yield element("text", "operations a byte", class_="axis mid", x=middle, y=_HEIGHT - 8)
    yield element("text", "Gflop/s", class_="axis", x=4, y=_TOP - 10)


def _decade(power: int) -> str:
    return f"{10.0**power:g}" if -3 <= power <= 3 else f"1e{power}"


def _roof(axes: _Axes, roof: Roof, number: int) -> Element:
    ridge = roof.peak / roof.bandwidth
    start = 10.0**axes.left
    x0, y0 = axes.x(start), axes.y(start * roof.bandwidth)
    line = f"M{x0:.1f} {y0:.1f}L{axes.x(ridge):.1f} {axes.y(roof.peak):.1f}H{WIDTH - _RIGHT}"
    words = element("title", f"{roof.name}: {roof.bandwidth:.4g} GB/s, {roof.peak:.4g} Gflop/s")
    return element("path", words, class_=f"roof k{number % COLOURS}", d=line)
