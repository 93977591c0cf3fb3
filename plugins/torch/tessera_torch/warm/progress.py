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
    for done, item in enumerate(items):
        write(_describe(label, done, len(items), time.monotonic() - started))
        yield item
        write("")


def write(text: str) -> None:
    """Replace the line; erase it with an empty text."""
    sys.stderr.write(f"{_ERASE}{text}")
    sys.stderr.flush()


def _describe(label: str, done: int, total: int, seconds: float) -> str:
    position = f"{label}  {done}/{total}"
    if not done or seconds <= 0:
        return position
    left = round(seconds * (total - done) / done)
    return f"{position}  {left // 60}:{left % 60:02} left  {done / seconds:.3g}/s"
