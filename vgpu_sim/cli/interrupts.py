"""When Ctrl-C ends a program of ``tessera run``, whatever the program does with it."""

import termios
from typing import Final

_ONE_PRESS_S: Final = 0.3
_LOCAL_FLAGS: Final = 3  # in what tcgetattr returns


class Interrupts:
    """Counts interrupts (SIGINT): the first is the program's own affair, the second ends it.

    A program that waits for a kernel does not come to handle any. Interrupts that come together are
    one: timeout(1) sends its signal to the command, and to the group that it is in.
    """

    def __init__(self) -> None:
        self._first_s: float | None = None

    def count(self, now_s: float) -> bool:
        """Count an interrupt at a monotonic time; return whether it ends the program."""
        if _at_a_prompt():
            return False
        if self._first_s is None:
            self._first_s = now_s
        return now_s - self._first_s > _ONE_PRESS_S


def _at_a_prompt() -> bool:
    """Return whether a line is being edited at the terminal, as at Python's or a shell's prompt.

    There Ctrl-C ends the line and not the program, however often it comes.
    """
    try:
        return not termios.tcgetattr(0)[_LOCAL_FLAGS] & termios.ICANON
    except (termios.error, OSError):  # standard input is no terminal
        return False
