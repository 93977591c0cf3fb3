"""Lines, tables and documents on standard output; colours on a terminal only."""

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import click
import yaml

from console import config


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a line; ``style`` are click's arguments for its colour."""

    text: str
    colour: str = ""
    bold: bool = False


Line = str | Sequence[Span]


def clean(text: str) -> str:
    """Replace what a terminal would interpret: names and messages are from the cluster."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def is_coloured() -> bool:
    """Return whether standard output is a terminal that shows colours, and the user permits it."""
    return sys.stdout.isatty() and config.permits_colours()


def width() -> int:
    """Return the columns of the terminal; 80 if there is none."""
    return max(shutil.get_terminal_size().columns, 1)


def write_lines(lines: Iterable[Line]) -> None:
    """Print lines."""
    coloured = is_coloured()
    for line in lines:
        spans = (Span(line),) if isinstance(line, str) else line
        parts = []
        for span in spans:
            text = clean(span.text)
            styled = coloured and (span.colour or span.bold)
            parts.append(
                click.style(text, fg=span.colour or None, bold=span.bold or None)
                if styled
                else text
            )
        click.echo("".join(parts).rstrip(), color=coloured)


def write_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with columns as wide as their content, as kubectl does."""
    table = [tuple(head), *(tuple(map(clean, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    write_lines(
        "   ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True))
        for row in table
    )


def write_document(document: Any, form: str) -> None:
    """Print a document as JSON or YAML; both escape control characters."""
    if form == "json":
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False), nl=False)
