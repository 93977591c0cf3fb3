"""Progress of long work: one line on stderr with the position, the time left and the rate.

The line is printed only if stderr is a terminal, so that logs have none.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from drawing import terminal

_ERASE: Final = "\r\x1b[K"
_OTHERS: Final = 36  # columns of position, time left, rate and separators


class Progress:
    """The line; each method does nothing if there is none."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar

    def begin(self, item: str) -> None:
        """Show what is being worked on."""
        if self._bar is not None:
            self._bar.current_item = item
            self._bar.render_progress()

    def advance(self) -> None:
        """Count what was begun as done, and erase the line, so that other lines can be printed."""
        if self._bar is not None:
            self._bar.update(1)
            click.echo(_ERASE, nl=False, err=True)


@contextmanager
def track(label: str, length: int) -> Iterator[Progress]:
    """Show the progress of ``length`` items of work in the enclosed block."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    room = terminal.width() - len(label) - _OTHERS

    def describe(item: str | None) -> str:
        rate = f"{1 / bar.time_per_iteration:.3g}/s  " if bar.time_per_iteration else ""
        return rate + terminal.clean(item or "")[: max(room, 0)]

    bar = click.progressbar(
        length=length,
        label=label,
        file=sys.stderr,
        show_pos=True,
        bar_template="%(label)s  %(info)s",
        item_show_func=describe,
    )
    with bar:
        yield Progress(bar)
        click.echo(_ERASE, nl=False, err=True)
