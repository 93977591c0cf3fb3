"""Renders templates: everything that is inserted is escaped."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from console.views import advice, fleet, geometry, svg, why

STATIC: Final = Path(__file__).parent / "static"
_TEMPLATES: Final = Path(__file__).parent / "templates"
_SHORT: Final = 48
_LETTER: Final = 6.6  # pixels of the drawing's text


def new_environment() -> Environment:
    """Return the environment of all templates; an unknown name in one is an error."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals |= {
        "svg": svg,
        "advise": advice.advise,
        "legend": geometry.LEGEND,
        "colour_class": fleet.colour_class,
        "hue": fleet.hue,
        "words": geometry.WORDS,
        "shown_nodes": why.SHOWN,
    }
    environment.filters |= {
        "short": shorten,
        "segment": quote_segment,
        "fit": fit_name,
        "gib": format_gib,
        "when": format_time,
    }
    return environment


def quote_segment(text: str) -> str:
    """Return a text as one segment of a path, with its slashes escaped."""
    return quote(text, safe="")


def shorten(text: str, most: int = _SHORT) -> str:
    """Return a text that is at most ``most`` characters long; its middle is left out."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def fit_name(name: str, width: float) -> str:
    """Return as much of a slice's name as is legible in a box of this width in pixels."""
    profile = name.partition("@")[0]
    if len(profile) * _LETTER <= width:
        return profile
    return profile.partition(".")[0]


def format_gib(size_bytes: int) -> str:
    """Return a size in GiB."""
    return f"{size_bytes / 2**30:.1f} GiB"


def format_time(text: str) -> str:
    """Return an RFC 3339 time without fractions of seconds, in a form that people read."""
    return text.replace("T", " ").partition(".")[0].removesuffix("Z")


def render(environment: Environment, template: str, /, **values: Any) -> str:
    """Return a rendered template."""
    return environment.get_template(template).render(**values)
