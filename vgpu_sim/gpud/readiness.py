"""The file by which a gpud's pod becomes ready: there only while the gpud serves or stands by.

Its volume outlives the container, so each start removes it before anything else. For that this
module imports the least that it can.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

OPTION = "--ready-file"


def withdraw_named(arguments: Sequence[str]) -> None:
    """Remove the file that a command line names, if there is one.

    What cannot be removed is left to the command, which ends with the error.
    """
    for number, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name != OPTION:
            continue
        if not equals:
            value = arguments[number + 1] if number + 1 < len(arguments) else ""
        if value:
            with suppress(OSError):
                withdraw(Path(value))


def withdraw(path: Path | None) -> None:
    """Remove the file. Raises OSError."""
    if path is not None:
        path.unlink(missing_ok=True)


def announce(path: Path | None) -> None:
    """Make the file that a probe looks for. Raises OSError."""
    if path is not None:
        path.write_text("ready\n", encoding="ascii")
