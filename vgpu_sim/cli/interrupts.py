"""Decides when Ctrl-C ends a program of ``tessera run``, regardless of the program's own
handler.
"""

import termios
from typing import Final

_ONE_PRESS_S: Final = 0.3
_LOCAL_FLAGS: Final = 3  # index of the local modes in tcgetattr's result


class Interrupts:
    """Counts the interrupts (SIGINT) of a program. The program handles the first interrupt itself;
    the second interrupt ends the program.

    Otherwise a program that waits for a kernel could not be interrupted, because it cannot run
    its handler. Interrupts that arrive together count as one: timeout(1) sends its signal twice,
    to the command and to the command's process group.
    """

    def __init__(self) -> None:
        self._first_s: float | None = None

    def count(self, now_s: float) -> bool:
        """Count an interrupt at ``now_s``, in seconds of the monotonic clock. Return True if the
        interrupt ends the program.
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
