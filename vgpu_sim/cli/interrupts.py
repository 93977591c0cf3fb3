"""Decides when Ctrl-C ends a program of ``tessera run``, regardless of the program's own
handler.
"""

import termios
from typing import Final

_ONE_PRESS_S: Final = 0.3
_LOCAL_FLAGS: Final = 3  # index of the local modes in tcgetattr's result


class Interrupts:
    """Counts interrupts (SIGINT). The program handles the first one; the second one ends the
    program.

    A program that waits for a kernel cannot run its handler. Interrupts that arrive together
    count as one: timeout(1) sends its signal to the command, and to the command's process group.
    """

    def __init__(self) -> None:
        self._first_s: float | None = None

    def count(self, now_s: float) -> bool:
        """Count an interrupt at a time of the monotonic clock in seconds; return True if it ends
        the program.
        """
        if _at_a_prompt():
            return False
        if self._first_s is None:
            self._first_s = now_s
        return now_s - self._first_s > _ONE_PRESS_S


def _at_a_prompt() -> bool:
    """Return whether a line is being edited at the terminal, for example at the prompt of Python or
    of a shell.

    There Ctrl-C discards the line and does not end the program, however often it arrives.
    """
    try:
        return not termios.tcgetattr(0)[_LOCAL_FLAGS] & termios.ICANON
    except (termios.error, OSError):  # standard input is not a terminal
        return False
