"""The ``--board`` option of several verbs: checked and completed in one place."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from mig import geometry
from mig.errors import UnknownBoardError
from mig.geometry import Board

_F = TypeVar("_F", bound=Callable[..., Any])


def _to_board(ctx: click.Context, param: click.Parameter, value: str | None) -> Board | None:
    if value is None:  # while completing, and where it is not required
        return None
    try:
        return geometry.board(value)
    except UnknownBoardError as err:
        raise click.BadParameter(str(err), ctx, param) from err


def _complete(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [
        CompletionItem(key, help=board.product_name)
        for key, board in geometry.BOARDS.items()
        if key.startswith(incomplete)
    ]


def _option(required: bool) -> Callable[[_F], _F]:
    # Eager, so that the board is known when other options are completed.
    return click.option(
        "--board",
        required=required,
        is_eager=True,
        callback=_to_board,
        shell_complete=_complete,
        metavar="BOARD",
        help="Such as h100-80gb; an unknown one lists all.",
    )


option = _option(required=True)
optional = _option(required=False)


def chosen(ctx: click.Context) -> list[Board]:
    """Return the board that is given, or all while none is."""
    board = ctx.params.get("board")
    return [board] if isinstance(board, Board) else list(geometry.BOARDS.values())
