"""Options that name boards: which board is meant, and shell completion."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from mig import geometry
from mig.errors import UnknownBoardError
from mig.geometry import Board

_F = TypeVar("_F", bound=Callable[..., Any])


def _to_board(ctx: click.Context, param: click.Parameter, value: str | None) -> Board | None:
    if value is None:  # None during completion, and where the option is optional.
        return None
    try:
        return geometry.find_board(value)
    except UnknownBoardError as err:
        raise click.UsageError(str(err), ctx) from err


def to_key(ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Return the key of the board that a user means. Raises click.UsageError."""
    board = _to_board(ctx, _param, value)
    assert board is not None
    return board.key


def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [
        CompletionItem(key, help=board.product_name)
        for key, board in geometry.BOARDS.items()
        if key.startswith(incomplete)
    ]


def _option(required: bool) -> Callable[[_F], _F]:
    # Eager: other options' completions need the board.
    return click.option(
        "--board",
        required=required,
        is_eager=True,
        callback=_to_board,
        shell_complete=complete,
        metavar="BOARD",
        help="Board, such as h100-80gb; `tessera mig boards` lists all.",
    )


option = _option(required=True)
optional = _option(required=False)


def select_boards(ctx: click.Context) -> list[Board]:
    """Return the board named by ``--board``, or all boards where the option is absent."""
    board = ctx.params.get("board")
    return [board] if isinstance(board, Board) else list(geometry.BOARDS.values())
