"""Lines, tables and documents on standard output; colours on a terminal only."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
import yaml

from drawing import terminal
from drawing.terminal import Line, clean


def write_lines(lines: Iterable[Line]) -> None:
    """Print lines."""
    coloured = terminal.is_coloured(sys.stdout)
    for line in lines:
        click.echo(terminal.format_line(line, coloured=coloured), color=coloured)


def write_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with columns as wide as their content, as kubectl does."""
    table = [tuple(head), *(tuple(map(clean, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    write_lines(
        "   ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True))
        for row in table
    )


def describe_scope(scope: str) -> str:
    """Return where a list was read, with the option that reads more."""
    return f"in namespace {scope} (-A: in all namespaces)" if scope else "in any namespace"


def write_document(document: Any, form: str) -> None:
    """Print a document as JSON or YAML; both escape control characters."""
    if form == "json":
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False), nl=False)
