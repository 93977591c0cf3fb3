"""Entry points of ``kubectl-tessera`` and of its completion, which load the rest on first use."""

import importlib
import logging
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

PROGRAM: Final = "kubectl tessera"
_WRONG: Final = 1  # as kubectl's; click's is 2
_INTERRUPTED: Final = 130
_DIRECTIVE: Final = ":4"  # kubectl: complete no file names


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the plugin, and exit with its status. Errors are one line, as kubectl's."""
    logging.getLogger("kubernetes").addHandler(logging.NullHandler())  # errors are raised as well
    try:
        command = _load()
        status = command.main(
            list(sys.argv[1:] if arguments is None else arguments),
            prog_name=PROGRAM,
            standalone_mode=False,
        )
    except click.exceptions.NoArgsIsHelpError as err:
        click.echo(err.format_message())
        sys.exit(0)
    except click.ClickException as err:
        message = "".join(c if c.isprintable() else " " for c in err.format_message())
        click.echo(f"error: {message}", err=True)
        sys.exit(_WRONG if isinstance(err, click.UsageError) else err.exit_code)
    except click.Abort:
        sys.exit(_INTERRUPTED)
    sys.exit(status if isinstance(status, int) else 0)


def complete(arguments: Sequence[str] | None = None) -> None:
    """Print the completions of the last argument, in the form that kubectl expects."""
    from click.shell_completion import ShellComplete

    *earlier_words, word = (sys.argv[1:] if arguments is None else arguments) or [""]
    try:
        completions = ShellComplete(_load(), {}, PROGRAM, "").get_completions(earlier_words, word)
    except click.ClickException:
        completions = []
    for completion in completions:
        click.echo(
            f"{completion.value}\t{completion.help}" if completion.help else completion.value
        )
    click.echo(_DIRECTIVE)


def _load() -> Any:
    try:
        return importlib.import_module("console.kubectl.command").command
    except ImportError as err:
        missing = str(err.name or err)
        text = f"{missing} is not installed; `pip install 'tessera[console]'` has it"
        raise click.ClickException(text) from err
