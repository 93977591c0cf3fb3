"""The correlation page: one HTML file with accuracy, plots as SVG, and the worst shapes."""

from collections.abc import Sequence
from html import escape
from typing import Any, Final

import numpy as np

from vgpu_sim.perf import plots
from vgpu_sim.perf.validation.families import Verdict

_HEAD: Final = (
    "table",
    "fitted",
    "tested",
    "left out",
    "MAPE %",
    "median %",
    "p90 %",
    "bias %",
    "+res %",
)
_CLASSES: Final = 12  # classes of time, in the bars of causes


def page(verdicts: Sequence[Verdict]) -> str:
    """Return an HTML page that shows the results of validations. Raises NoData if matplotlib is not
    installed.
    """
    body = "\n".join(_section(verdict) for verdict in verdicts)
    source = escape(verdicts[0].fitted.source.split(",")[0]) if verdicts else "no measurements"
    return plots.document(
        "predicted and measured times",
        f"""<p>Times are modelled. Measurements: {source}. None of the compared rows was fitted;
errors are relative to the measured time.</p>
{_summary(verdicts)}
{body}""",
    )


def _summary(verdicts: Sequence[Verdict]) -> str:
    rows = [plots.row((*_HEAD, "log-corr", "in 90 %", "goal"), "th")]
    for verdict in verdicts:
        accuracy = verdict.accuracy
        name = escape(f"{verdict.family.name}/{verdict.key}")
        cells = (
            f'<a href="#{name}">{name}</a>',
            verdict.fitted.rows,
            accuracy.rows,
            verdict.excluded,
            f"{accuracy.mape:.1f}",
            f"{accuracy.median:.1f}",
            f"{accuracy.p90:.1f}",
            f"{accuracy.bias:+.1f}",
            f"{verdict.corrected.mape:.1f}" if verdict.corrected else "-",
            f"{accuracy.log_correlation:.4f}",
            f"{accuracy.inside:.1f}",
            verdict.goal or "-",
        )
        rows.append(plots.row(cells, css=' class="missed"' if verdict.met is False else ""))
    return f"<table>{''.join(rows)}</table><p>Red: the goal is missed.</p>"


def _section(verdict: Verdict) -> str:
    name = escape(f"{verdict.family.name}/{verdict.key}")
    rule = f"<p>Left out: {escape(verdict.family.excluded)}</p>" if verdict.family.excluded else ""
    shape = list(verdict.worst[0].shape) if verdict.worst else []
    rows = [plots.row((*shape, "measured us", "predicted us", "error %", "suspected"), "th")]
    rows += [
        plots.row(
            (
                *(escape(str(value)) for value in wrong.shape.values()),
                f"{wrong.measured:.4g}",
                f"{wrong.predicted:.4g}",
                f"{wrong.error:+.0f}",
                escape(wrong.suspect),
            )
        )
        for wrong in verdict.worst
    ]
    return f"""<h2 id="{name}">{name}</h2>
<p>Fitted to {verdict.fitted.rows} rows of {escape(verdict.fitted.source)}.</p>{rule}
{_plots(verdict)}
<h3>The {len(verdict.worst)} worst shapes</h3><table>{"".join(rows)}</table>"""


def _plots(verdict: Verdict) -> str:
    """Return plots of predicted over measured times, and of each cause's share by time."""
    return plots.side_by_side(
        lambda axes: _correlation(axes, verdict), lambda axes: _causes(axes, verdict)
    )


def _correlation(axes: Any, verdict: Verdict) -> None:
    style = {"xscale": "log", "yscale": "log", "bins": "log", "mincnt": 1, "linewidths": 0.1}
    axes.hexbin(verdict.measured, verdict.predicted, gridsize=70, cmap="viridis", **style)
    ends = [verdict.measured.min(), verdict.measured.max()]
    axes.plot(ends, ends, color="black", linewidth=0.6)
    axes.set_xlabel("measured (us)")
    axes.set_ylabel("predicted (us)")
    axes.set_title(f"{verdict.accuracy.rows} shapes, mean error {verdict.accuracy.mape:.1f} %")


def _causes(axes: Any, verdict: Verdict) -> None:
    classes = np.array_split(np.argsort(verdict.predicted), _CLASSES)
    labels = [f"{np.median(verdict.predicted[rows]):.3g}" for rows in classes]
    below = np.zeros(len(classes))
    for name, part in verdict.causes.items():
        share = 100 * np.array([(part[rows] / verdict.predicted[rows]).mean() for rows in classes])
        if share.max() > 0:
            axes.bar(labels, share, bottom=below, label=name, width=0.9)
            below += share
    axes.tick_params(axis="x", labelsize=6)
    axes.set_xlabel("predicted time of the class (us, median)")
    axes.set_ylabel("share of causes (%)")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
