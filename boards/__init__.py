"""One module for each board: its MIG geometry, silicon, sensors and performance figures.

Whatever lists boards reads ``RECORDS``, which holds the ``RECORD`` of each module in this folder: a
new module is a new board. Standard library only; every other package may import it.
"""

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

from boards.record import BoardRecord

__all__ = ["RECORDS"]


def _listed() -> Iterator[BoardRecord]:
    """Yield the record of each module in this folder; ``record`` is a folder, and no board."""
    for module in pkgutil.iter_modules(__path__):
        if not module.ispkg:
            record: BoardRecord = import_module(f"{__name__}.{module.name}").RECORD
            yield record


RECORDS: Final[Mapping[str, BoardRecord]] = MappingProxyType(
    {one.key: one for one in sorted(_listed(), key=lambda one: (one.order, one.key))}
)
"""The boards by key, in the order of listings."""
