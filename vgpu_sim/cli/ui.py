"""``tessera ui``: loads the console, which is a package above this one with an extra of its own.

The console is imported by its name, as plug-ins are: nothing in this package depends on it.
"""

import importlib
from typing import Final

import click

_CONSOLE: Final = "console.command"


def command() -> click.Command:
    """Return the console's command, or one that names the missing packages."""
    try:
        console_command: click.Command = importlib.import_module(_CONSOLE).command
    except ImportError as err:
        missing = str(err.name or err)

        @click.command("ui", context_settings={"ignore_unknown_options": True})
        @click.argument("arguments", nargs=-1)
        def unavailable(arguments: tuple[str, ...]) -> None:
            """Open the console of a cluster (needs `pip install tessera[console]`)."""
            del arguments
            message = f"ui: {missing} is not installed; `pip install 'tessera[console]'` has it"
            raise click.ClickException(message)

        return unavailable
    return console_command
