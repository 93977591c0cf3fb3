"""The correlation page: one HTML file with accuracy, plots as SVG, and the worst shapes."""

import io
from collections.abc import Sequence
from html import escape
from importlib import util
from typing import Any, Final

import numpy as np

from vgpu_sim.perf.errors import NoData
from vgpu_sim.perf.judge.families import Verdict

_STYLE: Final = """body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto}
table{border-collapse:collapse}
th,td{padding:.15rem .7rem;text-align:right;border-bottom:1px solid #ddd}
th:first-child,td:first-child{text-align:left}.missed{color:#a00}svg{max-width:100%;height:auto}"""
_HEAD: Final = (
    "table",
    "fitted",
    "judged",
    "left out",
    "MAPE %",
    "median %",
    "p90 %",
    "bias %",
    "+res %",
)
_CLASSES: Final = 12  # of time, in the bars of causes


def page(verdicts: Sequence[Verdict]) -> str:
    """Return the page. Raises NoData without matplotlib."""
    body = "\n".join(_section(verdict) for verdict in verdicts)
    source = escape(verdicts[0].fitted.source.split(",")[0]) if verdicts else "no measurements"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tessera: predicted and measured times</title>
<style>{_STYLE}</style></head><body>
<h1>Predicted and measured times</h1>
<p>Times are modelled. Measurements: {source}. No row that is judged was fitted; errors are relative
to what was measured.</p>
{_summary(verdicts)}
{body}
</body></html>
"""


def _row(cells: Sequence[object], kind: str = "td", css: str = "") -> str:
    inside = "".join(f"<{kind}>{cell}</{kind}>" for cell in cells)
    return f"<tr{css}>{inside}</tr>"


def _summary(verdicts: Sequence[Verdict]) -> str:
    rows = [_row((*_HEAD, "log-corr", "in 90 %", "goal"), "th")]
    for one in verdicts:
        found = one.accuracy
        name = escape(f"{one.family.name}/{one.key}")
        cells = (
            *(f'<a href="#{name}">{name}</a>', one.fitted.rows, found.rows, one.excluded),
            *(f"{found.mape:.1f}", f"{found.median:.1f}", f"{found.p90:.1f}", f"{found.bias:+.1f}"),
            f"{one.corrected.mape:.1f}" if one.corrected else "-",
            *(f"{found.log_correlation:.4f}", f"{found.inside:.1f}", one.goal or "-"),
        )
        rows.append(_row(cells, css=' class="missed"' if one.met is False else ""))
    return f"<table>{''.join(rows)}</table><p>Red: the goal is missed.</p>"


def _section(one: Verdict) -> str:
    name = escape(f"{one.family.name}/{one.key}")
    rule = f"<p>Left out: {escape(one.family.excluded)}</p>" if one.family.excluded else ""
    shape = list(one.worst[0].shape) if one.worst else []
    rows = [_row((*shape, "measured us", "predicted us", "error %", "suspected"), "th")]
    rows += [
        _row(
            (
                *(escape(str(value)) for value in wrong.shape.values()),
                *(f"{wrong.measured:.4g}", f"{wrong.predicted:.4g}", f"{wrong.error:+.0f}"),
                escape(wrong.suspect),
            )
        )
        for wrong in one.worst
    ]
    return f"""<h2 id="{name}">{name}</h2>
<p>Fitted to {one.fitted.rows} rows of {escape(one.fitted.source)}.</p>{rule}
{_plots(one)}
<h3>The {len(one.worst)} worst shapes</h3><table>{"".join(rows)}</table>"""


def require_plots() -> None:
    """Check that a page can be made, before anything is judged. Raises NoData."""
    if util.find_spec("matplotlib") is None:
        raise NoData("no plots: pip install '.[perf]' in the checkout, or matplotlib")


def _plots(one: Verdict) -> str:
    """Predicted over measured, and the share of each cause by time, beside one another."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as err:
        raise NoData("no plots: pip install '.[perf]' in the checkout, or matplotlib") from err
    # Names of glyphs and elements are the same in each run: pages can be compared.
    with mpl.rc_context({"svg.hashsalt": "tessera", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(11, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        _correlation(left, one)
        _causes(right, one)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue().partition("<svg")[1] + written.getvalue().partition("<svg")[2]


def _correlation(axes: Any, one: Verdict) -> None:
    style = {"xscale": "log", "yscale": "log", "bins": "log", "mincnt": 1, "linewidths": 0.1}
    axes.hexbin(one.measured, one.predicted, gridsize=70, cmap="viridis", **style)
    ends = [one.measured.min(), one.measured.max()]
    axes.plot(ends, ends, color="black", linewidth=0.6)
    axes.set_xlabel("measured (us)")
    axes.set_ylabel("predicted (us)")
    axes.set_title(f"{one.accuracy.rows} shapes, mean error {one.accuracy.mape:.1f} %")


def _causes(axes: Any, one: Verdict) -> None:
    classes = np.array_split(np.argsort(one.predicted), _CLASSES)
    labels = [f"{np.median(one.predicted[rows]):.3g}" for rows in classes]
    below = np.zeros(len(classes))
    for name, part in one.causes.items():
        share = 100 * np.array([(part[rows] / one.predicted[rows]).mean() for rows in classes])
        if share.max() > 0:
            axes.bar(labels, share, bottom=below, label=name, width=0.9)
            below += share
    axes.tick_params(axis="x", labelsize=6)
    axes.set_xlabel("predicted time of the class (us, median)")
    axes.set_ylabel("share of causes (%)")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
