"""How ``tessera perf predict`` and ``compare`` answer: text, JSON, drawings."""

import json
from collections.abc import Callable, Sequence

import click

from drawing import terminal, terminal_causes
from drawing.causes import Stack
from drawing.documents import Figure
from drawing.terminal import Span
from vgpu_sim.cli import pictures
from vgpu_sim.cli.perf.group import exit_with_error
from vgpu_sim.perf.errors import PerfError
from vgpu_sim.perf.prediction import Prediction

_CAUSE_COLUMNS = 56  # of a line with a cause, without its bar
_MECHANISTIC = "vgpu_sim.cli.perf.answers.mechanistic"


def _remember(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[_MECHANISTIC] = value


def with_json(function: Callable[..., None]) -> Callable[..., None]:
    """Return the command function with the options that all operations share, such as --json."""
    mechanistic = click.option(
        "--mechanistic",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Leave out the fitted residual.",
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    return mechanistic(pictures.with_pictures(as_json(function)))


def print_prediction(
    board: str, ask: Callable[[str], Prediction], title: str, as_json: bool
) -> None:
    """Print the prediction for a board, a table for several boards (A,B), or the error."""
    try:
        every = [ask(name) for name in board.split(",")]
        if click.get_current_context().meta.get(_MECHANISTIC):
            every = [prediction.mechanistic() for prediction in every]
    except PerfError as err:
        exit_with_error(err)
    pictures.write_files(f"{title} (modelled)", lambda: _figures(every, title))
    if pictures.current().takes_stdout:
        return
    if as_json:
        rows = [prediction.as_json() for prediction in every]
        click.echo(json.dumps(rows[0] if len(rows) == 1 else rows, indent=2))
    elif len(every) > 1:
        _beside(every, title)
    else:
        _print(every[0], title)


def _figures(every: Sequence[Prediction], title: str) -> Sequence[Figure]:
    from vgpu_sim.perf.pictures import figures_of

    return figures_of(every, title)


def _beside(every: list[Prediction], title: str) -> None:
    """Print the causes of the time on each board, side by side."""
    pictures.echo_text(f"{title} (modelled)")
    click.echo(" " * 30 + "".join(f"{prediction.board.name:>16}" for prediction in every))
    rows = {"time (us)": [prediction.us for prediction in every]}
    rows["± (%)"] = [prediction.percent for prediction in every]
    causes = dict.fromkeys(cause for prediction in every for cause in prediction.stack)
    rows |= {
        f"  {cause}": [prediction.stack.get(cause, 0) for prediction in every] for cause in causes
    }
    rows |= {rate: [prediction.rates[rate] for prediction in every] for rate in every[0].rates}
    for name, values in rows.items():
        click.echo(f"{name:30}" + "".join(f"{value:16.2f}" for value in values))
    if pictures.current().wants_text:
        stacks = [
            Stack(prediction.board.name, prediction.us, prediction.stack, prediction.interval)
            for prediction in every
        ]
        pictures.print_lines(terminal_causes.draw_stacks(stacks, terminal.width()))


def _print(prediction: Prediction, title: str) -> None:
    dtype = "" if prediction.dtype == "bytes" else f"{prediction.dtype}, "
    pictures.echo_text(f"{title}, {dtype}on {prediction.board.product} (modelled)")
    low, high = prediction.interval
    rates = "; ".join(f"{value:.4g} {unit}" for unit, value in prediction.rates.items())
    within = f"\u00b1 {prediction.percent:.0f} % (90 %: {low:.4g} to {high:.4g} us)"
    pictures.echo_text(f"{prediction.us:.4g} us {within}; {rates}")
    longest_us = max(prediction.stack.values(), default=0.0)
    room = terminal.width() - _CAUSE_COLUMNS if pictures.current().wants_text else 0
    for cause, part in prediction.stack.items():
        text = f"  {cause:28}{part:12.2f} us {100 * part / prediction.us:5.1f} %"
        bar = terminal.draw_bar(part, longest_us, room)
        pictures.print_lines([(Span(text), Span(f"  {bar}", "blue"))])
    for transfer in prediction.shape.get("transfers", ()):
        ends = f"{transfer['from']} to {transfer['to']}"
        limit = f"limited by {transfer['limited_by']}"
        click.echo(
            f"  {ends:28}{transfer['gb_per_s']:9.2f} GB/s {transfer['us']:12.2f} us  {limit}"
        )
        click.echo(f"    {transfer['way']}")
    choice = ", ".join(f"{name} {value}" for name, value in prediction.choice.items())
    rows = f"fitted to {prediction.fitted.rows} rows of {prediction.fitted.source}"
    pictures.echo_text("; ".join(filter(None, (choice and f"kernel: {choice}", rows))))
    if prediction.fitted.note:
        pictures.echo_text(f"note: {prediction.fitted.note}")
