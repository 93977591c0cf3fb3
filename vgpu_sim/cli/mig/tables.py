"""How ``tessera mig`` prints: JSON, and tables with aligned columns."""

import json
from collections.abc import Iterable, Sequence

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def echo_json(value: object) -> None:
    click.echo(json.dumps(value))


def echo_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table whose columns are separated by two spaces; numbers are right-aligned, text is
    left-aligned.
    """
    cells = [tuple(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    numeric = [
        all(cell.replace(".", "", 1).isdigit() for cell in column)
        for column in zip(*cells, strict=True)
    ]
    for row in (tuple(heads), *cells):
        line = "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        click.echo(line.rstrip())
