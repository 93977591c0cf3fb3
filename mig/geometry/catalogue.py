"""The boards that exist, by key."""

from collections.abc import Mapping
from types import MappingProxyType

from mig.errors import UnknownBoardError
from mig.geometry.boards import Board
from mig.geometry.rows import build
from mig.geometry.tables import TABLES

BOARDS: Mapping[str, Board] = MappingProxyType({table.key: build(table) for table in TABLES})


def board(key: str) -> Board:
    """Return the board of this key. Raises UnknownBoardError, which names the known ones."""
    try:
        return BOARDS[key]
    except KeyError:
        raise UnknownBoardError(key, BOARDS) from None
