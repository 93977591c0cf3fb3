"""gpud's readiness file, which exists only while gpud serves or stands by.

The file is also gpud's heartbeat (``heartbeat``). Its volume outlives the container, so each start
removes the file first. For that reason this module imports as little as possible.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

OPTION = "--ready-file"


def withdraw_named(arguments: Sequence[str]) -> None:
    """Remove the readiness file that a command line names, if there is one.

    Errors are ignored here, because the command later encounters the same error and reports it.
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
    """Remove the readiness file. Raises OSError."""
    if path is not None:
        path.unlink(missing_ok=True)


def announce(path: Path | None) -> None:
    """Create the readiness file. Raises OSError."""
    if path is not None:
        path.write_text("ready\n", encoding="ascii")
