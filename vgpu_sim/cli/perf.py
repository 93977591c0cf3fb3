"""``tessera perf``: what operations would take on real boards, with the error beside it."""

import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.errors import PerfError

_UNREADABLE = 2


_Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completes(names: Iterable[str]) -> _Complete:
    """Return what completes one of ``names``; of several with commas between them, the last."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(before + comma + one) for one in names if one.startswith(last)]

    return complete


board_option = click.option(
    "--board",
    required=True,
    metavar="NAME",
    help=f"One of {', '.join(BOARDS)}.",
    shell_complete=completes(BOARDS),
)


@click.group(help="Predict what operations take on real boards (modelled, with its error).")
def command() -> None:
    """Group the verbs."""


def refuse(err: PerfError) -> NoReturn:
    """End with a line that names what cannot be answered and why."""
    click.echo(f"error: {err}", err=True)
    sys.exit(_UNREADABLE)
