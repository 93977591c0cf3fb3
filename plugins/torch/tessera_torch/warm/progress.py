"""Progress of a sequence of calls: one line on stderr, only if it is a terminal.

It uses the standard library only: users' Python has none of Tessera's packages.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

_ERASE: Final = "\r\x1b[K"
_Value = TypeVar("_Value")


def follow(items: Sequence[_Value], label: str) -> Iterator[_Value]:
    """Yield the items, and show how many are done, their rate and the time left."""
    if not sys.stderr.isatty():
        yield from items
        return
    started = time.monotonic()
    for finished_count, item in enumerate(items):
        write(_describe(label, finished_count, len(items), time.monotonic() - started))
        yield item
        write("")


def write(text: str) -> None:
    """Replace the line; erase it with an empty text."""
    sys.stderr.write(f"{_ERASE}{text}")
    sys.stderr.flush()


def _describe(label: str, finished_count: int, total: int, seconds: float) -> str:
    position = f"{label}  {finished_count}/{total}"
    if not finished_count or seconds <= 0:
        return position
    remaining_s = round(seconds * (total - finished_count) / finished_count)
    rate = finished_count / seconds
    return f"{position}  {remaining_s // 60}:{remaining_s % 60:02} left  {rate:.3g}/s"
