"""A GPU's slices as SVG: memory slices in the upper row, compute slices in the lower."""

from collections.abc import Callable
from typing import Final

from drawing import pixels
from drawing.elements import Element, element, shorten
from drawing.pixels import DETAIL
from drawing.slices import Box, BoxState, GpuPicture

PATTERNED: Final = (BoxState.LEAVING, BoxState.SICK, BoxState.LOST, BoxState.CLOSED)
_LETTER: Final = 6.6  # pixels of the drawing's text
_READABLE: Final = (20, 11.5)  # the smallest box with a text


def look_of(box: Box) -> str:
    """Return the class that colours a box by its state."""
    return box.state.value


def draw_gpu(
    picture: GpuPicture,
    label: str = "",
    *,
    look: Callable[[Box], str] = look_of,
    href: Callable[[Box], str] = lambda box: "",
    axis: bool = False,
    marked: str = "",
) -> Element:
    """Return the drawing of a GPU. ``look`` gives a box's class, ``href`` the address behind it.

    The box of the slice with the UUID ``marked`` has a thick frame.
    """
    high = DETAIL.height + (16 if axis else 6)
    top = DETAIL.memory + DETAIL.gap
    ticks = []
    for unit in range(picture.units + 1):
        x = unit * DETAIL.width / picture.units
        line = {"x1": x, "x2": x, "y1": DETAIL.height + 1, "y2": DETAIL.height + 4}
        ticks.append(element("line", class_="tick", **line))
    words = f"{picture.units} memory slices above, {picture.compute_slices} compute slices below"
    text = element("text", words, class_="axis", x=0, y=DETAIL.height + 13) if axis else None
    return element(
        "svg",
        _frame(-0.5, DETAIL.memory),
        _frame(top - 0.5, DETAIL.compute),
        *(
            _draw_box(box, picture, look(box), href(box), bool(marked) and box.uuid == marked)
            for box in picture.boxes
        ),
        *ticks,
        text,
        class_="gpu-picture",
        viewBox=f"-1 -1 {DETAIL.width + 2} {high}",
        role="group",
        aria_label=label,
    )


def make_patterns() -> Element:
    """Return the definitions of the patterns that a document's drawings share."""
    size = {"width": 6, "height": 6}
    stripes = element(
        "pattern",
        element("rect", class_="ground", **size),
        element("rect", class_="ink", width=3, height=6),
        id="p-leaving",
        **size,
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )
    crosses = element(
        "pattern",
        element("rect", class_="ground", **size),
        element("path", class_="stroke", d="M0 0l6 6M6 0l-6 6"),
        id="p-sick",
        **size,
        patternUnits="userSpaceOnUse",
    )
    dots = element(
        "pattern",
        element("rect", class_="ground", width=5, height=5),
        element("circle", class_="ink", cx=2.5, cy=2.5, r=1.2),
        id="p-closed",
        width=5,
        height=5,
        patternUnits="userSpaceOnUse",
    )
    lines = element(
        "pattern",
        element("rect", class_="ground", **size),
        element("rect", class_="ink", width=6, height=2),
        id="p-lost",
        **size,
        patternUnits="userSpaceOnUse",
    )
    return element("defs", stripes, crosses, dots, lines)


def fit_name(name: str, width: float) -> str:
    """Return as much of a slice's name as is legible in a box of this width in pixels."""
    profile = name.partition("@")[0]
    if len(profile) * _LETTER <= width:
        return profile
    return profile.partition(".")[0]


def _frame(top: float, height: float) -> Element:
    return element("rect", class_="frame", x=-0.5, y=top, width=DETAIL.width, height=height)


def _draw_box(box: Box, picture: GpuPicture, look: str, href: str, marked: bool) -> Element:
    memory = pixels.memory_rect(box, picture, DETAIL)
    compute = pixels.compute_rect(box, picture, DETAIL)
    fill = f"url(#p-{look})" if look in PATTERNED else None
    rects = (
        element(
            "rect",
            class_=f"s {look}{' marked' * marked}",
            fill=fill,
            x=rect.x,
            y=rect.y,
            width=rect.width,
            height=rect.height,
            rx=2,
        )
        for rect in (memory, compute)
    )
    text = None
    if memory.width > _READABLE[0] and memory.height > _READABLE[1]:
        middle, base = memory.x + memory.width / 2, memory.y + memory.height / 2 + 4
        name = fit_name(box.name, memory.width)
        text = element("text", name, class_=f"t-{look}", x=middle, y=base)
    children = [element("title", shorten(box.label, 600)), *rects, text]
    if href:
        return element("a", *children, href=href)
    return element("g", *children, role="img", aria_label=shorten(box.label, 300))
