"""``rdma matrix``: pods by pods with the verbs that pass, as a table or a document."""

from typing import Any

import click

from console.kubectl import output
from console.views.reach import LEGEND, Cell, Matrix
from facts.wording import count_of


def write_matrix(found: Matrix, form: str, scope: str) -> None:
    """Print a matrix of the pods of a namespace; rows send, columns receive."""
    if form in ("json", "yaml"):
        output.write_document(_document(found), form)
        return
    if not found.pods:
        click.echo(f"No pod {output.describe_scope(scope)} holds an HCA.", err=True)
        return
    names = [f"{pod.namespace}/{pod.name}" for pod in found.pods]
    head = ["", "FROM \\ TO", *map(str, range(1, len(names) + 1))]
    rows = (
        [str(number), name, *map(_text, cells)]
        for number, (name, cells) in enumerate(zip(names, found.cells, strict=True), 1)
    )
    output.write_table(head, rows)
    letters = "  ".join(f"{letter} {name}" for letter, name in LEGEND)
    output.write_lines([f"all every verb  - none  ! not evaluated  {letters}"])
    for name, cells in zip(names, found.cells, strict=True):
        for other, cell in zip(names, cells, strict=True):
            if cell.problem:
                output.write_lines([f"! {name} to {other}: {cell.problem}"])
    if found.more:
        more = count_of(found.more, "pod is", "pods are")
        click.echo(f"{more} not shown: --first N begins at another pod", err=True)


def _text(cell: Cell) -> str:
    return {"all": "all", "none": "-", "odd": "!"}.get(cell.kind, cell.letters)


def _document(found: Matrix) -> dict[str, Any]:
    names = [f"{pod.namespace}/{pod.name}" for pod in found.pods]
    return {
        "pods": names,
        "notShown": found.more,
        "cells": [
            {"from": a, "to": b, "verbs": cell.letters, "description": cell.label}
            for a, row in zip(names, found.cells, strict=True)
            for b, cell in zip(names, row, strict=True)
        ],
    }
