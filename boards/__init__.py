"""One module for each board: its MIG geometry, silicon, sensors and performance figures.

``RECORDS`` holds the ``RECORD`` of each module in this folder: to add a board, add a module.
Standard library only; every other package may import this one.
"""

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

from boards.record import BoardRecord

__all__ = ["RECORDS"]


def _records() -> Iterator[BoardRecord]:
    """Yield the record of each board's module; the package ``record`` is not a board."""
    for module in pkgutil.iter_modules(__path__):
        if not module.ispkg:
            record: BoardRecord = import_module(f"{__name__}.{module.name}").RECORD
            yield record


RECORDS: Final[Mapping[str, BoardRecord]] = MappingProxyType(
    {one.key: one for one in sorted(_records(), key=lambda one: (one.order, one.key))}
)
"""The boards by key, in the order in which listings print them."""
