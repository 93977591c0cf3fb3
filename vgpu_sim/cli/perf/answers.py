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
            every = [found.mechanistic() for found in every]
    except PerfError as err:
        exit_with_error(err)
    pictures.write_files(f"{title} (modelled)", lambda: _figures(every, title))
    if pictures.current().takes_stdout:
        return
    if as_json:
        rows = [found.as_json() for found in every]
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
    click.echo(" " * 30 + "".join(f"{found.board.name:>16}" for found in every))
    rows = {"time (us)": [found.us for found in every]}
    rows["± (%)"] = [found.percent for found in every]
    causes = dict.fromkeys(cause for found in every for cause in found.stack)
    rows |= {f"  {one}": [found.stack.get(one, 0) for found in every] for one in causes}
    rows |= {rate: [found.rates[rate] for found in every] for rate in every[0].rates}
    for name, values in rows.items():
        click.echo(f"{name:30}" + "".join(f"{value:16.2f}" for value in values))
    if pictures.current().wants_text:
        stacks = [Stack(one.board.name, one.us, one.stack, one.interval) for one in every]
        pictures.print_lines(terminal_causes.draw_stacks(stacks, terminal.width()))


def _print(found: Prediction, title: str) -> None:
    dtype = "" if found.dtype == "bytes" else f"{found.dtype}, "
    pictures.echo_text(f"{title}, {dtype}on {found.board.product} (modelled)")
    low, high = found.interval
    rates = "; ".join(f"{value:.4g} {unit}" for unit, value in found.rates.items())
    within = f"\u00b1 {found.percent:.0f} % (90 %: {low:.4g} to {high:.4g} us)"
    pictures.echo_text(f"{found.us:.4g} us {within}; {rates}")
    most = max(found.stack.values(), default=0.0)
    room = terminal.width() - _CAUSE_COLUMNS if pictures.current().wants_text else 0
    for cause, part in found.stack.items():
        text = f"  {cause:28}{part:12.2f} us {100 * part / found.us:5.1f} %"
        bar = terminal.draw_bar(part, most, room)
        pictures.print_lines([(Span(text), Span(f"  {bar}", "blue"))])
    for one in found.shape.get("transfers", ()):
        ends = f"{one['from']} to {one['to']}"
        limit = f"limited by {one['limited_by']}"
        click.echo(f"  {ends:28}{one['gb_per_s']:9.2f} GB/s {one['us']:12.2f} us  {limit}")
        click.echo(f"    {one['way']}")
    choice = ", ".join(f"{name} {value}" for name, value in found.choice.items())
    rows = f"fitted to {found.fitted.rows} rows of {found.fitted.source}"
    pictures.echo_text("; ".join(filter(None, (choice and f"kernel: {choice}", rows))))
    if found.fitted.note:
        pictures.echo_text(f"note: {found.fitted.note}")
