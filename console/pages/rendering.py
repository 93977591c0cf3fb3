"""Renders templates: everything that is inserted is escaped."""

import functools
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from console.views import faults, fleet, impact, inference, places, rollout
from console.views.waiting import advice, why
from drawing import elements, gpus, pixels, slices, verdict
from drawing.elements import Element
from drawing.slices import Box, GpuPicture
from facts.wording import format_size
from rdma.explain import Explanation

STATIC: Final = Path(__file__).parent / "static"
_TEMPLATES: Final = Path(__file__).parent / "templates"
_SHORT: Final = 48
# Embeddings, overrides and isolates of Unicode's bidirectional algorithm, and the marks.
_DIRECTION_MARKS: Final = dict.fromkeys(
    (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C),
    "\N{REPLACEMENT CHARACTER}",
)


@functools.cache
def environment() -> Environment:
    """Return the environment of all templates, which compiles each once per process; an unknown
    name in one is an error.
    """
    jinja_environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=replace_direction_marks,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    jinja_environment.globals |= {
        "svg": pixels,
        "gpu_drawing": _draw_gpu,
        "path_drawing": _draw_path,
        "patterns": gpus.make_patterns(),
        "advise": advice.advise,
        "describe_recovery": impact.describe_recovery,
        "is_beside": faults.is_beside,
        "is_sick": faults.is_sick,
        "legend": slices.LEGEND,
        "colours": fleet.COLOURS,
        "memory_levels": fleet.memory_legend(),
        "colour_class": fleet.colour_class,
        "hue": fleet.hue,
        "words": slices.WORDS,
        "shown_nodes": why.SHOWN,
        "describe_bare": why.describe_bare,
        "place_legend": places.LEGEND,
        "is_rolled_back": rollout.is_rolled_back,
        "is_lost": faults.is_lost,
    }
    jinja_environment.filters |= {
        "short": shorten,
        "segment": quote_segment,
        "gib": format_size,
        "when": format_time,
        "duration": rollout.format_duration,
        "rate": inference.format_rate,
        "place": places.describe_place,
        "health": faults.describe_health,
    }
    return jinja_environment


def _draw_path(answer: Explanation, is_narrow: bool) -> Element:
    """Return the drawing of an explained flow, for a wide or a narrow window."""
    draw = verdict.draw_narrow_path if is_narrow else verdict.draw_path
    return draw(verdict.path_of(answer))


def _draw_gpu(
    picture: GpuPicture, colour: str, links: bool, label: str, axis: bool, marked: str
) -> Element:
    """Return the drawing of a GPU, with a link behind each slice that exists if ``links``."""
    return gpus.draw_gpu(
        picture,
        label,
        look=lambda box: fleet.colour_class(box, colour),
        href=lambda box: _slice_page(box) if links else "",
        axis=axis,
        marked=marked,
    )


def _slice_page(box: Box) -> str:
    return f"/slices/{quote_segment(box.uuid)}" if box.uuid else ""


def quote_segment(text: str) -> str:
    """Return a text as one segment of a path, with its slashes escaped."""
    return quote(text, safe="")


def replace_direction_marks(value: Any) -> Any:
    """Return a template's value with the characters that reverse the text after them replaced.

    In a name or a message, U+202E would show "exe.png" for "gnp.exe", also beyond that text.
    """
    if isinstance(value, str) and not value.isascii():
        return type(value)(value.translate(_DIRECTION_MARKS))
    return value


def shorten(text: str, most_characters: int = _SHORT) -> str:
    """Return a text that is at most ``most_characters`` characters long; its middle is left out."""
    return elements.shorten(text, most_characters)


def format_time(text: str) -> str:
    """Return an RFC 3339 time without fractions of seconds, in a form that people read."""
    return text.replace("T", " ").partition(".")[0].removesuffix("Z")


def render(templates: Environment, template: str, /, **values: Any) -> str:
    """Return a rendered template."""
    return templates.get_template(template).render(**values)
