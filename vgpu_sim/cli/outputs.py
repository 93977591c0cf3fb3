"""Writes a verb's result to a file or standard output; never writes binary data to a terminal."""

import sys
from pathlib import Path

import click

# click would report a file that cannot be read or written as wrong usage.
FILE = click.Path(readable=False, writable=False, allow_dash=True)


def write_text(file: str, data: bytes) -> None:
    """Write the text ``data`` to ``file``; - is standard output.

    Raises:
        click.ClickException: the file cannot be written.
        OSError: standard output cannot be written.
    """
    if file == "-":
        stream = sys.stdout.buffer
        stream.write(data)
        stream.flush()
        return
    try:
        Path(file).write_bytes(data)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror or error}") from error


def write_binary(file: str, data: bytes, description: str) -> None:
    """Write the binary ``data`` to ``file``; ``description`` names it in the error.

    Raises:
        click.ClickException: the file is a terminal, or cannot be written.
        OSError: standard output cannot be written.
    """
    if file == "-" and sys.stdout.buffer.isatty():
        raise click.ClickException(
            f"{description} is binary, not text for a terminal: name a file with -o"
        )
    write_text(file, data)
