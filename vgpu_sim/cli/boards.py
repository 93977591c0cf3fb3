"""The ``--board`` option of several verbs: checked and completed in one place."""

import click
from click.shell_completion import CompletionItem

from mig import geometry
from mig.errors import UnknownBoardError
from mig.geometry import Board


def _to_board(ctx: click.Context, param: click.Parameter, value: str | None) -> Board | None:
    if value is None:  # only while completing: the option is required
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


# Eager, so that the board is known when other options are completed.
option = click.option(
    "--board",
    required=True,
    is_eager=True,
    callback=_to_board,
    shell_complete=_complete,
    metavar="BOARD",
    help="Such as h100-80gb; an unknown one lists all.",
)


def chosen(ctx: click.Context) -> list[Board]:
    """Return the board that is given, or all while none is."""
    board = ctx.params.get("board")
    return [board] if isinstance(board, Board) else list(geometry.BOARDS.values())
