"""``tessera perf``: predicted times of operations on real boards, with the expected error."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem

from vgpu_sim.cli import quantity
from vgpu_sim.cli.errors import INVALID, fail
from vgpu_sim.cli.groups import VerbGroup
from vgpu_sim.perf.boards import BOARDS, find_board
from vgpu_sim.perf.errors import PerfError, UnknownBoard

_F = TypeVar("_F", bound=Callable[..., Any])
_Names = str | tuple[str | None, ...] | None
# An operation too large for any memory is refused elsewhere; this bound prevents overflow.
SIZE: Final = click.IntRange(min=1, max=10**15)


def bytes_option(subject: str) -> Callable[[_F], _F]:
    """Return a decorator that adds the option --bytes, whose value is a number or a size as
    Kubernetes writes it.
    """
    return click.option(
        "--bytes",
        "size",
        required=True,
        metavar="SIZE",
        callback=quantity.convert,
        help=f"{subject}: 4Gi, 512Mi, 4G or a number.",
    )


def new_file(
    _context: click.Context, _parameter: click.Parameter, value: Path | None
) -> Path | None:
    """Return the path of an output file; refuse the path if its folder does not exist.

    The command checks the path before any work, and writes the file at the end.
    """
    if value is not None and not value.parent.is_dir():
        raise click.BadParameter(f"{value.parent} is not a directory")
    return value


_Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def make_completer(names: Iterable[str]) -> _Complete:
    """Return a shell completion for ``names``. In a comma-separated list, it completes the last
    item.
    """

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        prefix, comma, last = incomplete.rpartition(",")
        return [CompletionItem(prefix + comma + name) for name in names if name.startswith(last)]

    return complete


def _find_boards(text: str | None, ctx: click.Context) -> str | None:
    """Return the names of boards in a list such as A,B. Raises click.UsageError."""
    try:
        return text and ",".join(find_board(name).name for name in text.split(","))
    except UnknownBoard as err:
        raise click.UsageError(str(err), ctx) from err


def to_board_names(ctx: click.Context, _: click.Parameter, value: _Names) -> _Names:
    """Return the names of the boards that the value of an option means. Raises click.UsageError."""
    if isinstance(value, tuple):
        return tuple(_find_boards(names, ctx) for names in value)
    return _find_boards(value, ctx)


board_option = click.option(
    "--board",
    required=True,
    metavar="NAME",
    help=f"One of {', '.join(BOARDS)}; or several, as in A,B.",
    callback=to_board_names,
    shell_complete=make_completer(BOARDS),
)


@click.group(
    cls=VerbGroup,
    help="Predict what operations take on real boards (modelled, with the expected error).",
)
def command() -> None:
    """Define the group of the commands that predict times."""


def exit_with_error(err: PerfError) -> NoReturn:
    """End the command with the error in one line."""
    fail(err, INVALID)
