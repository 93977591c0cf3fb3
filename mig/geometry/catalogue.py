"""The boards that can be simulated, by key."""

from collections.abc import Mapping
from types import MappingProxyType

from boards import RECORDS
from boards.record.names import UnknownNameError, resolve
from mig.errors import UnknownBoardError
from mig.geometry.boards import Board
from mig.geometry.rows import build

BOARDS: Mapping[str, Board] = MappingProxyType(
    {
        record.key: build(record, record.device.geometry)
        for record in RECORDS.values()
        if record.device is not None
    }
)


def board(key: str) -> Board:
    """Return the board with this key. Raises UnknownBoardError, which suggests keys."""
    try:
        return BOARDS[key]
    except KeyError:
        raise UnknownBoardError(key, BOARDS) from None


def find_board(name: str) -> Board:
    """Return the board that a user means by ``name``, such as ``A30`` or ``rtx-pro``. Raises
    UnknownBoardError.
    """
    try:
        return BOARDS[resolve("board", name, BOARDS)]
    except UnknownNameError:
        raise UnknownBoardError(name, BOARDS) from None
