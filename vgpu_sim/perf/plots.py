"""HTML pages with plots as inline SVG; equal numbers give identical bytes."""

import io
from collections.abc import Callable, Sequence
from html import escape
from importlib import util
from typing import Any, Final

from vgpu_sim.perf.errors import NoData

_NO_PLOTS: Final = "no plots: pip install '.[perf]' in the checkout, or matplotlib"
_STYLE: Final = """body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto}
table{border-collapse:collapse}
th,td{padding:.15rem .7rem;text-align:right;border-bottom:1px solid #ddd}
th:first-child,td:first-child{text-align:left}.missed{color:#a00}svg{max-width:100%;height:auto}"""


def require() -> None:
    """Check that plots can be made, before any computation for them. Raises NoData."""
    if util.find_spec("matplotlib") is None:
        raise NoData(_NO_PLOTS)


def document(title: str, body: str) -> str:
    """Return a complete page; ``body`` is HTML, ``title`` is plain text."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tessera: {escape(title)}</title>
<style>{_STYLE}</style></head><body>
<h1>{escape(title[:1].upper() + title[1:])}</h1>
{body}
</body></html>
"""


def row(cells: Sequence[object], kind: str = "td", css: str = "") -> str:
    """Return a table row; cells are HTML."""
    inside = "".join(f"<{kind}>{cell}</{kind}>" for cell in cells)
    return f"<tr{css}>{inside}</tr>"


def side_by_side(*draw: Callable[[Any], None], width: float = 11, height: float = 4.2) -> str:
    """Return one SVG with several plots side by side; each function in ``draw`` gets the axes of
    its plot.

    Raises:
        NoData: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as err:
        raise NoData(_NO_PLOTS) from err
    # Fixed names of glyphs and elements make pages comparable between runs.
    with mpl.rc_context({"svg.hashsalt": "tessera", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(width, height), layout="constrained")
        for axes, draw_axes in zip(
            figure.subplots(1, len(draw), squeeze=False)[0], draw, strict=True
        ):
            draw_axes(axes)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    _, tag, svg_tail = written.getvalue().partition("<svg")
    return tag + svg_tail
