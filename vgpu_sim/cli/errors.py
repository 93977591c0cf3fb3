"""How verbs report errors: lines that begin with "error:" on stderr, and two exit statuses."""

import contextlib
import re
from typing import Final, NoReturn

import click

from boards.record.names import did_you_mean
from drawing.terminal import clean

FAILED: Final = 1  # the answer is "no", or something failed
INVALID: Final = 2  # wrong usage, or input that cannot be read or is invalid; click's own for usage

_CLICKS: Final = re.compile(r"(Could|Got|Invalid|Missing|No|Option|The|Value) ")


class InvalidInput(click.ClickException):
    """Input cannot be read, or is not what the verb accepts; the message names the input."""

    exit_code = INVALID


def report(message: str) -> None:
    """Print an error on stderr. The first line begins with "error:"."""
    with contextlib.suppress(OSError):  # a full disk behind stderr must not replace the status
        click.echo("\n".join(map(clean, f"error: {message}".splitlines())), err=True)


def fail(message: object, status: int = FAILED) -> NoReturn:
    """Print an error, and end the verb with this status."""
    report(str(message))
    raise click.exceptions.Exit(status)


def show(err: click.ClickException) -> None:
    """Print an exception of click in the form of all errors, with a pointer to the verb's help."""
    if isinstance(err, click.exceptions.NoArgsIsHelpError):
        with contextlib.suppress(OSError):
            err.show()
        return
    report(describe(err))
    if isinstance(err, click.UsageError) and err.ctx is not None:
        with contextlib.suppress(OSError):
            click.echo(f"See '{err.ctx.command_path} --help' for usage.", err=True)


def describe(err: click.ClickException) -> str:
    """Return the message of an exception; click's own messages follow the form of the verbs'."""
    if isinstance(err, click.exceptions.NoSuchCommand):
        return f"no command {err.command_name!r}{did_you_mean((err.possibilities or ())[:1])}"
    if isinstance(err, click.NoSuchOption):
        return f"no option {err.option_name}{did_you_mean((err.possibilities or ())[:1])}"
    text = err.format_message()
    if isinstance(err, click.UsageError) and _CLICKS.match(text):
        return text[0].lower() + text[1:].removesuffix(".")
    return text
