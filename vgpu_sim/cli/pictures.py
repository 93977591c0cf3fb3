"""The options with which verbs draw: ``--svg FILE``, ``--html FILE`` and ``--draw``."""

import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import click

from drawing import terminal
from drawing.documents import Figure, write_html, write_svg
from drawing.terminal import Line
from vgpu_sim.cli import outputs
from vgpu_sim.records import dataclass

_META: Final = "vgpu_sim.cli.pictures"


@dataclass(slots=True)
class Request:
    """The pictures that the user requests; ``draw`` is None if the user has not decided."""

    svg: str | None = None
    html: str | None = None
    draw: bool | None = None

    @property
    def wants_files(self) -> bool:
        """Return whether a file is requested."""
        return self.svg is not None or self.html is not None

    @property
    def takes_stdout(self) -> bool:
        """Return whether a file is standard output, so that no text may be printed there."""
        return "-" in (self.svg, self.html)

    @property
    def wants_text(self) -> bool:
        """Return whether to draw in the terminal: by default, only if standard output is one."""
        return self.wants_text_on(sys.stdout)

    def wants_text_on(self, stream: TextIO) -> bool:
        """Return whether to draw on a stream: by default, only if it is a terminal."""
        return stream.isatty() if self.draw is None else self.draw


def _remember(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if name != "draw" and value not in (None, "-") and not Path(value).parent.is_dir():
            raise click.BadParameter(f"{Path(value).parent} is not a directory", context, parameter)
        setattr(_request_of(context), name, value)

    return remember


def _request_of(context: click.Context) -> Request:
    request: Request = context.meta.setdefault(_META, Request())
    return request


_SVG: Final = click.option(
    "--svg",
    type=outputs.FILE,
    metavar="FILE",
    expose_value=False,
    callback=_remember("svg"),
    help="Write a drawing as SVG to FILE (-: stdout).",
)
_HTML: Final = click.option(
    "--html",
    type=outputs.FILE,
    metavar="FILE",
    expose_value=False,
    callback=_remember("html"),
    help="Write a page with drawings and tables to FILE (-: stdout); it needs no other file.",
)
_DRAW: Final = click.option(
    "--draw/--no-draw",
    default=None,
    expose_value=False,
    callback=_remember("draw"),
    help="Draw in the terminal, too; default: if the output is a terminal.",
)


def with_pictures(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command function with ``--svg``, ``--html`` and ``--draw``."""
    return _SVG(_HTML(_DRAW(function)))


def current() -> Request:
    """Return the pictures that the running command was requested to make."""
    return _request_of(click.get_current_context())


def write_files(
    title: str, figures: Callable[[], Sequence[Figure]], notes: Iterable[str] = ()
) -> None:
    """Write the requested files; ``figures`` is called only if there is one.

    Raises:
        click.ClickException: a file cannot be written.
    """
    request = current()
    if not request.wants_files:
        return
    if request.svg == request.html == "-":
        raise click.UsageError("only one of --svg and --html can be standard output")
    drawn = figures()
    if request.svg is not None:
        outputs.write_text(request.svg, write_svg(drawn).encode())
    if request.html is not None:
        outputs.write_text(request.html, write_html(title, drawn, tuple(notes)).encode())


def print_lines(lines: Iterable[Line], *, err: bool = False) -> None:
    """Print lines of a drawing on stdout, or on stderr, with colours on a terminal only."""
    coloured = terminal.is_coloured(sys.stderr if err else sys.stdout)
    for line in lines:
        click.echo(terminal.format_line(line, coloured=coloured), err=err, color=coloured)


def echo_text(text: str) -> None:
    """Print text beside a drawing: in lines that are no wider than the terminal."""
    if current().wants_text:
        indent = text[: len(text) - len(text.lstrip())]
        text = textwrap.fill(
            text.strip(), terminal.width(), initial_indent=indent, subsequent_indent=f"{indent}  "
        )
    click.echo(text)
