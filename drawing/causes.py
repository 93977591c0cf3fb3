"""Times as stacks of causes: one bar for each, with its interval and a legend of the causes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drawing.elements import Element, element, shorten

WIDTH: Final = 720
COLOURS: Final = 12  # classes c0 to c11 of the style
MOST_CAUSES: Final = 40
_LEFT: Final = 150
_RIGHT: Final = 130
_ROW: Final = 40
_BAR: Final = 20
_LINE: Final = 18
_LETTER: Final = 6.3


@dataclass(frozen=True, slots=True)
class Stack:
    """A time with its causes, which add up to ``total``; a cause can be negative.

    ``interval`` are the ends of the interval, or None. ``unit`` is printed after every time.
    """

    name: str
    total: float
    parts: Mapping[str, float]
    interval: tuple[float, float] | None = None
    unit: str = "us"

    @property
    def label(self) -> str:
        """Return the stack in words."""
        causes = ", ".join(f"{name} {value:.4g}" for name, value in self.parts.items())
        return f"{self.name}: {self.total:.4g} {self.unit}{self.within}; {causes}"

    @property
    def within(self) -> str:
        """Return the interval in words."""
        if self.interval is None:
            return ""
        return f" (90 %: {self.interval[0]:.4g} to {self.interval[1]:.4g})"


def draw_causes(stacks: Sequence[Stack], label: str = "") -> Element:
    """Return the bars of some stacks on one scale, and the legend of their causes."""
    names = list(dict.fromkeys(cause for stack in stacks for cause in stack.parts))
    scale = (WIDTH - _LEFT - _RIGHT) / max(map(_right_end, stacks), default=1)
    parts: list[Element] = []
    for place, stack in enumerate(stacks):
        parts += _bar(stack, names, place * _ROW + 6, scale)
    top = len(stacks) * _ROW + 14
    single = stacks[0] if len(stacks) == 1 else None
    entries = list(_legend(names, single, top))
    rows = (len(names) + 1) // 2
    words = label or "; ".join(stack.label for stack in stacks)
    return element(
        "svg",
        *parts,
        *entries,
        class_="drawing",
        viewBox=f"0 0 {WIDTH} {top + rows * _LINE + 4}",
        role="img",
        aria_label=shorten(words, 1500),
    )


def _right_end(stack: Stack) -> float:
    positive = sum(value for value in stack.parts.values() if value > 0)
    return max(positive, stack.total, stack.interval[1] if stack.interval else 0, 1e-9)


def _bar(stack: Stack, names: Sequence[str], top: float, scale: float) -> Iterator[Element]:
    name = shorten(stack.name, 20)
    yield element("text", name, class_="row", x=_LEFT - 8, y=top + 15)
    at = float(_LEFT)
    # Negative causes come last: they lead back from the sum of the others to the total.
    for cause, value in sorted(stack.parts.items(), key=lambda row: row[1] < 0):
        if not value:
            continue
        width = abs(value) * scale
        x = at if value > 0 else at - width
        at += value * scale
        number = names.index(cause)
        colour = _colour(number) if value > 0 else "less"
        words = f"{cause}: {value:.4g} {stack.unit} ({_percent(value, stack)})"
        rect = element(
            "rect",
            element("title", words),
            class_=f"part {colour}",
            x=x,
            y=top,
            width=max(width, 0.4),
            height=_BAR,
        )
        yield rect
        if width > 16:
            yield element(
                "text",
                str(number + 1),
                class_=f"in{_round(number)}",
                x=x + width / 2,
                y=top + _BAR / 2 + 4,
            )
    end = max(at, _LEFT)
    if stack.interval is not None:
        low, high = (_LEFT + value * scale for value in stack.interval)
        middle = top + _BAR + 6
        shape = f"M{low:.1f} {middle - 4}v8M{high:.1f} {middle - 4}v8M{low:.1f} {middle}H{high:.1f}"
        yield element(
            "path", element("title", f"interval{stack.within}"), class_="whisker", d=shape
        )
        end = max(end, high)
    total = f"{stack.total:.4g} {stack.unit}"
    yield element("text", total, class_="total", x=end + 8, y=top + 15)


def _legend(names: Sequence[str], single: Stack | None, top: float) -> Iterator[Element]:
    rows = (len(names) + 1) // 2
    for number, name in enumerate(names):
        x = 8 + (number // rows) * WIDTH / 2
        y = top + (number % rows) * _LINE
        value = None if single is None else single.parts[name]
        colour = _colour(number) if value is None or value >= 0 else "less"
        yield element("rect", class_=f"part {colour}", x=x, y=y, width=14, height=12)
        text = f"{number + 1}  {shorten(name, 34)}"
        yield element("text", text, class_="key", x=x + 20, y=y + 10)
        if single is not None and value is not None:
            words = f"{value:.4g} {single.unit}  {_percent(value, single)}"
            yield element("text", words, class_="row", x=x + WIDTH / 2 - 20, y=y + 10)


def _colour(number: int) -> str:
    """Return the classes of a cause: a colour, which further rounds of causes have paler."""
    return f"c{number % COLOURS}{_round(number)}"


def _round(number: int) -> str:
    return ("", " again", " third", " fourth")[min(number // COLOURS, 3)]


def _percent(value: float, stack: Stack) -> str:
    return f"{100 * value / stack.total:.1f} %" if stack.total else "-"
