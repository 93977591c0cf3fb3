"""The boards that can be simulated, by key."""

from collections.abc import Mapping
from types import MappingProxyType

from boards import RECORDS
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
    """Return the board with this key. Raises UnknownBoardError, which names the known boards."""
    try:
        return BOARDS[key]
    except KeyError:
        raise UnknownBoardError(key, BOARDS) from None
